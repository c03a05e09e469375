// SPDX-License-Identifier: Apache-2.0
// What a partitioning of 2^27 rows promises, looked at on the device: no host table is made of so many. A row carries
// its number, so that its key and its value are known from that; each number once is the multiset of rows. Nobody
// promises an order inside a partition (radix_policy.hpp), so none is looked for.
#include <cstdint>
#include <string>
#include <utility>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"
#include "support/device_array.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::PartitionedRows;

constexpr unsigned kBlocks = 1056;
constexpr unsigned kThreads = 256;

__device__ inline uint64_t first_item() {
    return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64_t item_step() {
    return static_cast<uint64_t>(gridDim.x) * blockDim.x;
}

// The rows of a relation by their numbers; hot: every second row has the same key.
struct RowsByNumber {
    uint64_t count;
    uint64_t seed;
    bool hot;

    __host__ __device__ static uint64_t scrambled(uint64_t number, uint64_t salt) {
        uint64_t x = number * 0x9e3779b97f4a7c15ULL + salt;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
        x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
        return x ^ x >> 31;
    }
    __host__ __device__ uint64_t key(uint64_t number) const {
        return scrambled(hot && number % 2 == 0 ? 7 : number, seed);
    }
    __host__ __device__ uint64_t value(uint64_t number) const { return scrambled(number, seed + 1); }
    // Some rows have no key where there is a bitmap.
    __host__ __device__ bool has_key(uint64_t number) const { return scrambled(number, seed + 2) % 5 != 0; }
};

// Words of the key's width throughout: keys, values and row numbers.
template <class Word>
__global__ void make_columns(const __grid_constant__ RowsByNumber rows, Word* keys, Word* values, Word* numbers) {
    for (uint64_t number = first_item(); number < rows.count; number += item_step()) {
        keys[number] = static_cast<Word>(rows.key(number));
        values[number] = static_cast<Word>(rows.value(number));
        numbers[number] = static_cast<Word>(number);
    }
}
__global__ void make_bitmap(const __grid_constant__ RowsByNumber rows, uint32_t* bits) {
    for (uint64_t word = first_item(); word * 32 < rows.count; word += item_step()) {
        uint32_t mask = 0;
        for (uint32_t bit = 0; bit < 32; ++bit) mask |= rows.has_key(word * 32 + bit) ? 1U << bit : 0;
        bits[word] = mask;
    }
}

template <class Word>
__device__ inline Word mixed(Word key) {
    return cuda::MixedKey<sizeof(Word) / 4>::mix(key);
}
// The highest bits of the mixed key.
template <class Word>
__device__ inline uint64_t partition_of(Word mixed_key, int radix_bits) {
    return radix_bits == 0 ? 0 : static_cast<uint64_t>(mixed_key) >> (8 * sizeof(Word) - radix_bits);
}

// The sizes of partitions, by another way than that of the partitioning: counts in global memory, by one lane for all
// of its warp that have the same partition, as a hot key would make half of the rows wait for one address.
template <class Word>
__global__ void count_partitions(const __grid_constant__ RowsByNumber rows, bool has_bitmap, int radix_bits,
                                 unsigned long long* sizes) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint64_t first = first_item() - lane; first < rows.count; first += item_step()) {
        const uint64_t number = first + lane;
        const bool counts = number < rows.count && (!has_bitmap || rows.has_key(number));
        const unsigned long long partition =
            counts ? partition_of(mixed(static_cast<Word>(rows.key(number))), radix_bits) : ~0ULL;
        const unsigned int same = __match_any_sync(~0U, partition);
        if (counts && (same & ((1U << lane) - 1)) == 0) {
            atomicAdd(&sizes[partition], static_cast<unsigned long long>(__popc(same)));
        }
    }
}

struct Wrong {
    unsigned long long partition;  // rows that are in another one than their digit says
    unsigned long long number;     // of no row that was there
    unsigned long long repeated;   // rows that are there again
    unsigned long long key;
    unsigned long long value;
};

struct Partitions {
    const uint64_t* begin;
    const uint64_t* end;
    uint64_t count;
    int radix_bits;
    // These say how long a row is and where its value and its number begin, in words.
    uint32_t row_words;
    uint32_t value_at;
    uint32_t number_at;
};

// The first partition that ends behind the place; nothing says what stands between partitions, so nobody looks there.
__device__ inline uint64_t partition_at(const Partitions& partitions, uint64_t place) {
    uint64_t low = 0;
    uint64_t high = partitions.count;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        partitions.end[middle] > place ? high = middle : low = middle + 1;
    }
    return low;
}

// Bytes: every row once, and a random access to a bit for each.
template <class Word>
__global__ void check_rows(const __grid_constant__ RowsByNumber rows, const __grid_constant__ Partitions partitions,
                           bool has_bitmap, const Word* data, uint64_t places, unsigned int* seen, Wrong* wrong) {
    for (uint64_t place = first_item(); place < places; place += item_step()) {
        const uint64_t partition = partition_at(partitions, place);
        if (partition == partitions.count || place < partitions.begin[partition]) continue;
        const Word* const row = data + place * partitions.row_words;
        const uint64_t number = row[partitions.number_at];
        if (partition_of(row[0], partitions.radix_bits) != partition) atomicAdd(&wrong->partition, 1ULL);
        if (number >= rows.count || (has_bitmap && !rows.has_key(number))) {
            atomicAdd(&wrong->number, 1ULL);
            continue;
        }
        const unsigned int bit = 1U << (number % 32);
        if ((atomicOr(&seen[number / 32], bit) & bit) != 0) atomicAdd(&wrong->repeated, 1ULL);
        if (row[0] != mixed(static_cast<Word>(rows.key(number)))) atomicAdd(&wrong->key, 1ULL);
        if (row[partitions.value_at] != static_cast<Word>(rows.value(number))) atomicAdd(&wrong->value, 1ULL);
    }
}

template <class T>
DeviceArray<T> zeros(uint64_t count) {
    DeviceArray<T> array(count);
    CHECK_CUDA(cudaMemset(array.data(), 0, count * sizeof(T)));
    CHECK_CUDA(cudaDeviceSynchronize());
    return array;
}

template <class Word>
class LargeRelation {
  public:
    LargeRelation(const RowsByNumber& rows, bool has_bitmap)
        : rows_(rows), keys_(rows.count), values_(rows.count), numbers_(rows.count), has_bitmap_(has_bitmap) {
        make_columns<Word><<<kBlocks, kThreads>>>(rows, keys_.data(), values_.data(), numbers_.data());
        CHECK_CUDA(cudaGetLastError());
        if (has_bitmap) {
            bitmap_ = DeviceArray<uint32_t>((rows.count + 31) / 32);
            make_bitmap<<<kBlocks, kThreads>>>(rows, bitmap_.data());
            CHECK_CUDA(cudaGetLastError());
        }
        CHECK_CUDA(cudaDeviceSynchronize());
    }

    void check(int radix_bits, const std::string& what) const {
        cuda::DeviceRelation relation;
        relation.rows = rows_.count;
        relation.key = {keys_.data(), sizeof(Word)};
        relation.key_valid = bitmap_.data();
        relation.columns = {{values_.data(), sizeof(Word)}, {numbers_.data(), sizeof(Word)}};
        const PartitionedRows partitioned = cuda::radix_partition(test_device(), relation, radix_bits);
        test_device().synchronize();
        const std::string name = what + ", " + std::to_string(radix_bits) + " bits";
        check_sizes(partitioned, name);
        check_contents(partitioned, name);
    }

  private:
    // Where partitions lie, one behind the other, and how many rows each has.
    void check_sizes(const PartitionedRows& partitioned, const std::string& name) const {
        const uint64_t partitions = partitioned.partitions();
        const auto sizes = zeros<unsigned long long>(partitions);
        count_partitions<Word><<<kBlocks, kThreads>>>(rows_, has_bitmap_, partitioned.radix_bits, sizes.data());
        CHECK_CUDA(cudaGetLastError());
        const auto expected = download(sizes);
        const auto begin = download(partitioned.begin.as<uint64_t>(), partitions);
        const auto end = download(partitioned.end.as<uint64_t>(), partitions);
        uint64_t sum = 0;
        for (uint64_t p = 0; p < partitions; ++p) {
            const bool lies_well =
                begin[p] % cuda::kRegionAlignRows == 0 && end[p] >= begin[p] && (p == 0 || begin[p] >= end[p - 1]);
            if (!lies_well) fail(name + ": partition " + std::to_string(p) + " lies wrong", __FILE__, __LINE__);
            sum += expected[p];
            if (end[p] - begin[p] == expected[p]) continue;
            fail(name + ": partition " + std::to_string(p) + " has " + std::to_string(end[p] - begin[p]) +
                     " rows instead of " + std::to_string(expected[p]),
                 __FILE__, __LINE__);
        }
        CHECK(sum == rows_.count || has_bitmap_);
        CHECK(end.back() <= partitioned.data.bytes() / partitioned.layout.row_bytes());
    }

    // As many rows as there were (see above), each in its place, none twice: then none is missing.
    void check_contents(const PartitionedRows& partitioned, const std::string& name) const {
        Partitions partitions{};
        partitions.begin = partitioned.begin.as<const uint64_t>();
        partitions.end = partitioned.end.as<const uint64_t>();
        partitions.count = partitioned.partitions();
        partitions.radix_bits = partitioned.radix_bits;
        partitions.row_words = partitioned.layout.row_bytes() / sizeof(Word);
        partitions.value_at = partitioned.layout.offsets[0] / sizeof(Word);
        partitions.number_at = partitioned.layout.offsets[1] / sizeof(Word);
        const auto seen = zeros<unsigned int>((rows_.count + 31) / 32);
        const auto wrong = zeros<Wrong>(1);
        const uint64_t places = partitioned.data.bytes() / partitioned.layout.row_bytes();
        check_rows<Word><<<kBlocks, kThreads>>>(rows_, partitions, has_bitmap_, partitioned.data.as<const Word>(),
                                                places, seen.data(), wrong.data());
        CHECK_CUDA(cudaGetLastError());
        const Wrong found = download(wrong).front();
        const std::pair<const char*, unsigned long long> all[] = {{"in the wrong partition", found.partition},
                                                                  {"with the number of no row", found.number},
                                                                  {"there again", found.repeated},
                                                                  {"with another key", found.key},
                                                                  {"with another value", found.value}};
        for (const auto& [text, count] : all) {
            if (count > 0) fail(name + ": " + std::to_string(count) + " rows " + text, __FILE__, __LINE__);
        }
    }

    RowsByNumber rows_;
    DeviceArray<Word> keys_;
    DeviceArray<Word> values_;
    DeviceArray<Word> numbers_;
    DeviceArray<uint32_t> bitmap_;
    bool has_bitmap_;
};

// Neither whole tiles nor whole words of a bitmap.
uint64_t row_count() {
    return small_or_full(5003, (1ULL << 27) + 77);
}

}  // namespace

GPU_TEST("radix partition: 2^27 rows of 4-byte columns in their partitions, each once") {
    for (const bool hot : {false, true}) {
        const LargeRelation<uint32_t> relation({row_count(), test_seed(), hot}, false);
        for (const int bits : {0, 8, 15, 17}) relation.check(bits, hot ? "4 bytes, a hot key" : "4 bytes");
    }
    LargeRelation<uint32_t>({row_count(), test_seed(), false}, true).check(15, "4 bytes, NULL keys");
}

GPU_TEST("radix partition: 2^27 rows of 8-byte columns in their partitions, each once") {
    for (const bool hot : {false, true}) {
        const LargeRelation<uint64_t> relation({row_count(), test_seed(), hot}, false);
        for (const int bits : {8, 15}) relation.check(bits, hot ? "8 bytes, a hot key" : "8 bytes");
    }
    LargeRelation<uint64_t>({row_count(), test_seed(), true}, true).check(8, "8 bytes, a hot key, NULL keys");
}

}  // namespace spillway::gpu_test
