// SPDX-License-Identifier: Apache-2.0
// The CPU's partitioner: every row with a key exactly once, in its partition, as the GPU packs rows.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/cpu_partition.hpp"
#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/generators.hpp"
#include "support/host_table.hpp"

namespace spillway::gpu_test {

namespace {

// Memory that begins with a cache line, and whose every byte is written or keeps its mark.
class LineMemory {
  public:
    explicit LineMemory(uint64_t bytes) : bytes_(bytes + 64, 0xdd) {}
    uint8_t* data() {
        const auto at = reinterpret_cast<uintptr_t>(bytes_.data());
        return bytes_.data() + (64 - at % 64) % 64;
    }

  private:
    std::vector<uint8_t> bytes_;
};

struct HostSide {
    HostTable table;
    std::vector<uint32_t> valid;  // words of bits, empty: all have a key

    cuda::Chunk chunk() const {
        cuda::Chunk chunk;
        chunk.rows = table.rows();
        chunk.key = table.columns[0].bytes.data();
        chunk.key_valid = valid.empty() ? nullptr : valid.data();
        for (size_t c = 1; c < table.columns.size(); ++c) chunk.columns.push_back(table.columns[c].bytes.data());
        return chunk;
    }
    bool has_key(uint64_t row) const { return valid.empty() || (valid[row / 32] >> (row % 32) & 1) != 0; }
};

HostSide make_side(uint64_t rows, uint32_t key_width, const std::vector<uint32_t>& widths, double null_share) {
    HostSide side;
    side.table.columns.push_back(payload_column(rows, key_width, test_seed(), 99));
    for (size_t c = 0; c < widths.size(); ++c) {
        side.table.columns.push_back(payload_column(rows, widths[c], test_seed(), c));
    }
    if (null_share == 0) return side;
    const std::vector<uint8_t> mask = null_mask(rows, null_share, test_seed());
    side.valid.assign((rows + 31) / 32, ~0U);
    std::memcpy(side.valid.data(), mask.data(), std::min(mask.size(), side.valid.size() * sizeof(uint32_t)));
    return side;
}

uint64_t mixed_key(const HostColumn& keys, uint64_t row) {
    return keys.width == 4 ? cuda::mix32(keys.value<uint32_t>(row)) : cuda::mix64(keys.value<uint64_t>(row));
}

// The rows of each partition as the layout packs them, sorted.
std::vector<std::vector<std::string>> expected_partitions(const HostSide& side, const cuda::RowLayout& layout,
                                                          int radix_bits) {
    std::vector<std::vector<std::string>> partitions(1ULL << radix_bits);
    const HostColumn& keys = side.table.columns[0];
    for (uint64_t row = 0; row < side.table.rows(); ++row) {
        if (!side.has_key(row)) continue;
        const uint64_t mixed = mixed_key(keys, row);
        std::string packed(layout.row_bytes(), '\0');
        std::memcpy(packed.data(), &mixed, keys.width);
        for (size_t c = 0; c < layout.widths.size(); ++c) {
            const HostColumn& column = side.table.columns[c + 1];
            std::memcpy(packed.data() + layout.offsets[c], column.bytes.data() + row * column.width, column.width);
        }
        const uint64_t partition = radix_bits == 0 ? 0 : mixed >> (keys.width * 8 - static_cast<uint32_t>(radix_bits));
        partitions[partition].push_back(std::move(packed));
    }
    for (auto& rows : partitions) std::sort(rows.begin(), rows.end());
    return partitions;
}

void check_partition(uint64_t rows, uint32_t key_width, const std::vector<uint32_t>& widths, int radix_bits,
                     uint32_t threads, double null_share, const cuda::CpuPartitioner::Beside& beside = {}) {
    const HostSide side = make_side(rows, key_width, widths, null_share);
    const cuda::RowLayout layout = cuda::RowLayout::make(key_width, widths);
    const std::atomic<bool> cancelled{false};
    const cuda::Chunk chunk = side.chunk();
    cuda::CpuPartitioner partitioner(layout, radix_bits, threads, chunk, cancelled);
    partitioner.count(beside);
    const std::vector<std::vector<std::string>> expected = expected_partitions(side, layout, radix_bits);
    const std::vector<uint64_t>& first = partitioner.first();
    CHECK_EQ(first.size(), expected.size() + 1);
    LineMemory memory(partitioner.rows() * layout.row_bytes());
    partitioner.move(memory.data(), beside);
    for (size_t p = 0; p < expected.size(); ++p) {
        std::vector<std::string> found;
        for (uint64_t row = first[p]; row < first[p + 1]; ++row) {
            const uint8_t* const at = memory.data() + row * layout.row_bytes();
            found.emplace_back(reinterpret_cast<const char*>(at), layout.row_bytes());
        }
        std::sort(found.begin(), found.end());
        if (found == expected[p]) continue;
        fail(std::to_string(rows) + " rows, keys of " + std::to_string(key_width) + " bytes, " +
                 std::to_string(widths.size()) + " columns, " + std::to_string(radix_bits) + " bits, " +
                 std::to_string(threads) + " threads: partition " + std::to_string(p),
             __FILE__, __LINE__);
    }
    // Nothing is written behind the last row.
    CHECK_EQ(memory.data()[partitioner.rows() * layout.row_bytes()], 0xdd);
}

}  // namespace

GPU_TEST("baseline join: the CPU partitions rows of every width") {
    const std::vector<std::vector<uint32_t>> all_widths = {{}, {4}, {8}, {8, 4}, {2, 1}, {8, 8}, {16, 4}, {16, 8}};
    for (const uint32_t key_width : {4U, 8U}) {
        for (const std::vector<uint32_t>& widths : all_widths) {
            for (const int radix_bits : {0, 3, 9}) check_partition(3001, key_width, widths, radix_bits, 1, 0.1);
        }
    }
}

GPU_TEST("baseline join: the CPU partitions on several threads") {
    for (const uint64_t rows : {0ULL, 1ULL, 31ULL, 33ULL}) check_partition(rows, 8, {8}, 4, 3, rows > 1 ? 0.2 : 0);
    // As many rows as threads take, and remainders; fewer threads than were asked for are taken where rows are few.
    const uint64_t rows = 5 * cuda::kRowsPerThreadMin + 3;
    for (const uint32_t threads : {2U, 5U, 64U, 0U}) {
        check_partition(rows, 8, {8}, 6, threads, 0);
        check_partition(rows, 4, {4, 4}, 12, threads, 0.05);
    }
}

GPU_TEST("baseline join: the CPU partitions while its caller does something else") {
    const uint64_t rows = 3 * cuda::kRowsPerThreadMin + 1;
    for (const uint32_t threads : {1U, 3U}) {
        // It has work for ever, for a while, and work that fails, after which the threads have ended, too.
        uint64_t steps = 0;
        const std::thread::id caller = std::this_thread::get_id();
        check_partition(rows, 8, {8}, 6, threads, 0.05, [&] {
            CHECK(std::this_thread::get_id() == caller);
            return ++steps > 0;
        });
        CHECK(steps >= 2);  // once in either pass
        steps = 0;
        check_partition(rows, 8, {8}, 6, threads, 0.05, [&] { return ++steps % 3 != 0; });
        bool failed = false;
        try {
            check_partition(rows, 8, {8}, 6, threads, 0, []() -> bool { throw std::runtime_error("a step"); });
        } catch (const std::runtime_error& error) {
            failed = std::string(error.what()) == "a step";
        }
        CHECK(failed);
    }
}

}  // namespace spillway::gpu_test
