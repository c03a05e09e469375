// SPDX-License-Identifier: Apache-2.0
// Kernels whose threads order accesses to shared memory by acquire and release alone, which racecheck cannot see: run
// on the host, where ThreadSanitizer does. The code is the GPU's own; only intrinsics are others.
#include "block.hpp"
#include "far_partition/hierarchical_kernel.cuh"
#include "support/test.hpp"

namespace spillway {

namespace cuda {
inline namespace far_partitioning {

// These belong to the block; kernels declare them.
uint4 shared_words[1024];

}  // namespace far_partitioning
}  // namespace cuda

namespace {

constexpr uint32_t kBits = 2;
constexpr uint32_t kPartitions = 1 << kBits;
constexpr uint32_t kWarps = 3;
constexpr uint32_t kBufferRows = 4;
constexpr uint64_t kRows = 960;

// Columns in far memory, one piece of memory for each partition, and what a block leaves in its buffers.
struct FarBlock {
    std::vector<uint64_t> keys, payloads;
    std::vector<uint4> data{kPartitions * kRows}, memory;
    std::vector<uint64_t> cursors = std::vector<uint64_t>(kPartitions), begin, counts;
    std::vector<cuda::Leftover> leftovers{kPartitions};
    uint32_t failed = 0;
    cuda::CombiningPass pass;

    FarBlock(uint64_t distinct_keys, uint32_t memory_rows) {
        for (uint64_t row = 0; row < kRows; ++row) {
            keys.push_back(row % distinct_keys);
            payloads.push_back(row);
        }
        for (uint64_t p = 0; p < kPartitions; ++p) {
            begin.push_back(p * kRows);
            counts.push_back(kRows);
        }
        pass.shift = 32 - kBits;
        pass.partitions = kPartitions;
        pass.buffer_rows = kBufferRows;
        pass.memory_rows = memory_rows;
        pass.memory_buffers = kPartitions + kWarps;
        memory.resize(pass.memory_buffers * memory_rows);
        pass.memory = reinterpret_cast<char*>(memory.data());
        pass.leftovers = leftovers.data();
        pass.target.cursors = cursors.data();
        pass.target.failed = &failed;
        pass.target.tuple_bytes = sizeof(uint4);
        pass.target.data = reinterpret_cast<char*>(data.data());
        pass.target.begin = begin.data();
        pass.target.counts = counts.data();
    }
    cuda::FarColumns<2> columns() const { return {keys.data(), payloads.data(), kRows, nullptr, nullptr, 0, false}; }

    void expect_each_row_once() const {
        std::vector<uint32_t> seen(kRows);
        const auto look = [&](const uint4& row, uint32_t partition) {
            const uint64_t number = uint64_t{row.w} << 32 | row.z;
            EXPECT(number < kRows);
            if (number >= kRows) return;
            seen[number] += 1;
            const uint4 expected = cuda::FarTuple<2>::make(cuda::mix64(keys[number]), number);
            EXPECT(row.x == expected.x && row.y == expected.y && row.y >> pass.shift == partition);
        };
        for (uint32_t p = 0; p < kPartitions; ++p) {
            for (uint64_t i = 0; i < cursors[p]; ++i) look(data[p * kRows + i], p);
            const cuda::Leftover& left = leftovers[p];
            for (uint32_t i = 0; i < left.rows; ++i) look(memory[left.buffer * pass.memory_rows + i], p);
        }
        EXPECT_EQ(failed, 0U);
        EXPECT(seen == std::vector<uint32_t>(kRows, 1));
    }
};

template <class Kernel>
void expect_partitions(uint32_t memory_rows, Kernel kernel) {
    for (const uint64_t distinct_keys : {kRows, uint64_t{1}}) {
        FarBlock block(distinct_keys, memory_rows);
        host_cuda::run_block(kWarps, [&] { kernel(block.columns(), block.pass); });
        block.expect_each_row_once();
    }
}

}  // namespace

TEST(cuda_far_partition_locks_of_shared_buffers) {
    expect_partitions(kBufferRows, [](const auto& in, const auto& pass) { cuda::shared_kernel<2>(in, pass); });
}

TEST(cuda_far_partition_locks_of_buffers_that_bulk_copies_read) {
    expect_partitions(kBufferRows, [](const auto& in, const auto& pass) { cuda::bulk_kernel<2>(in, pass); });
}

TEST(cuda_far_partition_locks_of_two_levels) {
    expect_partitions(2 * kBufferRows,
                      [](const auto& in, const auto& pass) { cuda::hierarchical_kernel<2>(in, pass); });
}

}  // namespace spillway
