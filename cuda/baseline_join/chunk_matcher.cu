// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "baseline_join/chunk_matcher.hpp"
#include "hash_join/hash_join.hpp"
#include "hash_join/join_pieces.hpp"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/row_layout.hpp"
#include "sort_merge_join/sort_merge_join.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

class PartitionedMatcher final : public ChunkMatcher {
  public:
    // The columns go as they are partitioned: the memory is used again in the order of the stream.
    PartitionedMatcher(Device& device, const WholeRelation& build, std::vector<JoinOutputColumn> output)
        : device_(device), output_(std::move(output)) {
        const DeviceRelation& relation = build.relation();
        ColumnWidths widths;
        for (const DeviceColumn& column : relation.columns) widths.push_back(column.width);
        const RowLayout layout = RowLayout::make(relation.key.width, widths);
        radix_bits_ = join_radix_bits(device, relation.rows, layout.key_words, layout.row_words);
        build_ = partition(relation);
    }

    uint64_t count(const DeviceRelation& chunk) override { return count_matches(device_, *build_, *partition(chunk)); }

    void join(const DeviceRelation& chunk, uint64_t rows_max, const Give& give) override {
        const std::shared_ptr<const PartitionedRows> probe = partition(chunk);
        const uint64_t rows = count_matches(device_, *build_, *probe);
        if (rows <= rows_max) {
            if (rows > 0) give(join_partitions(device_, *build_, *probe, output_, rows));
            return;
        }
        HashJoinPieces pieces(device_, build_, probe, output_, {});
        while (pieces.rows_left() > 0) {
            device_.check_cancelled();
            give(pieces.next(rows_max));
            pieces.accept();
        }
    }

  private:
    std::shared_ptr<const PartitionedRows> partition(const DeviceRelation& relation) const {
        return std::make_shared<const PartitionedRows>(radix_partition(device_, relation, radix_bits_));
    }

    Device& device_;
    const std::vector<JoinOutputColumn> output_;
    int radix_bits_ = 0;
    std::shared_ptr<const PartitionedRows> build_;
};

class SortedMatcher final : public ChunkMatcher {
  public:
    SortedMatcher(Device& device, WholeRelation build, std::vector<JoinOutputColumn> output)
        : device_(device),
          relation_(std::move(build)),
          output_(std::move(output)),
          build_(sort(relation_.relation())) {}

    uint64_t count(const DeviceRelation& chunk) override {
        const SortedSide probe = sort(chunk);
        return count_sorted(device_, all_of(build_), all_of(probe));
    }

    // A part with too many rows is cut into halves of its longer side, or of the other one when that is a row: each
    // pair is in one part, whatever the keys.
    void join(const DeviceRelation& chunk, uint64_t rows_max, const Give& give) override {
        const SortedSide probe = sort(chunk);
        std::vector<Part> parts = {{all_of(build_), all_of(probe)}};
        while (!parts.empty()) {
            device_.check_cancelled();
            const Part part = parts.back();
            parts.pop_back();
            const uint64_t rows = count_sorted(device_, part.build, part.probe);
            if (rows == 0) continue;
            if (rows <= rows_max || (part.build.rows() == 1 && part.probe.rows() == 1)) {
                give(join_sorted(device_, part.build, part.probe, output_, rows));
                continue;
            }
            Part second = part;
            Part first = part;
            if (part.probe.rows() > 1) {
                first.probe.end = second.probe.begin = part.probe.begin + part.probe.rows() / 2;
            } else {
                first.build.end = second.build.begin = part.build.begin + part.build.rows() / 2;
            }
            parts.push_back(second);
            parts.push_back(first);
        }
    }

  private:
    struct Part {
        SortedRange build;
        SortedRange probe;
    };
    SortedSide sort(const DeviceRelation& relation) const {
        SortMergeOptions options;
        options.scheme = SortMergeScheme::kMergeSort;
        return sort_relation(device_, relation, options);
    }
    static SortedRange all_of(const SortedSide& side) { return {&side, 0, side.keyed_rows}; }

    Device& device_;
    const WholeRelation relation_;  // whose columns are gathered from
    const std::vector<JoinOutputColumn> output_;
    const SortedSide build_;
};

}  // namespace

std::unique_ptr<ChunkMatcher> match_partitioned(Device& device, WholeRelation build,
                                                std::vector<JoinOutputColumn> output) {
    return std::make_unique<PartitionedMatcher>(device, build, std::move(output));
}

std::unique_ptr<ChunkMatcher> match_sorted(Device& device, WholeRelation build, std::vector<JoinOutputColumn> output) {
    return std::make_unique<SortedMatcher>(device, std::move(build), std::move(output));
}

}}  // namespace spillway::cuda::baseline_join
