// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "staged_join/staged_join.hpp"
#include "support/join_kinds.hpp"
#include "support/pinned_chunks.hpp"

// Joins beyond GPU memory, on relations that a host table holds, against the definition of their results.
namespace spillway::gpu_test {

using cuda::JoinResultKind;
using cuda::StagedJoin;
using cuda::StagedJoinSpec;
using cuda::StreamReport;
using cuda::StreamSizes;

constexpr uint32_t kAllResident = ~0U;

// The fewest pages that these sizes may have.
inline uint64_t fewest_pages(const StreamSizes& sizes) {
    return (sizes.chunk_rows + 2 * sizes.page_rows - 1) / sizes.page_rows;
}

// Pages for all rows of the build side; chunks and pages are small, so that there are several of each.
inline StreamSizes ample_sizes(uint64_t build_rows, int radix_bits, uint64_t chunk_rows = 500,
                               uint64_t page_rows = 64) {
    StreamSizes sizes;
    sizes.radix_bits = radix_bits;
    sizes.chunk_rows = chunk_rows;
    sizes.page_rows = page_rows;
    sizes.pages = build_rows / page_rows + (1ULL << radix_bits) + fewest_pages(sizes);
    sizes.spill_block_bytes = 64 << 10;
    sizes.spill_bytes = 256 << 20;
    sizes.result_rows = chunk_rows;
    return sizes;
}

inline StreamSizes spilled_sizes(uint64_t build_rows, int radix_bits, uint32_t resident_partitions) {
    StreamSizes sizes = ample_sizes(build_rows, radix_bits);
    sizes.resident_partitions = resident_partitions;
    return sizes;
}

// As few pages as there may be: partitions leave while the build side comes in, and those that are larger than all
// pages are joined in parts.
inline StreamSizes least_sizes(int radix_bits, uint64_t chunk_rows = 256, uint64_t page_rows = 64) {
    StreamSizes sizes = ample_sizes(0, radix_bits, chunk_rows, page_rows);
    sizes.pages = fewest_pages(sizes);
    sizes.chunk_slots = 2;
    return sizes;
}

inline cuda::ColumnWidths carried_widths(const KeyedRelation& relation) {
    cuda::ColumnWidths widths;
    const auto& columns = relation.host().columns;
    for (size_t c = 1; c < columns.size(); ++c) widths.push_back(columns[c].width);
    return widths;
}

struct StagedJoinOutcome {
    StreamReport report;
    HostTable table;
    std::vector<uint64_t> partition_rows;
};

// One join of chunks that were made before. sink: nullptr unless rows are wanted.
inline StagedJoinOutcome run_staged_join(cuda::Device& device, const StagedJoinSpec& spec, PinnedChunks& build,
                                         PinnedChunks& probe, CollectingSink* sink, cuda::SpillDisk* disk = nullptr,
                                         cuda::Device* peer = nullptr) {
    build.rewind();
    probe.rewind();
    StagedJoinOutcome outcome;
    {
        StagedJoin join(device, spec, peer, disk);
        join.run(cuda::kBuildSide, build, sink);
        outcome.partition_rows = join.partition_rows();
        join.run(cuda::kProbeSide, probe, sink);
        outcome.report = join.report();
    }
    CHECK(build.all_released());
    CHECK(probe.all_released());
    if (sink == nullptr) return outcome;
    CHECK(sink->complete());
    outcome.table = sink->table();
    return outcome;
}

// Joins of two relations of one kind: rows, sums and the count, with the sizes that a test asks for.
class StagedJoinCheck {
  public:
    // key_columns: of StagedJoinSpec.
    StagedJoinCheck(const KeyedRelation& build, const KeyedRelation& probe, const JoinKind& kind = {},
                    uint32_t key_columns = 0)
        : build_(build),
          probe_(probe),
          kind_(kind),
          key_columns_(key_columns),
          expected_(expected_table(build, probe, kind, keys_of(key_columns))) {}

    // Rows of the chunks of the build and the probe side, over and over; empty: as many as the sizes allow.
    std::vector<uint64_t> cuts[2];
    bool packed = false;  // values of chunks and of the result cross the link packed

    uint64_t expected_rows() const { return expected_.rows(); }
    const HostTable& expected() const { return expected_; }

    // In the small suite one of sums and count.
    void all(const StreamSizes& sizes, const std::string& what) const {
        rows(sizes, what);
        if (full_suite() || expected_.rows() % 3 != 0) sums(sizes, what);
        if (full_suite() || expected_.rows() % 3 == 0) count(sizes, what);
    }
    void rows(const StreamSizes& sizes, const std::string& what) const {
        const StagedJoinSpec wanted = spec(JoinResultKind::kRows, sizes);
        check(wanted, run(test_device(), wanted), what + ", rows");
    }
    void sums(const StreamSizes& sizes, const std::string& what) const {
        const StagedJoinSpec wanted = spec(JoinResultKind::kSums, sizes);
        check(wanted, run(test_device(), wanted), what + ", sums");
    }
    void count(const StreamSizes& sizes, const std::string& what) const {
        const StagedJoinSpec wanted = spec(JoinResultKind::kCount, sizes);
        check(wanted, run(test_device(), wanted), what + ", count");
    }

    // Rows: key, presence, all columns of both sides. Sums: the key and the first columns that have sums.
    StagedJoinSpec spec(JoinResultKind result, const StreamSizes& sizes) const {
        StagedJoinSpec spec;
        spec.key_bytes = build_.host().columns[0].width;
        spec.widths[0] = carried_widths(build_);
        spec.widths[1] = carried_widths(probe_);
        spec.kind = kind_;
        spec.key_columns = key_columns_;
        spec.result = result;
        spec.sizes = sizes;
        if (result == JoinResultKind::kRows) {
            const std::vector<cuda::JoinOutputColumn> all = all_columns_and_presence(build_, probe_);
            spec.output.assign(all.begin(), all.end());
        }
        if (result != JoinResultKind::kSums) return spec;
        for (const size_t column : summed_columns()) {
            spec.output.push_back(all_columns_and_presence(build_, probe_)[column]);
        }
        return spec;
    }
    StagedJoinOutcome run(cuda::Device& device, const StagedJoinSpec& spec) const {
        PinnedChunks build = chunks(0, spec.sizes);
        PinnedChunks probe = chunks(1, spec.sizes);
        CollectingSink rows = sink();
        return run_staged_join(device, spec, build, probe, spec.result == JoinResultKind::kRows ? &rows : nullptr);
    }
    PinnedChunks chunks(int side, const StreamSizes& sizes) const {
        const std::vector<uint64_t> whole = {sizes.chunk_rows};
        return PinnedChunks((side == 0 ? build_ : probe_).host(), cuts[side].empty() ? whole : cuts[side], packed);
    }
    CollectingSink sink() const {
        std::vector<uint32_t> widths;
        for (const HostColumn& column : expected_.columns) widths.push_back(column.width);
        return CollectingSink(widths, expected_.rows(), packed);
    }

    void check(const StagedJoinSpec& spec, const StagedJoinOutcome& outcome, const std::string& what) const {
        try {
            CHECK_EQ(outcome.report.rows[0], build_.host().rows());
            CHECK_EQ(outcome.report.rows[1], probe_.host().rows());
            CHECK_EQ(outcome.report.result_rows, expected_.rows());
            check_partitions(spec, outcome);
            check_bytes(spec, outcome);
            if (spec.result == JoinResultKind::kSums) check_sums(outcome.report);
        } catch (const Failure& failure) {
            throw Failure(what + ": " + failure.what());
        }
        if (spec.result != JoinResultKind::kRows) return;
        const std::string difference = row_difference(outcome.table, expected_);
        if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
    }

  private:
    static std::vector<size_t> keys_of(uint32_t key_columns) {
        std::vector<size_t> keys(1 + key_columns);
        std::iota(keys.begin(), keys.end(), 0);
        return keys;
    }

    // A join sums these columns of expected_: the key and at most three others, taken from both sides in turn.
    std::vector<size_t> summed_columns() const {
        std::vector<size_t> columns = {0};
        const size_t build_end = build_.host().columns.size() + 1;
        for (size_t c = 0; c < expected_.columns.size(); ++c) {
            for (const size_t at : {2 + c, build_end + c}) {
                const bool of_build = at == 2 + c;
                if (at >= (of_build ? build_end : expected_.columns.size()) || columns.size() == 4) continue;
                const uint32_t width = expected_.columns[at].width;
                if (width == 4 || width == 8) columns.push_back(at);
            }
        }
        return columns;
    }

    void check_sums(const StreamReport& report) const {
        const std::vector<size_t> columns = summed_columns();
        CHECK_EQ(report.sums.size(), columns.size());
        for (size_t c = 0; c < columns.size(); ++c) {
            const HostColumn& column = expected_.columns[columns[c]];
            uint64_t sum = 0;
            for (uint64_t row = 0; row < column.rows(); ++row) {
                sum += column.width == 4 ? column.value<uint32_t>(row) : column.value<uint64_t>(row);
            }
            CHECK_EQ(report.sums[c], sum);
        }
    }

    // The true sizes of the build side's partitions; rows without a key may stand where they like.
    void check_partitions(const StagedJoinSpec& spec, const StagedJoinOutcome& outcome) const {
        const HostColumn& keys = build_.host().columns[0];
        if (!keys.valid_bits.empty()) return;
        std::vector<uint64_t> expected(1ULL << spec.sizes.radix_bits);
        for (uint64_t row = 0; row < keys.rows(); ++row) {
            const uint64_t top = keys.width == 4 ? uint64_t{cuda::mix32(keys.value<uint32_t>(row))} << 32
                                                 : cuda::mix64(keys.value<uint64_t>(row));
            ++expected[spec.sizes.radix_bits == 0 ? 0 : top >> (64 - spec.sizes.radix_bits)];
        }
        CHECK(outcome.partition_rows == expected);
    }

    void check_bytes(const StagedJoinSpec& spec, const StagedJoinOutcome& outcome) const {
        const StreamReport& report = outcome.report;
        uint64_t input_bytes = 0;
        for (const KeyedRelation* side : {&build_, &probe_}) {
            for (const HostColumn& column : side->host().columns) input_bytes += column.bytes.size();
        }
        uint64_t result_bytes = 0;
        if (spec.result == JoinResultKind::kRows) {
            for (const HostColumn& column : expected_.columns) result_bytes += column.bytes.size();
        }
        CHECK(report.h2d_bytes + report.saved_bytes >= input_bytes);
        CHECK(packed || report.saved_bytes == 0);
        CHECK(report.d2h_bytes >= result_bytes + report.spilled_bytes[0] + report.spilled_bytes[1]);
        CHECK(report.spilled_rows[0] <= report.rows[0]);
        CHECK(report.spilled_rows[1] <= report.rows[1]);
        if (spec.sizes.resident_partitions == 0 && build_.host().columns[0].valid_bits.empty()) {
            CHECK_EQ(report.spilled_rows[0], report.rows[0]);
            CHECK_EQ(report.resident_partitions, 0);
        }
        // A partition far larger than the others leaves, for the index has no room for it.
        const StreamSizes& sizes = spec.sizes;
        const auto& rows = outcome.partition_rows;
        const StreamSizes ample = ample_sizes(report.rows[0], sizes.radix_bits, sizes.chunk_rows, sizes.page_rows);
        const bool even = *std::max_element(rows.begin(), rows.end()) <= 2 * (report.rows[0] >> sizes.radix_bits);
        if (even && sizes.resident_partitions == kAllResident && sizes.pages >= ample.pages) {
            CHECK_EQ(report.spilled_rows[0], 0);
            CHECK_EQ(report.spilled_rows[1], 0);
        }
    }

    const KeyedRelation& build_;
    const KeyedRelation& probe_;
    const JoinKind kind_;
    const uint32_t key_columns_;
    const HostTable expected_;
};

}  // namespace spillway::gpu_test
