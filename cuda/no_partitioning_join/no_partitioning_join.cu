// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "materialize/dense_output.hpp"
#include "materialize/match_output.cuh"
#include "no_partitioning_join/build_table.cuh"
#include "no_partitioning_join/key_range.hpp"
#include "no_partitioning_join/no_partitioning_join.hpp"
#include "no_partitioning_join/probe_table.cuh"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace no_partitioning_joins {

namespace {

// These three say what a join must move, for reports.
uint64_t npj_key_bytes(const DeviceRelation& relation) {
    return relation.rows * relation.key.width + (relation.key_valid == nullptr ? 0 : relation.rows / 8);
}

// One slot per row is the least that a look takes, however long walks are.
uint64_t npj_slot_bytes(const Device& device, uint64_t rows, uint64_t table_bytes) {
    return sector_bytes(device, rows, sizeof(uint64_t), table_bytes);
}

// Values of the build side at random, of the probe side in its order (its keys are at hand), and the result's columns.
uint64_t npj_match_bytes(const Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                         const MatchOutput& out, const void* const* source, uint64_t matches) {
    uint64_t bytes = 0;
    for (int c = 0; c < out.columns(); ++c) {
        const uint64_t width = out.column[c].width;
        bytes += matches * width;
        if (source[c] == nullptr || source[c] == probe.key.data) continue;
        const bool is_build = c < out.last_column(0);
        bytes += sector_bytes(device, matches, width, (is_build ? build.rows : probe.rows) * width,
                              is_build ? kAnyOrder : 1);
    }
    return bytes;
}

// More than any memory holds, and little enough for products with widths to stay within 64 bits.
constexpr uint64_t kNpjRowsMax = 1ULL << 48;

void check_column(const DeviceColumn& column, uint64_t rows) {
    const uint32_t width = column.width;
    if (!is_value_width(width)) refuse("columns have 1, 2, 4, 8 or 16 bytes");
    if (reinterpret_cast<uintptr_t>(column.data) % 16 != 0) {
        refuse("columns of a relation begin at multiples of 16 bytes");
    }
    if (column.data != nullptr || rows == 0) return;
    if (width != 4 && width != 8) refuse("row numbers have 4 or 8 bytes");
    if (width == 4 && rows > 1ULL << 32) refuse("row numbers of 4 bytes for more than 2^32 rows");
}

void check_relation(const DeviceRelation& relation) {
    if (relation.key.width != 4 && relation.key.width != 8) refuse("keys have 4 or 8 bytes");
    if (relation.rows > kNpjRowsMax) refuse("a relation of more rows than any memory holds");
    if (relation.rows > 0 && relation.key.data == nullptr) refuse("a relation without a key column");
    check_column(relation.key, relation.rows);
    for (const DeviceColumn& column : relation.columns) check_column(column, relation.rows);
}

void check_npj(const DeviceRelation& build, const DeviceRelation& probe, const NpjOptions& options) {
    check_relation(build);
    check_relation(probe);
    if (build.key.width != probe.key.width) refuse("keys of both sides of a join have equal widths");
    if (options.scheme != HashingScheme::kPerfect) return;
    const uint64_t most = build.key.width == 4 ? 1ULL << 32 : kNpjRowsMax;
    if (options.key_range > most) refuse("a key range of more keys than there are, or than any memory holds");
}

void check_output(const std::vector<JoinOutputColumn>& output) {
    if (output.size() > static_cast<size_t>(kOutputColumnsMax)) refuse("too many columns for one join");
}

// Row numbers of 32 bits leave all ones for empty slots.
bool is_wide(uint64_t build_rows, const NpjOptions& options) {
    return options.wide_row_numbers || build_rows > ~uint32_t{0};
}

uint32_t slot_bits_for(uint64_t build_rows) {
    uint32_t bits = kSlotBitsMin;
    while ((1ULL << bits) < build_rows * kSlotsPerRow) ++bits;
    return bits;
}

template <class Key>
KeyRows<Key> keys_of(const DeviceRelation& relation) {
    return {static_cast<const Key*>(relation.key.data), relation.key_valid, relation.rows};
}

class NoPartitioningJoin {
  public:
    NoPartitioningJoin(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                       const NpjOptions& options)
        : device_(device), build_(build), probe_(probe), options_(options) {
        check_npj(build, probe, options);
    }

    uint64_t count() {
        if (!counters_) build_table();
        run_probe(true);
        return read_counters().matches;
    }

    JoinResult materialize(const std::vector<JoinOutputColumn>& output) {
        check_output(output);
        for (const JoinOutputColumn& column : output) source_of(column);
        build_table();
        uint64_t expected_rows = options_.plan == OutputPlan::kCountFirst ? count() : options_.expected_rows;
        for (;;) {
            device_.check_cancelled();
            JoinResult result = allocate(output, expected_rows);
            run_probe(false);
            const Counters counters = read_counters();
            count_moved(device_, npj_match_bytes(device_, build_, probe_, with_.out, with_.source,
                                                 std::min(counters.matches, with_.out.capacity_rows)));
            if (counters.reserved_rows <= with_.out.capacity_rows) {
                result.rows = counters.matches;
                const PhaseScope materialize(device_, Phase::kMaterialize);
                close_holes(device_, with_.out, build_.key.width, result.rows, counters.reserved_rows);
                return result;
            }
            // Enough for the same warps to write the same rows.
            expected_rows = counters.matches;
        }
    }

  private:
    struct Counters {
        uint64_t matches;
        uint64_t reserved_rows;
    };

    // Calls body(table) with the table of these options.
    template <class Body>
    void with_table(Body&& body) const {
        const bool wide = is_wide(build_.rows, options_);
        if (options_.scheme == HashingScheme::kPerfect) {
            if (build_.key.width == 4) {
                wide ? body(perfect<1, unsigned long long>()) : body(perfect<1, unsigned int>());
            } else {
                wide ? body(perfect<2, unsigned long long>()) : body(perfect<2, unsigned int>());
            }
            return;
        }
        const uint32_t bits = slot_bits_for(build_.rows);
        if (build_.key.width == 8) return body(WideTable<2>{table_.as<ulonglong2>(), bits});
        if (wide) return body(WideTable<1>{table_.as<ulonglong2>(), bits});
        body(PackedTable{table_.as<unsigned long long>(), bits});
    }
    template <int kWords, class RowNumber>
    PerfectTable<kWords, RowNumber> perfect() const {
        using Key = typename PerfectTable<kWords, RowNumber>::Key;
        return {table_.as<RowNumber>(), static_cast<Key>(options_.first_key), options_.key_range};
    }

    // The range becomes known, if it is none that only another algorithm can do with.
    void find_range() {
        const KeyRange range = find_key_range(device_, build_);
        if (range.keys > std::max(kRangeSlotsFree, build_.rows * kRangeSlotsPerRow)) {
            refuse("perfect hashing: the keys of the build side are not dense, with " + std::to_string(build_.rows) +
                   " rows in a range of " + std::to_string(range.keys) + " values");
        }
        options_.first_key = range.first;
        options_.key_range = range.keys;
    }

    // Another algorithm may do with less memory than a range that nobody has known of before takes.
    void allocate_table(bool is_found) {
        const uint64_t bytes = npj_table_bytes(build_.rows, build_.key.width, options_);
        try {
            table_ = device_.memory().allocate(bytes, "hash table");
        } catch (const Error& error) {
            if (!is_found || error.code() != ErrorCode::kOutOfMemory) throw;
            refuse(std::string("perfect hashing: no memory for the range of the keys: ") + error.what());
        }
    }

    void build_table() {
        const PhaseScope match(device_, Phase::kMatch);
        const cudaStream_t stream = device_.stream();
        const bool is_sought = options_.scheme == HashingScheme::kPerfect && options_.key_range == 0;
        if (is_sought) find_range();
        allocate_table(is_sought);
        const uint64_t bytes = table_.bytes();
        counters_ = device_.memory().allocate(sizeof(BuildStatus) + sizeof(Counters), "join counters");
        // Cleared; then a slot read and written for each row.
        count_moved(device_, bytes + npj_key_bytes(build_) + 2 * npj_slot_bytes(device_, build_.rows, bytes));
        if (bytes > 0) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(table_.as(), 0xff, bytes, stream));
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counters_.as(), 0, counters_.bytes(), stream));
        const uint64_t steps_max = kWalkStepsFree + build_.rows * kWalkStepsPerRow;
        with_table([&](const auto& table) {
            using Table = std::decay_t<decltype(table)>;
            launch(build_table_kernel<Table>, dim3(blocks_for(build_.rows)), dim3(kNpjThreads), 0, stream, table,
                   keys_of<typename Table::Key>(build_), steps_max, counters_.as<BuildStatus>());
        });
        BuildStatus status{};
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&status, counters_.as(), sizeof status, cudaMemcpyDeviceToHost, stream));
        device_.synchronize();
        check_status(status, steps_max);
    }

    static void check_status(const BuildStatus& status, uint64_t steps_max) {
        if (status.out_of_range != 0) refuse("perfect hashing: a key of the build side is outside of the key range");
        if (status.repeated != 0) refuse("perfect hashing: a key of the build side comes twice");
        if (status.walk_steps >= kWalkTooLong) {
            refuse("linear probing: a run of more than " + std::to_string(kWalkStepsMax) +
                   " slots, as one key in so many rows of the build side makes; partition the relations instead");
        }
        if (status.walk_steps > steps_max) {
            refuse("linear probing: repeated keys of the build side make runs that take more than " +
                   std::to_string(steps_max) + " steps in all; partition the relations instead");
        }
    }

    unsigned blocks_for(uint64_t rows) const {
        constexpr uint64_t kTileRows = static_cast<uint64_t>(kNpjThreads) * kNpjUnroll;
        return grid_over(device_, rows, kTileRows, kNpjBlocksPerMultiprocessor).x;
    }

    JoinResult allocate(const std::vector<JoinOutputColumn>& output, uint64_t expected_rows) {
        if (expected_rows > kNpjRowsMax) refuse("a result of more rows than any memory holds");
        JoinResult result;
        MatchOutput& out = with_.out;
        // Every warp may leave a chunk open.
        const uint64_t warps = static_cast<uint64_t>(blocks_for(probe_.rows)) * kNpjWarps;
        const uint64_t chunks = (expected_rows + kNpjChunkRows - 1) / kNpjChunkRows + warps;
        out.chunk_rows = kNpjChunkRows;
        out.capacity_rows = chunks * kNpjChunkRows;
        holes_.reset();
        holes_ = device_.memory().allocate(chunks * sizeof(uint32_t), "holes of the result");
        out.holes = holes_.as<uint32_t>();
        if (chunks > 0) {
            SPILLWAY_CUDA_CHECK(cudaMemsetAsync(holes_.as(), 0, chunks * sizeof(uint32_t), device_.stream()));
        }
        result.columns.resize(output.size());
        for (size_t c = 0; c < output.size(); ++c) {
            const uint64_t width = source_of(output[c]).width;
            result.columns[c] = device_.memory().allocate(out.capacity_rows * width, "join result");
        }
        order_columns(output, result);
        return result;
    }

    // The key is a column of the probe side: where a match is written its row is at hand.
    static int side_of(const JoinOutputColumn& column) { return column.side == OutputSide::kBuild ? 0 : 1; }
    const DeviceColumn& source_of(const JoinOutputColumn& column) const {
        if (column.side == OutputSide::kKey) return probe_.key;
        const DeviceRelation& relation = column.side == OutputSide::kBuild ? build_ : probe_;
        if (column.column >= relation.columns.size()) refuse("no such column in the relation");
        return relation.columns[column.column];
    }

    // Columns by side and width, as MatchOutput wants them.
    void order_columns(const std::vector<JoinOutputColumn>& output, const JoinResult& result) {
        constexpr uint32_t kWidths[kFieldWidths] = {4, 8, 16, 2, 1};
        uint8_t placed = 0;
        for (int side = 0; side < kMatchSides; ++side) {
            for (int kind = 0; kind < kFieldWidths; ++kind) {
                for (size_t c = 0; c < output.size(); ++c) {
                    const DeviceColumn& source = source_of(output[c]);
                    if (side_of(output[c]) != side || source.width != kWidths[kind]) continue;
                    with_.source[placed] = source.data;
                    with_.out.column[placed++] = {result.columns[c].as(), kWidths[kind], 0};
                }
                with_.out.end[side][kind] = placed;
            }
        }
    }

    void run_probe(bool count_only) {
        const PhaseScope match(device_, Phase::kMatch);
        const cudaStream_t stream = device_.stream();
        count_moved(device_, npj_key_bytes(probe_) + npj_slot_bytes(device_, probe_.rows, table_.bytes()));
        auto* const counters = reinterpret_cast<Counters*>(counters_.as<BuildStatus>() + 1);
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counters, 0, sizeof(Counters), stream));
        with_.out.matches = reinterpret_cast<unsigned long long*>(&counters->matches);
        with_.out.reserved_rows = reinterpret_cast<unsigned long long*>(&counters->reserved_rows);
        with_table([&](const auto& table) {
            using Table = std::decay_t<decltype(table)>;
            const auto kernel = count_only ? probe_table_kernel<Table, true> : probe_table_kernel<Table, false>;
            launch(kernel, dim3(blocks_for(probe_.rows)), dim3(kNpjThreads), 0, stream, table,
                   keys_of<typename Table::Key>(probe_), with_);
        });
    }

    // Waits for the kernel.
    Counters read_counters() {
        Counters counters{};
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&counters, counters_.as<BuildStatus>() + 1, sizeof counters,
                                            cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        return counters;
    }

    Device& device_;
    const DeviceRelation& build_;
    const DeviceRelation& probe_;
    NpjOptions options_;  // with the range, once it is known
    NpjProbe with_;
    Allocation table_;
    Allocation counters_;  // BuildStatus, Counters
    Allocation holes_;
};

}  // namespace

uint64_t npj_table_bytes(uint64_t build_rows, uint32_t key_width, const NpjOptions& options) {
    const bool wide = is_wide(build_rows, options);
    if (options.scheme == HashingScheme::kPerfect) return options.key_range * (wide ? 8 : 4);
    return (wide || key_width == 8 ? 16ULL : 8ULL) << slot_bits_for(build_rows);
}

JoinResult no_partitioning_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                const std::vector<JoinOutputColumn>& output, const NpjOptions& options) {
    return NoPartitioningJoin(device, build, probe, options).materialize(output);
}

uint64_t no_partitioning_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                               const NpjOptions& options) {
    return NoPartitioningJoin(device, build, probe, options).count();
}

}}  // namespace spillway::cuda::no_partitioning_joins
