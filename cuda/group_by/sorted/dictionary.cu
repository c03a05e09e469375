// SPDX-License-Identifier: Apache-2.0
// Keys become their numbers by a hash table, key and number side by side: one memory sector per look. All keys are
// there, each once, before the first is looked for: filling the table compares nothing, and looking changes nothing, so
// that the keys of hot groups and of few groups come from the L1 cache of each multiprocessor.
// Bytes: a random access and 8 or 16 bytes per key; the key column, a random access and 4 bytes per row.
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/sorted/dictionary.hpp"
#include "group_by/sorted/sorted_policy.hpp"
#include "group_by/tables/slot_words.cuh"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr uint32_t kNoNumber = ~0U;

template <int kKeyWords>
struct Entry;
template <>
struct alignas(8) Entry<1> {
    uint32_t key;
    uint32_t number;  // kNoNumber: the place is free

    __device__ static Entry load(const Entry* at) {
        const uint2 words = __ldg(reinterpret_cast<const uint2*>(at));
        return {words.x, words.y};
    }
};
template <>
struct alignas(16) Entry<2> {
    uint64_t key;
    uint32_t number;
    uint32_t unused;

    __device__ static Entry load(const Entry* at) {
        const uint4 words = __ldg(reinterpret_cast<const uint4*>(at));
        return {words.x | static_cast<uint64_t>(words.y) << 32, words.z, words.w};
    }
};

// Bytes: a key in order, and a sector read and written at random per key; bound by the rate of atomics.
template <int kKeyWords>
__global__ void fill_dictionary(const typename MixedKey<kKeyWords>::Key* distinct, uint64_t keys,
                                Entry<kKeyWords>* entries, uint64_t slots) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < keys; i += step) {
        const auto key = distinct[i];
        uint64_t at = global_slot<kKeyWords>(MixedKey<kKeyWords>::mix(key), slots);
        while (atomicCAS(&entries[at].number, kNoNumber, static_cast<uint32_t>(i)) != kNoNumber) {
            at = at + 1 == slots ? 0 : at + 1;
        }
        entries[at].key = key;
    }
}

// Bytes: a key and a number in order, and a random sector per row; where caches hold the table those in order alone.
template <int kKeyWords>
__global__ void __launch_bounds__(kEncodeThreads)
    encode_rows(const typename MixedKey<kKeyWords>::Key* column, uint64_t rows, const Entry<kKeyWords>* entries,
                uint64_t slots, uint32_t* numbers) {
    constexpr uint64_t kBlockRows = static_cast<uint64_t>(kEncodeThreads) * kEncodeRows;
    for (uint64_t first = blockIdx.x * kBlockRows; first < rows; first += gridDim.x * kBlockRows) {
        typename MixedKey<kKeyWords>::Key key[kEncodeRows];
        uint64_t at[kEncodeRows];
        Entry<kKeyWords> entry[kEncodeRows];
#pragma unroll
        for (int i = 0; i < kEncodeRows; ++i) {
            const uint64_t row = first + i * kEncodeThreads + threadIdx.x;
            key[i] = row < rows ? __ldcs(&column[row]) : 0;
            at[i] = global_slot<kKeyWords>(MixedKey<kKeyWords>::mix(key[i]), slots);
        }
#pragma unroll
        for (int i = 0; i < kEncodeRows; ++i) entry[i] = Entry<kKeyWords>::load(&entries[at[i]]);
#pragma unroll
        for (int i = 0; i < kEncodeRows; ++i) {
            const uint64_t row = first + i * kEncodeThreads + threadIdx.x;
            if (row >= rows) continue;
            while (entry[i].number != kNoNumber && entry[i].key != key[i]) {
                at[i] = at[i] + 1 == slots ? 0 : at[i] + 1;
                entry[i] = Entry<kKeyWords>::load(&entries[at[i]]);
            }
            numbers[row] = entry[i].number;
        }
    }
}

template <int kKeyWords>
Allocation encode(Device& device, const void* column, uint64_t rows, const void* distinct, uint64_t keys) {
    using Key = typename MixedKey<kKeyWords>::Key;
    const cudaStream_t stream = device.stream();
    const uint64_t slots = keys * kDictionarySlotsPerKey;
    const Allocation table = device.memory().allocate(slots * sizeof(Entry<kKeyWords>), "dictionary of keys");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(table.as(), 0xff, table.bytes(), stream));
    // The table cleared, a slot read and written per key; keys read, a slot looked at and a number written per row.
    const auto slot_bytes = [&](uint64_t accesses) {
        return sector_bytes(device, accesses, sizeof(Entry<kKeyWords>), table.bytes());
    };
    count_moved(device, table.bytes() + keys * sizeof(Key) + 2 * slot_bytes(keys) +
                            rows * (sizeof(Key) + sizeof(uint32_t)) + slot_bytes(rows));
    auto* const entries = table.as<Entry<kKeyWords>>();
    launch(fill_dictionary<kKeyWords>, grid_over(device, keys, kEncodeThreads, 16), dim3(kEncodeThreads), 0, stream,
           static_cast<const Key*>(distinct), keys, entries, slots);
    Allocation numbers = device.memory().allocate(rows * sizeof(uint32_t), "numbers of keys");
    const uint64_t block_rows = static_cast<uint64_t>(kEncodeThreads) * kEncodeRows;
    launch(encode_rows<kKeyWords>, grid_over(device, rows, block_rows, 16), dim3(kEncodeThreads), 0, stream,
           static_cast<const Key*>(column), rows, entries, slots, numbers.as<uint32_t>());
    return numbers;
}

}  // namespace

Allocation encode_keys(Device& device, const DeviceColumn& key, uint64_t rows, const void* distinct, uint64_t keys) {
    const PhaseScope transform(device, Phase::kTransform);
    if (keys > kDictionaryKeysMax) throw Error(ErrorCode::kInvalid, "a dictionary of more than 2^31 keys");
    return key.width == 4 ? encode<1>(device, key.data, rows, distinct, keys)
                          : encode<2>(device, key.data, rows, distinct, keys);
}

}}  // namespace spillway::cuda::grouping
