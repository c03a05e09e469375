// SPDX-License-Identifier: Apache-2.0
// The product of all that a partitioner of far memory can be asked for: where rows lie and where they go, bits, sizes
// around the ends of pages and buffers, pages and one piece. The other tests go deeper along one of these at a time.
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "far_partition/far_sizes.hpp"
#include "support/far_partition_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::FarPartitionOptions;

constexpr uint32_t kColumnBytes = 8;
constexpr uint32_t kTupleBytes = 2 * kColumnBytes;
constexpr uint64_t kPageRows = 16;

// Odd, and more than a batch of kLinear has rows in the full suite.
uint64_t most_rows() {
    return small_or_full(301, 10007);
}

// Inputs are made once and stay in the tiers that they were read from: most cells are shorter than an allocation.
class Inputs {
  public:
    FarInput& equal_keys(uint64_t rows) { return of(equal_, rows, std::vector<uint64_t>(rows, 12345)); }
    FarInput& sparse(uint64_t rows) { return of(sparse_, rows, sparse_keys(rows, test_seed() + rows)); }

  private:
    using BySize = std::map<uint64_t, FarInput>;
    static FarInput& of(BySize& inputs, uint64_t rows, std::vector<uint64_t> keys) {
        return inputs.try_emplace(rows, std::move(keys), kColumnBytes, test_seed()).first->second;
    }
    BySize equal_;
    BySize sparse_;
};

// With room for the largest input; each cell is given exactly what suffices for its own.
struct Destination {
    FarTier tier;
    bool has_pages;
    FarOutput output;

    cuda::FarDestination room_for(const FarInput& input, int radix_bits) {
        cuda::FarDestination to = output.destination();
        if (has_pages) {
            to.pages.pages = cuda::far_pages_needed(input.rows(), kPageRows, radix_bits);
        } else {
            to.piece.bytes = cuda::far_piece_bytes(input.rows(), kColumnBytes, radix_bits);
        }
        return to;
    }
};

std::vector<Destination> every_destination(const FarInput& largest, int radix_bits) {
    std::vector<Destination> all;
    for (const FarTier tier : far_tiers()) {
        all.push_back({tier, false, FarOutput::piece(tier, largest, radix_bits)});
        all.push_back({tier, true, FarOutput::pages({tier}, largest, radix_bits, kPageRows)});
    }
    return all;
}

// Rows that just fill a page, a buffer (of kLinear: a batch) or a buffer of the second level, one less and one more.
std::set<uint64_t> sizes_at_ends(const FarPartitionOptions& options, bool has_pages) {
    const uint64_t page_bytes = has_pages ? kPageRows * kTupleBytes : 0;
    const cuda::FarSizes sizes = cuda::far_sizes(test_device().properties(), options, kTupleBytes, page_bytes);
    std::set<uint64_t> ends;
    for (const uint64_t capacity : {kPageRows, uint64_t{sizes.buffer_rows}, uint64_t{sizes.memory_rows}}) {
        if (capacity == 0 || capacity >= most_rows()) continue;
        ends.insert({capacity - 1, capacity, capacity + 1});
    }
    return ends;
}

void check_cell(FarInput& input, FarTier source, Destination& destination, const FarPartitionOptions& options,
                const std::string& what) {
    destination.output.clear();
    const cuda::FarPartitions partitions =
        cuda::far_partition(test_device(), input.in(source), destination.room_for(input, options.radix_bits), options);
    check_far_partitions(input, destination.output, partitions,
                         what + ", " + std::to_string(input.rows()) + " rows from " + tier_name(source));
}

// All sizes of one partitioner, number of bits and destination, from every tier.
uint64_t check_sizes(Inputs& inputs, Destination& destination, FarPartitionOptions options, const std::string& what) {
    uint64_t cells = 0;
    const auto check = [&](FarInput& input) {
        for (const FarTier source : far_tiers()) check_cell(input, source, destination, options, what);
        cells += far_tiers().size();
    };
    check(inputs.sparse(0));
    check(inputs.sparse(1));
    check(inputs.sparse(most_rows()));
    const uint64_t fewer_than_partitions = (1ULL << options.radix_bits) - 1;
    if (fewer_than_partitions > 1) check(inputs.sparse(fewer_than_partitions));
    // All rows in one partition, through the buffers of one block: ends of buffers are met as well as those of pages.
    options.grid = 1;
    for (const uint64_t rows : sizes_at_ends(options, destination.has_pages)) check(inputs.equal_keys(rows));
    return cells;
}

}  // namespace

GPU_TEST("far partition: the product of tiers, bits and sizes") {
    Inputs inputs;
    const std::vector<int> all_bits =
        full_suite() ? std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} : std::vector<int>{5};
    uint64_t cells = 0;
    // Bits outermost: inputs remember their sums for as long as those stay.
    for (const int bits : all_bits) {
        std::vector<Destination> destinations = every_destination(inputs.sparse(most_rows()), bits);
        for (const auto& [name, partitioner] : far_partitioners()) {
            FarPartitionOptions options;
            options.partitioner = partitioner;
            options.radix_bits = bits;
            if (bits > cuda::far_bits_max(test_device().properties(), partitioner, kColumnBytes)) {
                std::printf("    %s: the shared memory of a block has no room for %d bits\n", name, bits);
                continue;
            }
            // The small suite has small buffers in one piece, too: its inputs would fill no others.
            options.buffer_bytes = full_suite() ? 0 : kPageRows * kTupleBytes;
            options.second_level_bytes = options.buffer_bytes;
            for (Destination& destination : destinations) {
                const std::string what = std::string(name) + ", " + std::to_string(bits) + " bits, " +
                                         (destination.has_pages ? "pages of " : "one piece of ") +
                                         tier_name(destination.tier);
                cells += check_sizes(inputs, destination, options, what);
            }
        }
    }
    std::printf("    %llu passes\n", static_cast<unsigned long long>(cells));
}

}  // namespace spillway::gpu_test
