// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cub/device/device_scan.cuh>

#include "device/launch.hpp"
#include "hash_join/co_partition_join.cuh"
#include "hash_join/hash_join.hpp"
#include "materialize/dense_output.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda {

namespace {

uint32_t bucket_count(uint32_t row_words) {
    return 1U << join_bucket_bits(static_cast<int>(row_words));
}

uint32_t build_capacity(Device& device, uint32_t row_words) {
    constexpr uint64_t kStaticBytes = 1024;  // more than the kernel's own variables in shared memory
    const uint64_t shared = device.properties().shared_bytes_per_block_optin - kStaticBytes -
                            JoinTable::fixed_bytes(bucket_count(row_words));
    const uint64_t rows = std::min<uint64_t>(shared / (row_words * 4ULL + 2), kNoRow);
    return static_cast<uint32_t>(rows / kRegionAlignRows * kRegionAlignRows);
}

__global__ void count_units(JoinSide build, JoinSide probe, uint64_t partitions, uint32_t capacity, uint64_t* units) {
    const uint64_t p = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (p > partitions) return;
    units[p] = p == partitions ? 0 : join_units(build.end[p] - build.begin[p], probe.end[p] - probe.begin[p], capacity);
}

class HashJoin {
  public:
    HashJoin(Device& device, const PartitionedRows& build, const PartitionedRows& probe)
        : device_(device), build_(build), probe_(probe) {
        if (build.radix_bits != probe.radix_bits || build.layout.key_words != probe.layout.key_words) {
            throw Error(ErrorCode::kInvalid, "both sides of a join are partitioned alike");
        }
        pass_.build = side_of(build);
        pass_.probe = side_of(probe);
        pass_.partitions = build.partitions();
        pass_.build_capacity = build_capacity(device, build.layout.row_words);
        pass_.buckets = bucket_count(build.layout.row_words);
        const int rest = 32 - build.radix_bits - join_bucket_bits(static_cast<int>(build.layout.row_words));
        pass_.bucket_shift = static_cast<uint32_t>(std::max(rest, 0));
        counters_ = device.memory().allocate(3 * sizeof(uint64_t), "join counters");
        pass_.next_unit = counters_.as<unsigned long long>();
        pass_.out.matches = pass_.next_unit + 1;
        pass_.out.reserved_rows = pass_.next_unit + 2;
        plan_units();
    }

    uint64_t count() {
        run_kernel(true);
        return read_counters()[1];
    }

    JoinResult materialize(const std::vector<JoinOutputColumn>& output, uint64_t expected_rows, OutputPlan plan) {
        const auto keys = std::count_if(output.begin(), output.end(),
                                        [](const JoinOutputColumn& c) { return c.side == OutputSide::kKey; });
        if (output.size() > static_cast<size_t>(kOutputColumnsMax) || keys > 1) {
            throw Error(ErrorCode::kInvalid, "too many columns for one join, or the key twice");
        }
        if (plan == OutputPlan::kCountFirst) expected_rows = count();
        for (;;) {
            JoinResult result = allocate(output, expected_rows);
            run_kernel(false);
            const std::vector<uint64_t> counters = read_counters();
            if (counters[2] <= pass_.out.capacity_rows) {
                result.rows = counters[1];
                close_holes(device_, pass_.out, key_width(), result.rows, counters[2]);
                return result;
            }
            expected_rows = counters[1];
        }
    }

  private:
    static JoinSide side_of(const PartitionedRows& rows) {
        JoinSide side;
        side.rows = rows.data.as<const uint32_t>();
        side.begin = rows.begin.as<const uint64_t>();
        side.end = rows.end.as<const uint64_t>();
        side.row_words = rows.layout.row_words;
        return side;
    }

    void plan_units() {
        const uint64_t count = pass_.partitions + 1;
        units_ = device_.memory().allocate(count * sizeof(uint64_t), "units of a join");
        constexpr unsigned kThreads = 256;
        launch(count_units, dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads), 0,
               device_.stream(), pass_.build, pass_.probe, pass_.partitions, pass_.build_capacity,
               units_.as<uint64_t>());
        size_t bytes = 0;
        auto* const units = units_.as<uint64_t>();
        const auto items = static_cast<int64_t>(count);
        const cudaStream_t stream = device_.stream();
        SPILLWAY_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, bytes, units, units, items, stream));
        const Allocation scratch = device_.memory().allocate(bytes, "prefix sum");
        SPILLWAY_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(scratch.as(), bytes, units, units, items, stream));
        pass_.first_unit = units;
    }

    JoinResult allocate(const std::vector<JoinOutputColumn>& output, uint64_t expected_rows) {
        JoinResult result;
        MatchOutput& out = pass_.out;
        // Every warp may leave a chunk open.
        const uint64_t open_rows = warps() * kOutputChunkRows;
        const uint64_t chunks = (expected_rows + open_rows + kOutputChunkRows - 1) / kOutputChunkRows;
        out.chunk_rows = kOutputChunkRows;
        out.capacity_rows = chunks * kOutputChunkRows;
        holes_ = device_.memory().allocate(chunks * sizeof(uint32_t), "holes of the result");
        out.holes = holes_.as<uint32_t>();
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(holes_.as(), 0, chunks * sizeof(uint32_t), device_.stream()));
        result.columns.resize(output.size());
        for (size_t c = 0; c < output.size(); ++c) {
            result.columns[c] = device_.memory().allocate(out.capacity_rows * width_of(output[c]), "join result");
        }
        order_columns(output, result);
        return result;
    }

    const RowLayout& layout_of(const JoinOutputColumn& column) const {
        return column.side == OutputSide::kBuild ? build_.layout : probe_.layout;
    }
    uint32_t key_width() const { return build_.layout.key_words * 4; }
    uint32_t width_of(const JoinOutputColumn& column) const {
        if (column.side == OutputSide::kKey) return key_width();
        if (column.column >= layout_of(column).widths.size()) {
            throw Error(ErrorCode::kInvalid, "no such column in the rows");
        }
        return layout_of(column).widths[column.column];
    }

    // Columns by side and width, as MatchOutput wants them.
    void order_columns(const std::vector<JoinOutputColumn>& output, const JoinResult& result) {
        constexpr uint32_t kWidths[kFieldWidths] = {4, 8, 16, 2, 1};
        MatchOutput& out = pass_.out;
        out.key = nullptr;
        uint8_t placed = 0;
        for (int side = 0; side < kMatchSides; ++side) {
            for (int kind = 0; kind < kFieldWidths; ++kind) {
                for (size_t c = 0; c < output.size(); ++c) {
                    if (output[c].side == OutputSide::kKey) {
                        out.key = result.columns[c].as();
                    } else if (output[c].side == static_cast<OutputSide>(side) &&
                               width_of(output[c]) == kWidths[kind]) {
                        const uint32_t offset = layout_of(output[c]).offsets[output[c].column];
                        out.column[placed++] = {result.columns[c].as(), kWidths[kind], offset};
                    }
                }
                out.end[side][kind] = placed;
            }
        }
    }

    uint64_t blocks() const { return static_cast<uint64_t>(device_.properties().multiprocessors); }
    uint64_t warps() const { return blocks() * (kJoinThreads / kWarpThreads); }

    void run_kernel(bool count_only) {
        const cudaStream_t stream = device_.stream();
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counters_.as(), 0, 3 * sizeof(uint64_t), stream));
        const dim3 grid(static_cast<unsigned>(blocks()));
        const uint64_t shared = JoinTable::bytes(pass_.build_capacity, pass_.build.row_words, pass_.buckets);
        const auto kernel = build_.layout.key_words == 1
                                ? (count_only ? co_partition_join_kernel<1, true> : co_partition_join_kernel<1, false>)
                                : (count_only ? co_partition_join_kernel<2, true> : co_partition_join_kernel<2, false>);
        launch(kernel, grid, dim3(kJoinThreads), shared, stream, pass_);
    }

    // Next unit, matches, reserved rows; waits for the kernel.
    std::vector<uint64_t> read_counters() {
        std::vector<uint64_t> counters(3);
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(counters.data(), counters_.as(), 3 * sizeof(uint64_t),
                                            cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        return counters;
    }

    Device& device_;
    const PartitionedRows& build_;
    const PartitionedRows& probe_;
    JoinPass pass_;
    Allocation counters_;
    Allocation units_;
    Allocation holes_;
};

}  // namespace

int join_radix_bits(Device& device, uint64_t build_rows, uint32_t build_row_words) {
    const double fits = std::min<double>(build_capacity(device, build_row_words) * kPartitionFill, kPartitionRowsMax);
    int bits = 0;
    while (bits < radix_bits_max() && static_cast<double>(build_rows) / std::exp2(bits) > fits) ++bits;
    return bits;
}

uint64_t count_matches(Device& device, const PartitionedRows& build, const PartitionedRows& probe) {
    return HashJoin(device, build, probe).count();
}

JoinResult join_partitions(Device& device, const PartitionedRows& build, const PartitionedRows& probe,
                           const std::vector<JoinOutputColumn>& output, uint64_t expected_rows, OutputPlan plan) {
    return HashJoin(device, build, probe).materialize(output, expected_rows, plan);
}

}  // namespace spillway::cuda
