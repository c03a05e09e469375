// SPDX-License-Identifier: Apache-2.0
#include "out_of_core_sizes.hpp"

#include <algorithm>

namespace spillway::gpu_bench {

namespace {

constexpr uint64_t kKiB = 1ULL << 10;
constexpr uint64_t kMiB = 1ULL << 20;

// A build partition of which a 2^8th, with the order of its rows, fits what a block sorts in shared memory with a third
// to spare.
constexpr uint64_t kPartitionBytesMax = 17'000'000;
// ... a 2^8th of which fits shared memory with a hash table of it (kPartitionRowsMax in
// cuda/hash_join/join_policy.hpp). Fewer partitions are written faster: over NVLink the bulk partitioner takes 288, 265
// and 255 GB/s with 8, 9, 10 bits.
constexpr uint64_t kSecondPassRowsMax = 8192ULL << 8;
constexpr uint64_t kRadixBitsMin = 5;
constexpr uint64_t kRadixBitsMax = 12;

// A chunk is on its way before the first is computed on, and another after the last has come: of 128, that is 1 %.
constexpr uint64_t kChunks = 128;
constexpr uint64_t kChunkRowsMin = 1ULL << 20;
constexpr uint64_t kChunkRowsMax = 1ULL << 22;
// Each chunk leaves a run, of which every group of partitions fetches a piece: of relations of more than 512 chunks
// they are larger, as in src/planner/streaming/join/sizes.ts. H200, 2^32 x 2^32 rows of 8 bytes at 16 GiB: spilled
// partitions took 527 ms with chunks of 2^22 rows, 417 with 2^24.
constexpr uint64_t kManyChunks = 512;
constexpr uint64_t kManyChunkRowsMax = 1ULL << 24;
constexpr uint64_t kChunkRowsLeast = 1ULL << 14;  // under limits that would not do otherwise
constexpr uint64_t kChunksShare = 50;             // % of the limit for chunks, their partitioned copies and results
// What starting a copy takes of the link, one of many that are enqueued together (kCopiesTogether in
// cuda/stream/stream_policy.hpp), and a chunk and its kernels, the more of a probe chunk the more rows are
// looked up as they come: 0.2, 15 and 50 us at 55 GB/s. H200, 2^29 x 2^29 rows of 16 bytes at 8 GiB, where 80 % of the
// rows stay: 256 chunks of each side instead of 128 took build and probe side 2 and 7 ms more. As many spilled rows as
// a chunk has took 76 and 97 us more than their bytes when they came back, for 2^21 and 2^22 rows: 55 us for each
// chunk.
constexpr uint64_t kCopyStartBytes = 11'000;
constexpr uint64_t kChunkStartBytes = 825'000;
constexpr uint64_t kProbedChunkStartBytes = 2'750'000;
constexpr uint64_t kBackChunkStartBytes = 3'000'000;
constexpr uint64_t kGroupChunks = 4;  // as in cuda/stream/stream_policy.hpp
// Where a chunk of 2^21 rows comes in 90 us, what is launched and waited for with each takes as long. H200, 2^29 x 2^29
// rows of 16 bytes from another one, 2 GiB: chunks of 2^21 rows 4.45 G tuples/s, of 2^22 5.87, of 2^23 6.37.
constexpr uint64_t kFastChunks = 64;
constexpr uint64_t kFastChunkRowsMax = 1ULL << 23;
constexpr uint64_t kFastChunksShare = 45;

constexpr uint64_t kPageBytesMin = 64 * kKiB;
constexpr uint64_t kPageBytesMax = 2 * kMiB;
constexpr uint64_t kPagesMax = 1ULL << 15;

constexpr uint64_t kSpillBlockBytes = 16 * kMiB;

// As src/planner/streaming/join/filter.ts has them: chunks and pages need the rest of the limit.
constexpr uint64_t kFilterWordsMin = 2;
constexpr uint64_t kFilterWordsMax = 1ULL << 40;
constexpr uint64_t kFilterLimitShare = 4;

uint64_t floor_power_of_two(uint64_t value) {
    uint64_t power = 1;
    while (power <= value / 2) power *= 2;
    return power;
}

uint64_t ceil_divide(uint64_t value, uint64_t by) {
    return value / by + (value % by == 0 ? 0 : 1);
}

// A power of two at least as large as asked for, or the largest that a quarter of the limit holds.
uint64_t choose_filter_words(const OutOfCoreShape& shape) {
    if (shape.filter_bits == 0) return 0;
    const uint64_t wanted = ceil_divide(shape.build_keys * shape.filter_bits, 64);
    const uint64_t affordable = floor_power_of_two(shape.memory_limit_bytes / kFilterLimitShare / sizeof(uint64_t));
    const uint64_t most = std::clamp(affordable, kFilterWordsMin, kFilterWordsMax);
    uint64_t words = kFilterWordsMin;
    while (words < wanted && words < most) words *= 2;
    return words;
}

// Blocks are rounded up to 2 MiB, and small ones are taken while the join runs.
uint64_t budget_of(uint64_t limit_bytes) {
    return limit_bytes - std::min(limit_bytes / 16, 16 * kMiB + limit_bytes / 256);
}

uint64_t choose_radix_bits(const OutOfCoreShape& shape) {
    const uint64_t wanted = shape.second_pass ? kSecondPassRowsMax * shape.build_row_bytes : kPartitionBytesMax;
    const uint64_t most_bytes = std::max<uint64_t>(1, std::min(wanted, shape.memory_limit_bytes / 16));
    uint64_t bits = kRadixBitsMin;
    while (bits < kRadixBitsMax && (shape.build_rows * shape.build_row_bytes) >> bits > most_bytes) ++bits;
    return bits;
}

// As small as kPagesMax allows: each partition wastes half a page.
uint64_t choose_page_rows(const OutOfCoreShape& shape) {
    const uint64_t least_bytes = std::max(kPageBytesMin, shape.memory_limit_bytes / kPagesMax);
    uint64_t rows = 1;
    while (rows * shape.build_row_bytes < least_bytes && 2 * rows * shape.build_row_bytes <= kPageBytesMax) rows *= 2;
    return rows;
}

// The rest of the limit, or what all partitions need when their last pages are almost empty.
uint64_t choose_pages(const OutOfCoreShape& shape, ChosenSizes sizes, const DeviceBytes& device_bytes) {
    const uint64_t budget_bytes = budget_of(shape.memory_limit_bytes);
    uint64_t fit = 0;
    uint64_t too_many = ceil_divide(shape.build_rows, sizes.page_rows) + (1ULL << sizes.radix_bits) + 1;
    while (fit + 1 < too_many) {
        sizes.pages = fit + (too_many - fit) / 2;
        (device_bytes(sizes) <= budget_bytes ? fit : too_many) = sizes.pages;
    }
    return fit;
}

// All when their pages suffice: the sum is known, however the rows are spread. Else 3 % for partitions that are larger
// than expected, as a partition that has begun in device memory and must leave it costs more than one that never came.
uint64_t choose_resident(const OutOfCoreShape& shape, const ChosenSizes& sizes) {
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    const double count = static_cast<double>(partitions);
    const double pages = static_cast<double>(sizes.pages);
    const double partition_rows = static_cast<double>(shape.build_rows) / count;
    const double partition_pages = partition_rows / static_cast<double>(sizes.page_rows) + 0.5;
    if (partition_pages * count + count / 16 <= pages) return partitions;
    return std::min(partitions, static_cast<uint64_t>(pages * 0.97 / partition_pages));
}

// Bytes that the link could have carried in the time that depends on the size of chunks: spilled rows on their way
// back, the start of their copies (of each chunk one for each group of partitions that are joined together), of chunks
// and of their kernels, and the first and last chunk, beside which nothing runs.
uint64_t link_bytes_of(const OutOfCoreShape& shape, const ChosenSizes& sizes) {
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    const uint64_t spilled = partitions - sizes.resident_partitions;
    const uint64_t build_rows = shape.build_rows / partitions * spilled;
    const uint64_t probe_rows = shape.probe_rows / partitions * spilled;
    // A filter keeps the others out; the few of them that pass it make no difference here.
    const double passing = shape.filter_bits == 0 ? 1 : shape.match_ratio;
    const auto probe_bytes = static_cast<uint64_t>(static_cast<double>(probe_rows * shape.probe_row_bytes) * passing);
    const uint64_t group_rows = std::min(kGroupChunks * sizes.chunk_rows, sizes.pages * sizes.page_rows);
    const uint64_t groups = ceil_divide(build_rows, std::max<uint64_t>(1, group_rows));
    const uint64_t probe_chunks = ceil_divide(shape.probe_rows, sizes.chunk_rows);
    const uint64_t chunks = ceil_divide(shape.build_rows, sizes.chunk_rows) + probe_chunks;
    return build_rows * shape.build_row_bytes + probe_bytes + chunks * (groups * kCopyStartBytes + kChunkStartBytes) +
           chunks * (kBackChunkStartBytes / partitions * spilled) +
           probe_chunks * (kProbedChunkStartBytes / partitions * (partitions - spilled)) +
           2 * sizes.chunk_rows * std::max(shape.build_row_bytes, shape.probe_row_bytes);
}

// The most that the limit allows, or less where that leaves room for more resident rows than it costs.
uint64_t choose_chunk_rows(const OutOfCoreShape& shape, ChosenSizes sizes, const DeviceBytes& device_bytes) {
    const uint64_t limit_bytes = shape.memory_limit_bytes;
    const auto set_rows = [&](uint64_t rows, uint64_t pages) {
        sizes.chunk_rows = rows;
        sizes.result_rows = rows;
        sizes.pages = pages;
    };
    const auto taken_bytes = [&](uint64_t rows) {
        set_rows(rows, 0);
        return device_bytes(sizes);
    };
    const auto link_bytes = [&](uint64_t rows) {
        set_rows(rows, 0);
        sizes.pages = choose_pages(shape, sizes, device_bytes);
        sizes.resident_partitions = choose_resident(shape, sizes);
        return link_bytes_of(shape, sizes);
    };
    const bool fast = shape.fast_link;
    uint64_t rows = floor_power_of_two((shape.build_rows + shape.probe_rows) / (fast ? kFastChunks : kChunks));
    const uint64_t rows_of_many = floor_power_of_two((shape.build_rows + shape.probe_rows) / kManyChunks);
    const uint64_t rows_max = fast ? kFastChunkRowsMax : std::clamp(rows_of_many, kChunkRowsMax, kManyChunkRowsMax);
    rows = std::min(rows_max, std::max(kChunkRowsMin, rows));
    const uint64_t share = fast ? kFastChunksShare : kChunksShare;
    while (rows > kChunkRowsMin && taken_bytes(rows) > limit_bytes / 100 * share) rows /= 2;
    while (rows > kChunkRowsLeast && taken_bytes(rows) > limit_bytes / 2) rows /= 2;
    uint64_t best = rows;
    for (uint64_t fewer = rows / 2; !fast && fewer >= kChunkRowsMin; fewer /= 2) {
        if (link_bytes(fewer) < link_bytes(best)) best = fewer;
    }
    return best;
}

uint64_t choose_spill_bytes(const OutOfCoreShape& shape) {
    if (shape.host_limit_bytes > 0) return shape.host_limit_bytes;
    // Packed fragments have headers, and blocks are not filled to the end.
    const uint64_t bytes = shape.build_rows * shape.build_row_bytes + shape.probe_rows * shape.probe_row_bytes;
    return (ceil_divide(bytes + bytes / 16, kSpillBlockBytes) + 64) * kSpillBlockBytes;
}

}  // namespace

ChosenSizes choose_sizes(const OutOfCoreShape& shape, const GivenSizes& given, const DeviceBytes& device_bytes) {
    ChosenSizes sizes;
    sizes.radix_bits = given.radix_bits ? *given.radix_bits : choose_radix_bits(shape);
    if (given.chunk_slots) sizes.chunk_slots = *given.chunk_slots;
    sizes.filter_words = choose_filter_words(shape);  // before what shares the limit with it
    sizes.page_rows = given.page_rows ? *given.page_rows : choose_page_rows(shape);
    sizes.spill_block_bytes = kSpillBlockBytes;
    sizes.spill_bytes = choose_spill_bytes(shape);
    sizes.chunk_rows = given.chunk_rows ? *given.chunk_rows : choose_chunk_rows(shape, sizes, device_bytes);
    sizes.result_rows = sizes.chunk_rows;
    sizes.pages = given.pages ? *given.pages : choose_pages(shape, sizes, device_bytes);
    sizes.resident_partitions = given.resident_partitions ? *given.resident_partitions : choose_resident(shape, sizes);
    return sizes;
}

}  // namespace spillway::gpu_bench
