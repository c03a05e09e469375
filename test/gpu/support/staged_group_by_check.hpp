// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "support/group_by_check.hpp"
#include "support/pinned_chunks.hpp"

// Group-bys beyond GPU memory, of a host table, against the definition of their results.
namespace spillway::gpu_test {

using cuda::PreAggregation;
using cuda::StagedGroupBy;
using cuda::StagedGroupBySpec;
using cuda::StreamReport;
using cuda::StreamSizes;

// The fewest pages that these sizes may have.
inline uint64_t fewest_group_pages(const StreamSizes& sizes) {
    return (sizes.chunk_rows + 2 * sizes.page_rows - 1) / sizes.page_rows;
}

// Pages for a partial row per row; chunks and pages are small, so that there are several of each.
inline StreamSizes ample_group_sizes(uint64_t rows, int radix_bits, uint64_t chunk_rows = 500,
                                     uint64_t page_rows = 64) {
    StreamSizes sizes;
    sizes.radix_bits = radix_bits;
    sizes.chunk_rows = chunk_rows;
    sizes.page_rows = page_rows;
    sizes.pages = rows / page_rows + (1ULL << radix_bits) + fewest_group_pages(sizes);
    sizes.merge_rows = 2 * std::max(chunk_rows, page_rows);
    sizes.spill_block_bytes = 64 << 10;
    sizes.spill_bytes = 256 << 20;
    sizes.result_rows = chunk_rows;
    return sizes;
}

// As few pages, and rows that are aggregated at once, as there may be.
inline StreamSizes least_group_sizes(int radix_bits, uint64_t chunk_rows = 256, uint64_t page_rows = 64) {
    StreamSizes sizes = ample_group_sizes(0, radix_bits, chunk_rows, page_rows);
    sizes.pages = fewest_group_pages(sizes);
    sizes.merge_rows = std::max(chunk_rows, page_rows);
    sizes.chunk_slots = 2;
    return sizes;
}

inline StreamSizes with_pre_aggregation(StreamSizes sizes, PreAggregation pre_aggregation) {
    sizes.pre_aggregation = pre_aggregation;
    return sizes;
}

class StagedGroupByCheck {
  public:
    // Column 0 of the table is the key, which may be NULL; the others have no NULLs.
    StagedGroupByCheck(HostTable table, std::vector<WantedAggregate> aggregates, bool null_group = false)
        : table_(std::move(table)), aggregates_(std::move(aggregates)), null_group_(null_group) {
        expect();
    }

    // Rows of chunks, over and over; empty: as many as the sizes allow.
    std::vector<uint64_t> cuts;

    const HostTable& expected() const { return expected_; }
    const HostTable& table() const { return table_; }

    StagedGroupBySpec spec(const StreamSizes& sizes) const {
        StagedGroupBySpec spec;
        spec.key_bytes = table_.columns[0].width;
        for (size_t c = 1; c < table_.columns.size(); ++c) spec.widths.push_back(table_.columns[c].width);
        for (const WantedAggregate& wanted : aggregates_) spec.aggregates.push_back(aggregate_of(wanted));
        spec.null_group = null_group_;
        spec.sizes = sizes;
        return spec;
    }
    PinnedChunks chunks(const StreamSizes& sizes) const {
        const std::vector<uint64_t> whole = {sizes.chunk_rows};
        return PinnedChunks(table_, cuts.empty() ? whole : cuts);
    }
    CollectingSink sink(const StagedGroupBySpec& spec) const {
        const auto widths = spec.output_widths();
        return CollectingSink({widths.begin(), widths.end()}, expected_.rows());
    }

    StreamReport run(const StreamSizes& sizes, const std::string& what) const {
        return run(test_device(), spec(sizes), what);
    }
    StreamReport run(cuda::Device& device, const StagedGroupBySpec& spec, const std::string& what) const {
        PinnedChunks source = chunks(spec.sizes);
        CollectingSink rows = sink(spec);
        return run(device, spec, source, rows, what);
    }
    StreamReport run(cuda::Device& device, const StagedGroupBySpec& spec, PinnedChunks& source, CollectingSink& rows,
                     const std::string& what, cuda::SpillDisk* disk = nullptr, cuda::Device* peer = nullptr) const {
        StreamReport report;
        {
            StagedGroupBy group_by(device, spec, peer, disk);
            group_by.run(0, source, &rows);
            report = group_by.report();
        }
        if (!source.all_released()) fail(what + ": chunks were not released", __FILE__, __LINE__);
        if (!rows.complete()) fail(what + ": the result is not complete", __FILE__, __LINE__);
        const std::string difference = row_difference(rows.table(), expected_);
        if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
        CHECK_EQ(report.rows[0], table_.rows());
        CHECK_EQ(report.result_rows, expected_.rows());
        CHECK(report.partial_rows <= report.rows[0]);
        const bool all_resident = report.resident_partitions == 1U << spec.sizes.radix_bits;
        CHECK(!all_resident || report.spilled_rows[0] == 0);
        CHECK(report.h2d_bytes >= row_bytes(table_) * report.rows[0] + report.spilled_bytes[0]);
        CHECK_EQ(report.d2h_bytes, report.spilled_bytes[0] + row_bytes(expected_) * report.result_rows);
        return report;
    }

  private:
    static uint64_t row_bytes(const HostTable& table) {
        uint64_t bytes = 0;
        for (const HostColumn& column : table.columns) bytes += column.width;
        return bytes;
    }

    static cuda::StagedAggregate aggregate_of(const WantedAggregate& wanted) {
        constexpr std::pair<Aggregate, cuda::GroupAggregateKind> kKinds[] = {
            {Aggregate::kCountRows, cuda::GroupAggregateKind::kCountRows},
            {Aggregate::kCount, cuda::GroupAggregateKind::kCount},
            {Aggregate::kSum, cuda::GroupAggregateKind::kSum},
            {Aggregate::kMin, cuda::GroupAggregateKind::kMin},
            {Aggregate::kMax, cuda::GroupAggregateKind::kMax},
            {Aggregate::kMean, cuda::GroupAggregateKind::kMean},
            {Aggregate::kFirst, cuda::GroupAggregateKind::kFirst}};
        cuda::StagedAggregate aggregate;
        for (const auto& kind : kKinds) {
            if (kind.first == wanted.aggregate) aggregate.kind = kind.second;
        }
        aggregate.value_kind = wanted.kind == ValueKind::kFloat      ? cuda::ValueKind::kFloat
                               : wanted.kind == ValueKind::kUnsigned ? cuda::ValueKind::kUnsigned
                                                                     : cuda::ValueKind::kSigned;
        if (wanted.column > 0) aggregate.column = static_cast<uint32_t>(wanted.column - 1);
        if (wanted.decided_by > 0) aggregate.decided_by = static_cast<uint32_t>(wanted.decided_by - 1);
        return aggregate;
    }

    // The key of the group without one is 0, and a byte behind it says which group that is.
    void expect() {
        HostTable rows;
        for (const HostColumn& column : table_.columns) {
            HostColumn copy;
            copy.width = column.width;
            for (uint64_t row = 0; row < table_.rows(); ++row) {
                if (null_group_ || table_.columns[0].is_valid(row)) copy.push_from(column, row);
            }
            rows.columns.push_back(std::move(copy));
        }
        HostTable groups = reference_group_by(rows, {0}, aggregates_);
        const HostColumn found = groups.columns[0];
        HostColumn keys;
        HostColumn presence;
        keys.width = found.width;
        presence.width = 1;
        const std::vector<uint8_t> zeros(found.width);
        for (uint64_t group = 0; group < found.rows(); ++group) {
            const bool valid = found.is_valid(group);
            keys.push_bytes(valid ? found.bytes.data() + group * found.width : zeros.data());
            presence.push(static_cast<uint8_t>(valid));
        }
        expected_.columns.push_back(std::move(keys));
        if (null_group_) expected_.columns.push_back(std::move(presence));
        for (size_t c = 1; c < groups.columns.size(); ++c) expected_.columns.push_back(std::move(groups.columns[c]));
    }

    HostTable table_;
    const std::vector<WantedAggregate> aggregates_;
    const bool null_group_;
    HostTable expected_;
};

// A table of these keys and one column of signed 8-byte values.
inline HostTable keyed_values(const std::vector<uint64_t>& keys, uint32_t key_width = 8, double null_share = 0) {
    HostTable table;
    std::vector<uint8_t> valid;
    if (null_share > 0) valid = null_mask(keys.size(), null_share, test_seed());
    table.columns.push_back(group_keys_column(keys, key_width, std::move(valid)));
    table.columns.push_back(value_column(keys.size(), 8, ValueKind::kSigned, test_seed(), 1));
    return table;
}

}  // namespace spillway::gpu_test
