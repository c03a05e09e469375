// SPDX-License-Identifier: Apache-2.0
// What joins of the GPU benchmark are given of their memory (test/bench/gpu/out_of_core_sizes.cpp).
#include <cmath>
#include <cstdint>

#include "support/test.hpp"
#include "test/bench/gpu/out_of_core_sizes.hpp"

namespace spillway {

namespace {

using gpu_bench::choose_sizes;
using gpu_bench::ChosenSizes;
using gpu_bench::GivenSizes;
using gpu_bench::OutOfCoreShape;

constexpr uint64_t kSizeMiB = 1ULL << 20;
constexpr uint64_t kSizeGiB = 1ULL << 30;

OutOfCoreShape shape_of(uint64_t rows, uint64_t limit_bytes) {
    OutOfCoreShape shape;
    shape.build_rows = rows;
    shape.probe_rows = rows;
    shape.build_row_bytes = 16;
    shape.probe_row_bytes = 16;
    shape.memory_limit_bytes = limit_bytes;
    return shape;
}

// Much as the join says it: chunks in, partitioned copies and packed runs of them, pages with their index, results, a
// filter.
uint64_t taken_bytes(const ChosenSizes& sizes) {
    const uint64_t chunk_bytes = sizes.chunk_rows * 16 + (16 << sizes.radix_bits);
    const uint64_t page_bytes = sizes.pages * sizes.page_rows * 18;
    return (sizes.chunk_slots + 4) * chunk_bytes + page_bytes + sizes.result_slots * sizes.result_rows * 24 +
           sizes.filter_words * 8;
}

ChosenSizes chosen(const OutOfCoreShape& shape, const GivenSizes& given = {}) {
    return choose_sizes(shape, given, taken_bytes);
}

bool is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

}  // namespace

TEST(out_of_core_sizes_fit_the_limit_and_use_it) {
    for (const uint64_t rows : {1ULL << 20, 1ULL << 24, 189'812'531ULL, 1ULL << 28, 1ULL << 29, 1ULL << 30}) {
        for (const uint64_t limit_bytes : {512 * kSizeMiB, kSizeGiB, 4 * kSizeGiB, 16 * kSizeGiB, 64 * kSizeGiB}) {
            const ChosenSizes sizes = chosen(shape_of(rows, limit_bytes));
            EXPECT(taken_bytes(sizes) <= limit_bytes);
            EXPECT(is_power_of_two(sizes.page_rows));
            EXPECT(sizes.radix_bits >= 5 && sizes.radix_bits <= 12);
            // What the join asks of its sizes.
            EXPECT(sizes.pages * sizes.page_rows >= sizes.chunk_rows + sizes.page_rows);
            EXPECT(sizes.chunk_slots >= 2);
            EXPECT(sizes.result_rows >= sizes.chunk_rows);
            EXPECT(sizes.spill_bytes >= 2 * rows * 16);
            EXPECT(sizes.resident_partitions <= 1ULL << sizes.radix_bits);
            // Nothing is left that pages could use, or all rows have pages.
            ChosenSizes more = sizes;
            more.pages += limit_bytes / 16 / (sizes.page_rows * 18) + 1;
            const uint64_t all_pages = rows / sizes.page_rows + (1ULL << sizes.radix_bits);
            EXPECT(taken_bytes(more) > limit_bytes - limit_bytes / 32 || sizes.pages >= all_pages);
        }
    }
}

TEST(out_of_core_sizes_keep_the_share_of_partitions_that_there_is_room_for) {
    const ChosenSizes ample = chosen(shape_of(1ULL << 29, 64 * kSizeGiB));
    EXPECT(ample.resident_partitions == 1ULL << ample.radix_bits);
    uint64_t before = 0;
    for (const uint64_t limit_gib : {1, 2, 4, 6, 8, 16}) {
        const ChosenSizes sizes = chosen(shape_of(1ULL << 29, limit_gib * kSizeGiB));
        const double share = static_cast<double>(sizes.resident_partitions) / std::pow(2, sizes.radix_bits);
        const double pages_share = static_cast<double>(sizes.pages * sizes.page_rows) / std::pow(2, 29);
        // As many as the pages hold, and not quite that: rows of a partition may be more than their mean.
        EXPECT(share <= 1 && (share == 1 || share < pages_share));
        EXPECT(share == 1 || share > pages_share * 0.7);
        EXPECT(share * 1000 >= static_cast<double>(before));
        before = static_cast<uint64_t>(share * 1000);
    }
    EXPECT(before == 1000);
}

// Small chunks leave room for pages, large ones come back in fewer copies.
TEST(out_of_core_sizes_have_chunks_as_large_as_their_copies_ask_for) {
    EXPECT(chosen(shape_of(1ULL << 29, 512 * kSizeMiB)).chunk_rows == 1ULL << 20);
    EXPECT(chosen(shape_of(1ULL << 29, kSizeGiB)).chunk_rows == 1ULL << 21);
    EXPECT(chosen(shape_of(1ULL << 29, 2 * kSizeGiB)).chunk_rows == 1ULL << 22);
    EXPECT(chosen(shape_of(1ULL << 29, 64 * kSizeGiB)).chunk_rows == 1ULL << 22);
    // More than 512 chunks of both sides would leave their rows in too many pieces.
    EXPECT(chosen(shape_of(1ULL << 30, 64 * kSizeGiB)).chunk_rows == 1ULL << 22);
    EXPECT(chosen(shape_of(1ULL << 31, 16 * kSizeGiB)).chunk_rows == 1ULL << 23);
    EXPECT(chosen(shape_of(1ULL << 32, 16 * kSizeGiB)).chunk_rows == 1ULL << 24);
    EXPECT(chosen(shape_of(1ULL << 34, 64 * kSizeGiB)).chunk_rows == 1ULL << 24);
    EXPECT(chosen(shape_of(1ULL << 32, kSizeGiB)).chunk_rows == 1ULL << 21);
    // The pages that a chunk of 2^22 rows takes from these are worth more than its copies.
    OutOfCoreShape nearly = shape_of(1ULL << 30, 2 * kSizeGiB);
    nearly.build_rows = 1ULL << 27;
    EXPECT(chosen(nearly).chunk_rows == 1ULL << 21);
}

TEST(out_of_core_sizes_have_a_filter_of_a_power_of_two_inside_the_limit) {
    OutOfCoreShape shape = shape_of(1ULL << 29, 4 * kSizeGiB);
    shape.build_keys = shape.build_rows;
    shape.match_ratio = 0.5;
    EXPECT(chosen(shape).filter_words == 0);
    const ChosenSizes plain = chosen(shape);
    shape.filter_bits = 8;
    const ChosenSizes sizes = chosen(shape);
    EXPECT(sizes.filter_words == 1ULL << 26);
    EXPECT(taken_bytes(sizes) <= 4 * kSizeGiB);
    EXPECT(sizes.pages < plain.pages && sizes.resident_partitions < plain.resident_partitions);
    // Rounded up, for different keys.
    shape.build_keys += 1;
    EXPECT(chosen(shape).filter_words == 1ULL << 27);
    shape.build_keys = 1ULL << 20;
    EXPECT(chosen(shape).filter_words == 1ULL << 17);
    // A quarter of the limit at most, two words at least.
    shape.build_keys = shape.build_rows;
    shape.filter_bits = 64;
    EXPECT(chosen(shape).filter_words * 8 == kSizeGiB);
    shape.build_keys = 1;
    shape.filter_bits = 1;
    EXPECT(chosen(shape).filter_words == 2);
    shape.memory_limit_bytes = 0;
    EXPECT(chosen(shape).filter_words == 2);
}

TEST(out_of_core_sizes_that_are_given_are_taken_as_they_are) {
    GivenSizes given;
    given.radix_bits = 3;
    given.chunk_rows = 12345;
    given.chunk_slots = 5;
    given.page_rows = 64;
    given.pages = 1000;
    given.resident_partitions = 2;
    const ChosenSizes sizes = chosen(shape_of(1ULL << 27, 4 * kSizeGiB), given);
    EXPECT(sizes.radix_bits == 3);
    EXPECT(sizes.chunk_rows == 12345 && sizes.result_rows == 12345);
    EXPECT(sizes.chunk_slots == 5);
    EXPECT(sizes.page_rows == 64);
    EXPECT(sizes.pages == 1000);
    EXPECT(sizes.resident_partitions == 2);
    GivenSizes some;
    some.pages = 1000;
    const ChosenSizes others = chosen(shape_of(1ULL << 27, 4 * kSizeGiB), some);
    // Partitions that stay are those that the given pages hold.
    EXPECT(others.resident_partitions * ((1ULL << 27) >> others.radix_bits) <= 1000 * others.page_rows);
    OutOfCoreShape limited = shape_of(1ULL << 27, 4 * kSizeGiB);
    limited.host_limit_bytes = 5 * kSizeGiB;
    EXPECT(chosen(limited).spill_bytes == 5 * kSizeGiB);
}

TEST(out_of_core_sizes_of_no_rows_and_of_little_memory) {
    for (const uint64_t rows : {0, 1, 1000}) {
        const ChosenSizes sizes = chosen(shape_of(rows, 4 * kSizeGiB));
        EXPECT(sizes.chunk_rows > 0 && sizes.page_rows > 0);
        EXPECT(sizes.resident_partitions == 1ULL << sizes.radix_bits);
        EXPECT(sizes.spill_bytes >= sizes.spill_block_bytes);
    }
    const ChosenSizes little = chosen(shape_of(1ULL << 26, 32 * kSizeMiB));
    EXPECT(taken_bytes(little) <= 32 * kSizeMiB);
    EXPECT(little.pages * little.page_rows >= little.chunk_rows + little.page_rows);
    EXPECT(chosen(shape_of(1ULL << 26, 0)).pages == 0);
}

}  // namespace spillway
