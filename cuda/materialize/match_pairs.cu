// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "materialize/gather_rows.hpp"
#include "materialize/match_output.cuh"
#include "materialize/match_pairs.hpp"
#include "materialize/materialize_policy.hpp"
#include "materialize/row_list.hpp"

namespace spillway::cuda { inline namespace materialize {

namespace {

using Matcher = std::function<MatchPairs(const MatchWish&)>;

// Presence of rows without a partner: a row number and a random bit read, a byte written.
template <class Number>
__global__ void lone_presence(const uint32_t* valid, const Number* rows, uint64_t count, uint8_t present,
                              uint8_t* out) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const uint64_t row = rows[i];
        const bool keyed = (__ldg(&valid[row / 32]) >> (row % 32) & 1) != 0;
        out[i] = static_cast<uint8_t>(present | (keyed ? kKeyPresent : 0));
    }
}

// Which rows come once each and not in pairs, by side.
bool wants_lone_rows(const JoinKind& kind, int side) {
    if (kind.emit == JoinEmit::kPairs) return side == 0 ? kind.keep_unmatched_build : kind.keep_unmatched_probe;
    return (kind.emit == JoinEmit::kBuildOnce) == (side == 0);
}

// The marks that a kind of join needs.
class Marks {
  public:
    Marks(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind)
        : device_(device), rows_{build.rows, probe.rows} {
        // Semi joins keep rows that have a partner, all others those that have none.
        set_ = kind.emit != JoinEmit::kPairs && !kind.anti;
        for (int side = 0; side < kMatchSides; ++side) {
            if (!wants_lone_rows(kind, side) || rows_[side] == 0) continue;
            words_[side] = device.memory().allocate((rows_[side] + 31) / 32 * 4, "marks of rows with a match");
            // Cleared. Finders mark at random, which counts as the bits written once: a cache holds them.
            count_moved(device, 2 * words_[side].bytes());
            SPILLWAY_CUDA_CHECK(cudaMemsetAsync(words_[side].as(), 0, words_[side].bytes(), device.stream()));
        }
    }

    bool any() const { return words_[0] || words_[1]; }
    MatchWish wish(bool pairs, bool keys = false) const {
        return {pairs, words_[0].as<uint32_t>(), words_[1].as<uint32_t>(), keys};
    }
    uint64_t count(int side) const { return words_[side] ? count_rows(device_, bits(side)) : 0; }
    RowList list(int side) const {
        return words_[side] ? list_rows(device_, bits(side), row_number_width(rows_[side])) : RowList{};
    }

  private:
    RowBits bits(int side) const { return {words_[side].as<const uint32_t>(), rows_[side], set_}; }

    Device& device_;
    uint64_t rows_[kMatchSides];
    bool set_ = false;
    Allocation words_[kMatchSides];
};

// Rows of a result: all pairs, then the build side's lone rows, then the probe side's.
class PairsResult {
  public:
    PairsResult(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const MatchPairs& pairs,
                const RowList (&lone)[kMatchSides], const ColumnMaker& make_column)
        : device_(device), side_{&build, &probe}, make_column_(make_column) {
        rows_[0] = {pairs.build_rows.as(), pairs.build_width, pairs.count, build.rows, pairs.rises};
        rows_[1] = {pairs.probe_rows.as(), pairs.probe_width, pairs.count, probe.rows, pairs.rises};
        pairs_ = pairs.count;
        lone_[0] = lone[0].numbers();
        lone_[1] = lone[1].numbers();
    }

    // keys: of the pairs, if the finder gave them. Where there are no lone rows they are the key column as they are.
    JoinResult materialize(const std::vector<JoinOutputColumn>& output, Allocation keys) const {
        JoinResult result;
        result.rows = pairs_ + lone_[0].count + lone_[1].count;
        for (const JoinOutputColumn& column : output) {
            device_.check_cancelled();
            if (column.side == OutputSide::kKey && keys && result.rows == pairs_) {
                result.columns.push_back(std::move(keys));
                continue;
            }
            result.columns.push_back(device_.memory().allocate(result.rows * width_of(column), "join result"));
            fill(column, keys, result.columns.back().as<uint8_t>());
        }
        return result;
    }

    // Throws for a column that there is not.
    uint32_t width_of(const JoinOutputColumn& column) const {
        if (column.side == OutputSide::kPresence) return 1;
        if (column.side == OutputSide::kKey) return side_[0]->key.width;
        const DeviceRelation& relation = *side_[column.side == OutputSide::kBuild ? 0 : 1];
        if (column.column >= relation.columns.size()) refuse("no such column in the relation");
        const DeviceColumn& from = relation.columns[column.column];
        check_column(from);
        if (from.data == nullptr && relation.rows > 0 && from.width != 4 && from.width != 8) {
            refuse("row numbers have 4 or 8 bytes");
        }
        if (from.data == nullptr && from.width == 4 && relation.rows > 1ULL << 32) {
            refuse("row numbers of 4 bytes for more than 2^32 rows");
        }
        return from.width;
    }

  private:
    // The column as it is, or one made for the rows that are about to be gathered, if there are any.
    DeviceColumn column_at(int side, const JoinOutputColumn& column) const {
        const bool is_key = column.side == OutputSide::kKey;
        const DeviceColumn& described = is_key ? side_[side]->key : side_[side]->columns[column.column];
        if (make_column_ == nullptr || rows_[side].count + lone_[side].count == 0) return described;
        return make_column_(side, column);
    }

    uint64_t first_lone(int side) const { return side == 0 ? pairs_ : pairs_ + lone_[0].count; }

    void fill(const JoinOutputColumn& column, const Allocation& keys, uint8_t* out) const {
        if (column.side == OutputSide::kKey) return fill_key(column, keys, out);
        if (column.side == OutputSide::kPresence) return fill_presence(out);
        const int side = column.side == OutputSide::kBuild ? 0 : 1;
        const DeviceColumn from = column_at(side, column);
        gather_rows(device_, from, rows_[side], out);
        gather_rows(device_, from, lone_[side], out + first_lone(side) * from.width);
        set_bytes(out + first_lone(1 - side) * from.width, 0, lone_[1 - side].count * from.width);
    }

    void fill_key(const JoinOutputColumn& column, const Allocation& keys, uint8_t* out) const {
        if (!keys) {
            // Both sides have the key of a pair; the smaller relation is the one that a cache holds more of.
            const int near = side_[0]->rows < side_[1]->rows ? 0 : 1;
            if (pairs_ > 0) gather_rows(device_, column_at(near, column), rows_[near], out);
        } else if (pairs_ > 0) {
            count_moved(device_, 2 * pairs_ * side_[0]->key.width);
            SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(out, keys.as(), pairs_ * side_[0]->key.width, cudaMemcpyDeviceToDevice,
                                                device_.stream()));
        }
        for (int side = 0; side < kMatchSides; ++side) {
            if (lone_[side].count == 0) continue;
            const DeviceColumn from = column_at(side, column);
            gather_rows(device_, from, lone_[side], out + first_lone(side) * from.width, side_[side]->key_valid);
        }
    }

    void fill_presence(uint8_t* out) const {
        set_bytes(out, kBuildPresent | kProbePresent | kKeyPresent, pairs_);
        for (int side = 0; side < kMatchSides; ++side) {
            const uint8_t present = side == 0 ? kBuildPresent : kProbePresent;
            uint8_t* const to = out + first_lone(side);
            const RowNumbers& rows = lone_[side];
            if (side_[side]->key_valid == nullptr) {
                set_bytes(to, present | kKeyPresent, rows.count);
            } else if (rows.width == 4) {
                start_presence(lone_presence<uint32_t>, side, static_cast<const uint32_t*>(rows.rows), present, to);
            } else {
                start_presence(lone_presence<uint64_t>, side, static_cast<const uint64_t*>(rows.rows), present, to);
            }
        }
    }
    template <class Kernel, class Number>
    void start_presence(Kernel kernel, int side, const Number* rows, uint8_t present, uint8_t* to) const {
        const RowNumbers& list = lone_[side];
        count_moved(device_, list.count * (list.width + 1) +
                                 sector_bytes(device_, list.count, sizeof(uint32_t), list.of_rows / 8, 1));
        launch(kernel, grid_over(device_, lone_[side].count, kMaterializeThreads, kMaterializeBlocksPerMultiprocessor),
               dim3(kMaterializeThreads), 0, device_.stream(), side_[side]->key_valid, rows, lone_[side].count, present,
               to);
    }

    void set_bytes(void* to, int value, uint64_t bytes) const {
        count_moved(device_, bytes);
        if (bytes > 0) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(to, value, bytes, device_.stream()));
    }

    Device& device_;
    const DeviceRelation* const side_[kMatchSides];
    const ColumnMaker& make_column_;
    RowNumbers rows_[kMatchSides];  // of the pairs
    RowNumbers lone_[kMatchSides];
    uint64_t pairs_ = 0;
};

void check_sides(const DeviceRelation& build, const DeviceRelation& probe) {
    if (build.key.width != probe.key.width) refuse("keys of both sides of a join have equal widths");
    for (const DeviceRelation* relation : {&build, &probe}) {
        if (relation->key.width != 4 && relation->key.width != 8) refuse("keys have 4 or 8 bytes");
        if (relation->rows > 0 && relation->key.data == nullptr) refuse("a relation without a key column");
        check_column(relation->key);
    }
}

}  // namespace

JoinResult materialize_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                             const JoinKind& kind, const std::vector<JoinOutputColumn>& output, const Matcher& match,
                             const ColumnMaker& make_column) {
    check_sides(build, probe);
    const PairsResult nothing(device, build, probe, {}, {}, make_column);
    for (const JoinOutputColumn& column : output) nothing.width_of(column);
    MatchPairs pairs;
    RowList lone[kMatchSides];
    {
        const Marks marks(device, build, probe, kind);
        if (kind.emit == JoinEmit::kPairs) {
            const bool keys = std::any_of(output.begin(), output.end(), [](const JoinOutputColumn& column) {
                return column.side == OutputSide::kKey;
            });
            pairs = match(marks.wish(true, keys));
        } else if (marks.any()) {
            match(marks.wish(false));
        }
        for (int side = 0; side < kMatchSides; ++side) lone[side] = marks.list(side);
    }
    const PhaseScope materialize(device, Phase::kMaterialize);
    return PairsResult(device, build, probe, pairs, lone, make_column).materialize(output, std::move(pairs.keys));
}

uint64_t count_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind,
                     const Matcher& match) {
    check_sides(build, probe);
    const Marks marks(device, build, probe, kind);
    uint64_t rows = 0;
    if (kind.emit == JoinEmit::kPairs) rows = match(MatchWish{false, nullptr, nullptr}).count;
    if (!marks.any()) return rows;
    match(marks.wish(false));
    return rows + marks.count(0) + marks.count(1);
}

}}  // namespace spillway::cuda::materialize
