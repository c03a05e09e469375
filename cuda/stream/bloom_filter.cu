// SPDX-License-Identifier: Apache-2.0
#include "api/stream_spec.hpp"
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/key_rows.cuh"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "stream/bloom_filter.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// Any constant makes another hash of the mix that chose the partition.
constexpr uint64_t kFilterSeed = 0x9e3779b97f4a7c15ULL;

// The low bits of a hash choose bits, the high ones the word: they must not meet.
static_assert(kFilterWordsMax == 1ULL << (64 - 6 * kFilterBits));

// The word of a key and its bits in it.
struct FilterPlace {
    uint64_t word;
    unsigned long long bits;

    __device__ FilterPlace(uint64_t key, uint32_t shift) : bits(0) {
        const uint64_t hash = mix64(key ^ kFilterSeed);
        word = hash >> shift;
#pragma unroll
        for (int i = 0; i < kFilterBits; ++i) bits |= 1ULL << (hash >> (6 * i) & 63);
    }
};

template <class Key>
__global__ void add_keys(KeyRows<Key> in, uint32_t shift, unsigned long long* words) {
    const uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (!in.has_key(row)) return;
    const FilterPlace place(in.keys[row], shift);
    atomicOr(words + place.word, place.bits);
}

template <class Key>
__global__ void test_keys(KeyRows<Key> in, uint32_t shift, const unsigned long long* words, uint32_t* passes) {
    const uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    bool passed = false;
    if (in.has_key(row)) {
        const FilterPlace place(in.keys[row], shift);
        passed = (words[place.word] & place.bits) == place.bits;
    }
    const uint32_t lanes = __ballot_sync(kFullWarp, passed);
    if (lane_index() == 0 && row < in.rows) passes[row / 32] = lanes;
}

template <class Key>
KeyRows<Key> keys_of(const DeviceRelation& relation) {
    return {static_cast<const Key*>(relation.key.data), relation.key_valid, relation.rows};
}

// Returns the shift of a hash that leaves the number of a word. It is never by all 64 bits, which C++ does not define,
// because there are two words at least.
uint32_t shift_of(uint64_t words) {
    uint32_t bits = 0;
    while ((1ULL << bits) < words) ++bits;
    return 64 - bits;
}

}  // namespace

BloomFilter::BloomFilter(Device& device, uint64_t words) : device_(device), words_(words) {
    if (words < 2 || (words & (words - 1)) != 0 || words > kFilterWordsMax) {
        throw Error(ErrorCode::kInvalid, "a filter has a power of two of words, two at least and 2^40 at most");
    }
    memory_ = device.memory().allocate(words * sizeof(uint64_t), "filter of keys");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), device.stream()));
}

void BloomFilter::add(const DeviceRelation& relation) {
    count_moved(device_, relation.rows * relation.key.width);
    auto* const words = memory_.as<unsigned long long>();
    if (relation.key.width == 4) {
        launch(add_keys<uint32_t>, grid_of_threads(relation.rows, kStreamThreads), dim3(kStreamThreads), 0,
               device_.stream(), keys_of<uint32_t>(relation), shift_of(words_), words);
    } else {
        launch(add_keys<uint64_t>, grid_of_threads(relation.rows, kStreamThreads), dim3(kStreamThreads), 0,
               device_.stream(), keys_of<uint64_t>(relation), shift_of(words_), words);
    }
}

void BloomFilter::test(const DeviceRelation& relation, uint32_t* passes) {
    count_moved(device_, relation.rows * relation.key.width);
    const auto* const words = memory_.as<const unsigned long long>();
    if (relation.key.width == 4) {
        launch(test_keys<uint32_t>, grid_of_threads(relation.rows, kStreamThreads), dim3(kStreamThreads), 0,
               device_.stream(), keys_of<uint32_t>(relation), shift_of(words_), words, passes);
    } else {
        launch(test_keys<uint64_t>, grid_of_threads(relation.rows, kStreamThreads), dim3(kStreamThreads), 0,
               device_.stream(), keys_of<uint64_t>(relation), shift_of(words_), words, passes);
    }
}

}}  // namespace spillway::cuda::stream
