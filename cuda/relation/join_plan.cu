// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "device/error.hpp"
#include "relation/join_plan.hpp"
#include "relation/null_bits.hpp"
#include "relation/relation_policy.hpp"

namespace spillway::cuda { inline namespace relation {

namespace {

bool can_travel(const TableColumn& column) {
    const uint32_t width = column.width;
    return column.kind == ColumnKind::kFixed && is_value_width(width);
}

// Fills a side column by column.
class SidePlanner {
  public:
    SidePlanner(const DeviceTable& table, const TextWidths& texts, bool takes_all, bool has_row_number)
        : table_(table), texts_(texts), takes_all_(takes_all) {
        if (has_row_number) plan_.row_number_width = table.rows < 1ULL << 32 ? 4 : 8;
    }

    bool carry(uint32_t column) {
        const uint32_t text_width = column < texts_.size() ? texts_[column] : 0;
        if (text_width == 0 && !can_travel(table_.columns[column])) return false;
        const SidePlan before = plan_;
        const bool is_nullable = static_cast<bool>(table_.columns[column].validity);
        const int null_bit = is_nullable ? static_cast<int>(plan_.null_columns++) : kNoNullBit;
        plan_.carried.push_back({column, null_bit, text_width});
        if (fits()) return true;
        plan_ = before;
        return false;
    }
    const SidePlan& plan() const { return plan_; }

  private:
    bool fits() const {
        if (plan_.null_columns > kNullColumnsMax) return false;
        const size_t more = (plan_.null_columns > 0 ? 1 : 0) + (plan_.row_number_width > 0 ? 1 : 0);
        return takes_all_ || plan_.carried.size() + more <= static_cast<size_t>(kCarriedColumnsMax);
    }

    const DeviceTable& table_;
    const TextWidths& texts_;
    const bool takes_all_;
    SidePlan plan_;
};

// wanted: columns of the table, each once, in the order of the output.
SidePlan plan_side(const DeviceTable& table, const TextWidths& texts, const std::vector<uint32_t>& wanted,
                   bool needs_rows, bool takes_all) {
    for (const bool has_row_number : {needs_rows, true}) {
        SidePlanner planner(table, texts, takes_all, has_row_number);
        bool all = true;
        for (const uint32_t column : wanted) all = planner.carry(column) && all;
        // A row number takes room too, so that fewer columns may fit beside it.
        if (all || has_row_number) return planner.plan();
    }
    throw Error(ErrorCode::kInternal, "a side of a join without a plan");
}

class JoinPlanner {
  public:
    JoinPlanner(const DeviceTable& build, const DeviceTable& probe, const TableJoin& join, const JoinKeys& keys,
                const TextWidths (&texts)[2])
        : build_(build), probe_(probe), join_(join), keys_(keys), texts_(texts) {}

    JoinPlan plan() {
        const JoinKind& kind = join_.kind;
        const bool takes_all = carries_all(join_);
        for (const TableJoinColumn& column : join_.output) add(column);
        plan_.side[0] = plan_side(build_, texts_[0], wanted_[0], needs_rows_, takes_all);
        plan_.side[1] = plan_side(probe_, texts_[1], wanted_[1], needs_rows_, takes_all);
        plan_.wants_presence = kind.keep_unmatched_build || kind.keep_unmatched_probe;
        for (PlannedColumn& column : plan_.output) {
            const bool is_wanted = column.way == ColumnWay::kField;
            if (is_wanted && plan_.side[column.side == TableSide::kBuild ? 0 : 1].find(column.column) < 0) {
                column.way = ColumnWay::kGather;
            }
        }
        return std::move(plan_);
    }

  private:
    void add(const TableJoinColumn& column) {
        check(column);
        PlannedColumn planned;
        planned.side = column.side;
        // The probe side has a row everywhere.
        if (column.side == TableSide::kEither && !join_.kind.keep_unmatched_build) planned.side = TableSide::kProbe;
        planned.column = column.side == TableSide::kBuild ? column.build_column : column.probe_column;
        planned.build_column = column.build_column;
        if (is_in_key(planned)) {
            planned.way = ColumnWay::kKey;
            plan_.wants_key = true;
        } else if (planned.side == TableSide::kEither) {
            planned.way = ColumnWay::kGatherEither;
            needs_rows_ = true;
        } else {
            std::vector<uint32_t>& wanted = wanted_[planned.side == TableSide::kBuild ? 0 : 1];
            if (std::find(wanted.begin(), wanted.end(), planned.column) == wanted.end()) {
                wanted.push_back(planned.column);
            }
        }
        planned.wanted_presence = wanted_presence(planned);
        plan_.output.push_back(planned);
    }

    uint8_t wanted_presence(const PlannedColumn& column) const {
        const JoinKind& kind = join_.kind;
        unsigned bits = 0;
        if (column.side == TableSide::kBuild && kind.keep_unmatched_probe) bits |= kBuildPresent;
        if (column.side == TableSide::kProbe && kind.keep_unmatched_build) bits |= kProbePresent;
        // Rows without a key have no partner: they are there where rows without one are kept.
        const bool keyless_build = kind.keep_unmatched_build && keys_.build.validity;
        const bool keyless_probe = kind.keep_unmatched_probe && keys_.probe.validity;
        const bool is_keyless =
            (column.side != TableSide::kProbe && keyless_build) || (column.side != TableSide::kBuild && keyless_probe);
        if (column.way == ColumnWay::kKey && is_keyless) bits |= kKeyPresent;
        return static_cast<uint8_t>(bits);
    }

    void check(const TableJoinColumn& column) const {
        const bool of_build = column.side != TableSide::kProbe;
        const bool of_probe = column.side != TableSide::kBuild;
        if (of_build && column.build_column >= build_.columns.size()) refuse("no such column in the build table");
        if (of_probe && column.probe_column >= probe_.columns.size()) refuse("no such column in the probe table");
        const JoinEmit emit = join_.kind.emit;
        if ((of_build && emit == JoinEmit::kProbeOnce) || (of_probe && emit == JoinEmit::kBuildOnce)) {
            refuse("semi and anti joins have columns of one side");
        }
        if (column.side != TableSide::kEither) return;
        const TableColumn& build = build_.columns[column.build_column];
        const TableColumn& probe = probe_.columns[column.probe_column];
        if (build.kind != probe.kind || build.width != probe.width) {
            refuse("a result column of either side has columns of one type");
        }
    }

    // The join gives a row's key in any case, so a column that is the key needs no room in the row. Where rows without
    // a key are in the result of an anti join, nothing says which those are.
    bool is_in_key(const PlannedColumn& column) const {
        const auto is_key = [&](const KeyColumn& key, const ListView<KeyPart>& parts, uint32_t number) {
            return key.is_value && parts[0].column == number && !(join_.kind.anti && key.validity);
        };
        const bool is_build = is_key(keys_.build, join_.build_keys,
                                     column.side == TableSide::kEither ? column.build_column : column.column);
        const bool is_probe = is_key(keys_.probe, join_.probe_keys, column.column);
        if (column.side == TableSide::kEither) return is_build && is_probe;
        return column.side == TableSide::kBuild ? is_build : is_probe;
    }

    const DeviceTable& build_;
    const DeviceTable& probe_;
    const TableJoin join_;
    const JoinKeys& keys_;
    const TextWidths (&texts_)[2];
    JoinPlan plan_;
    std::vector<uint32_t> wanted_[2];
    bool needs_rows_ = false;
};

}  // namespace

int SidePlan::find(uint32_t column) const {
    const auto found =
        std::find_if(carried.begin(), carried.end(), [&](const CarriedColumn& one) { return one.column == column; });
    return found == carried.end() ? -1 : static_cast<int>(found - carried.begin());
}

bool carries_all(const TableJoin& join) {
    return join.algorithm == JoinAlgorithm::kRadixHash;
}

JoinPlan plan_join(const DeviceTable& build, const DeviceTable& probe, const TableJoin& join, const JoinKeys& keys,
                   const TextWidths (&texts)[2]) {
    return JoinPlanner(build, probe, join, keys, texts).plan();
}

}}  // namespace spillway::cuda::relation
