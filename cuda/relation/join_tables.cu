// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "device/phase_times.hpp"
#include "equi_join/equi_join.hpp"
#include "relation/gather.hpp"
#include "relation/join_plan.hpp"
#include "relation/join_tables.hpp"
#include "relation/null_bits.hpp"
#include "relation/relation_grid.cuh"
#include "relation/text_fields.hpp"

namespace spillway::cuda { inline namespace relation {

namespace {

constexpr uint64_t kNoRowsBytes = 16;  // an address at all
constexpr uint8_t kSidePresent[] = {kBuildPresent, kProbePresent};

EquiJoin equi_join_of(const TableJoin& join) {
    EquiJoin equi;
    equi.algorithm = join.algorithm;
    equi.kind = join.kind;
    equi.expected_rows = join.expected_rows;
    equi.first_key = join.first_key;
    equi.key_range = join.key_range;
    return equi;
}

bool contains(const std::vector<uint32_t*>& list, const uint32_t* item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

DeviceRelation relation_of(const DeviceTable& table, const KeyColumn& key) {
    DeviceRelation relation;
    relation.rows = table.rows;
    relation.key = key.data;
    relation.key_valid = key.validity.as<const uint32_t>();
    return relation;
}

}  // namespace

// Memory that several columns of the result are made of.
struct SharedColumn {
    Allocation data;
    int users = 0;
};

// Makes rows of tables, and tables of joined rows.
class TableJoiner {
  public:
    TableJoiner(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join)
        : device_(device), tables_{&build, &probe}, join_(join) {}

    // Keys, the plan, fields of NULLs: what the rows of a join are made of.
    const EquiJoin& prepare() {
        plan_rows();
        return equi_;
    }
    const DeviceRelation& relation(int side) const { return relations_[side]; }

    // Keys and fields of NULLs go when nothing reads them any more.
    void release() {
        keys_ = {};
        for (Allocation& fields : null_fields_) fields.reset();
        text_fields_.clear();
    }

    // The table of a join of the relations, or of a piece of it. May be called again, also after an error.
    DeviceTable finish(JoinResult result) {
        rows_ = result.rows;
        for (Allocation& column : result.columns) results_.push_back({std::move(column), 0});
        try {
            DeviceTable out = make_columns();
            drop_results();
            return out;
        } catch (...) {
            // Who tries again with fewer rows needs the memory.
            drop_results();
            throw;
        }
    }

  private:
    void drop_results() {
        results_.clear();
        for (std::vector<SharedColumn>& bitmaps : nulls_) bitmaps.clear();
    }

    DeviceTable make_columns() {
        count_users();
        const PhaseScope materialize(device_, Phase::kMaterialize);
        for (const int side : {kBuildSide, kProbeSide}) unpack_nulls(side);
        DeviceTable out;
        out.rows = rows_;
        for (const PlannedColumn& column : plan_.output) {
            device_.check_cancelled();
            out.columns.push_back(make(column));
        }
        return out;
    }

    // In the result of the join a side's columns stand in this order: the carried ones from the first on, the field of
    // NULLs, the row number.
    size_t field_at(int side, size_t field) const { return first_[side] + field; }
    size_t nulls_at(int side) const { return first_[side] + plan_.side[side].carried.size(); }
    size_t rows_at(int side) const { return nulls_at(side) + (plan_.side[side].null_columns > 0 ? 1 : 0); }

    void plan_rows() {
        keys_ = join_keys(device_, *tables_[kBuildSide], join_.build_keys, *tables_[kProbeSide], join_.probe_keys,
                          join_.nulls_equal);
        TextWidths texts[2];
        if (carries_all(join_)) find_texts(texts);
        plan_ = plan_join(*tables_[kBuildSide], *tables_[kProbeSide], join_, keys_, texts);
        equi_ = equi_join_of(join_);
        if (plan_.wants_key) equi_.output.push_back({OutputSide::kKey, 0});
        presence_at_ = equi_.output.size();
        if (plan_.wants_presence) equi_.output.push_back({OutputSide::kPresence, 0});
        relations_[kBuildSide] = relation_of(*tables_[kBuildSide], keys_.build);
        relations_[kProbeSide] = relation_of(*tables_[kProbeSide], keys_.probe);
        for (const int side : {kBuildSide, kProbeSide}) {
            first_[side] = equi_.output.size();
            null_fields_[side] = carry(side, relations_[side]);
            const OutputSide of = side == kBuildSide ? OutputSide::kBuild : OutputSide::kProbe;
            for (uint32_t c = 0; c < relations_[side].columns.size(); ++c) equi_.output.push_back({of, c});
        }
    }

    // Which fields the strings of the columns of the output take. Asks the device once for all of them.
    void find_texts(TextWidths (&widths)[2]) {
        const PhaseScope transform(device_, Phase::kTransform);
        for (const int side : {kBuildSide, kProbeSide}) widths[side].resize(tables_[side]->columns.size());
        std::vector<TextColumn> columns;
        std::vector<uint32_t*> width_of;
        for (const TableJoinColumn& wished : join_.output) {
            if (wished.side != TableSide::kBuild && wished.side != TableSide::kProbe) continue;
            const int side = wished.side == TableSide::kBuild ? kBuildSide : kProbeSide;
            const uint32_t number = side == kBuildSide ? wished.build_column : wished.probe_column;
            if (number >= widths[side].size()) continue;  // the plan refuses columns that are not there
            const TableColumn& column = tables_[side]->columns[number];
            uint32_t* const width = &widths[side][number];
            if (column.kind != ColumnKind::kBytes || contains(width_of, width)) continue;
            columns.push_back({column.offsets.as<const uint64_t>(), tables_[side]->rows});
            width_of.push_back(width);
        }
        const std::vector<uint64_t> longest = longest_texts(device_, columns);
        for (size_t c = 0; c < columns.size(); ++c) *width_of[c] = text_field_width(longest[c]);
    }

    // Adds what the plan says to the relation. Returns the field of NULLs.
    Allocation carry(int side, DeviceRelation& relation) {
        const DeviceTable& table = *tables_[side];
        const SidePlan& plan = plan_.side[side];
        std::vector<const uint32_t*> bitmaps;
        // A column without data would be one of row numbers.
        if (table.rows == 0 && !no_rows_) no_rows_ = device_.memory().allocate(kNoRowsBytes, "columns without rows");
        const auto data_of = [&](const Allocation& values) { return values ? values.as() : no_rows_.as(); };
        for (const CarriedColumn& carried : plan.carried) {
            const TableColumn& column = table.columns[carried.column];
            if (carried.text_width > 0) {
                const PhaseScope transform(device_, Phase::kTransform);
                text_fields_.push_back(text_fields(device_, column, table.rows, carried.text_width));
                relation.columns.push_back({data_of(text_fields_.back()), carried.text_width});
            } else {
                relation.columns.push_back({data_of(column.values), column.width});
            }
            if (carried.null_bit != kNoNullBit) bitmaps.push_back(column.validity.as<const uint32_t>());
        }
        Allocation fields;
        if (!bitmaps.empty()) {
            const PhaseScope transform(device_, Phase::kTransform);
            fields = pack_null_bits(device_, bitmaps, table.rows);
            relation.columns.push_back({data_of(fields), null_field_width(bitmaps.size())});
        }
        if (plan.row_number_width > 0) relation.columns.push_back({nullptr, plan.row_number_width});
        return fields;
    }

    // The last user of a shared column takes it, others get copies.
    void count_users() {
        for (const int side : {kBuildSide, kProbeSide}) nulls_[side].resize(plan_.side[side].null_columns);
        for (const PlannedColumn& column : plan_.output) {
            if (column.way == ColumnWay::kKey) ++results_[0].users;
            if (column.way != ColumnWay::kField) continue;
            const int side = column.side == TableSide::kBuild ? kBuildSide : kProbeSide;
            const int field = plan_.side[side].find(column.column);
            const int null_bit = plan_.side[side].carried[field].null_bit;
            ++results_[field_at(side, field)].users;
            if (null_bit != kNoNullBit) ++nulls_[side][null_bit].users;
        }
    }

    void unpack_nulls(int side) {
        const size_t columns = plan_.side[side].null_columns;
        if (columns == 0) return;
        std::vector<Allocation> bitmaps = unpack_null_bits(device_, results_[nulls_at(side)].data.as(), columns, rows_);
        for (size_t bit = 0; bit < columns; ++bit) nulls_[side][bit].data = std::move(bitmaps[bit]);
        results_[nulls_at(side)].data.reset();
    }

    Allocation take(SharedColumn& shared, uint64_t bytes) {
        if (--shared.users == 0) return std::move(shared.data);
        Allocation copy = device_.memory().allocate(bytes, "join result");
        if (bytes > 0) {
            count_moved(device_, 2 * bytes);
            SPILLWAY_CUDA_CHECK(
                cudaMemcpyAsync(copy.as(), shared.data.as(), bytes, cudaMemcpyDeviceToDevice, device_.stream()));
        }
        return copy;
    }

    const uint8_t* presence() const {
        return plan_.wants_presence ? results_[presence_at_].data.as<const uint8_t>() : nullptr;
    }

    TableColumn make(const PlannedColumn& column) {
        if (column.way == ColumnWay::kGatherEither) return gather_from_either(column);
        const int side = column.side == TableSide::kBuild ? kBuildSide : kProbeSide;
        const DeviceTable& table = *tables_[side];
        const TableColumn& source = table.columns[column.column];
        const SidePlan& plan = plan_.side[side];
        // Without rows there may be no presence to look at.
        const uint8_t* const present = column.wanted_presence != 0 ? presence() : nullptr;
        if (column.way == ColumnWay::kGather) {
            return gather(device_, source, table.rows, results_[rows_at(side)].data.as(), plan.row_number_width, rows_,
                          present, kSidePresent[side]);
        }
        const bool is_key = column.way == ColumnWay::kKey;
        const int field = is_key ? 0 : plan.find(column.column);
        const int null_bit = is_key ? kNoNullBit : plan.carried[field].null_bit;
        const uint32_t text_width = is_key ? 0 : plan.carried[field].text_width;
        const uint32_t width = text_width > 0 ? text_width : source.width;
        Allocation values = take(results_[is_key ? 0 : field_at(side, field)], rows_ * width);
        TableColumn out;
        if (text_width > 0) {
            out = gather_texts(device_, values, text_width, rows_);
        } else {
            out.width = width;
            out.values = std::move(values);
        }
        if (null_bit != kNoNullBit) {
            out.validity = take(nulls_[side][null_bit], bitmap_words(rows_) * sizeof(uint32_t));
        } else if (column.wanted_presence != 0) {
            out.validity = presence_bitmap(device_, present, column.wanted_presence, rows_);
        }
        return out;
    }

    TableColumn gather_from_either(const PlannedColumn& column) {
        const auto of = [&](int side, uint32_t number) {
            return GatherSide{tables_[side]->columns[number], tables_[side]->rows, results_[rows_at(side)].data.as(),
                              plan_.side[side].row_number_width, kSidePresent[side]};
        };
        return gather_either(device_, of(kProbeSide, column.column), of(kBuildSide, column.build_column), rows_,
                             presence());
    }

    Device& device_;
    const DeviceTable* const tables_[2];
    const TableJoin join_;
    JoinPlan plan_;
    EquiJoin equi_;
    JoinKeys keys_;
    Allocation null_fields_[2];
    std::vector<Allocation> text_fields_;  // of both sides
    DeviceRelation relations_[2];
    Allocation no_rows_;
    size_t presence_at_ = 0;  // of results_, where the plan wants it
    size_t first_[2] = {};    // of results_: where the columns of a side begin
    uint64_t rows_ = 0;
    std::vector<SharedColumn> results_;  // the key first, if it is wanted
    std::vector<SharedColumn> nulls_[2];
};

DeviceTable join_tables(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join) {
    if (!join.output.empty()) {
        TableJoiner joiner(device, build, probe, join);
        const EquiJoin& equi = joiner.prepare();
        JoinResult rows = equi_join(device, joiner.relation(kBuildSide), joiner.relation(kProbeSide), equi);
        joiner.release();
        return joiner.finish(std::move(rows));
    }
    DeviceTable out;
    out.rows = count_join(device, build, probe, join);
    return out;
}

uint64_t count_join(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join) {
    const JoinKeys keys = join_keys(device, build, join.build_keys, probe, join.probe_keys, join.nulls_equal);
    return equi_join_count(device, relation_of(build, keys.build), relation_of(probe, keys.probe), equi_join_of(join));
}

struct JoinPieces::State {
    State(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& wanted)
        : join(wanted), joiner(device, build, probe, join), pieces(begin(device)) {
        // Rows without a key are in no partition: where the join keeps them they are read from the relations.
        const JoinKind& kind = join.kind;
        if (!kind.anti && !kind.keep_unmatched_build && !kind.keep_unmatched_probe) joiner.release();
    }
    RadixJoinPieces begin(Device& device) {
        const EquiJoin& equi = joiner.prepare();
        return equi_join_pieces(device, joiner.relation(kBuildSide), joiner.relation(kProbeSide), equi);
    }

    const OwnedTableJoin join;
    TableJoiner joiner;
    RadixJoinPieces pieces;
};

JoinPieces::JoinPieces(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join)
    : state_(std::make_unique<State>(device, build, probe, join)) {}

JoinPieces::~JoinPieces() = default;

uint64_t JoinPieces::total_rows() const {
    return state_->pieces.total_rows();
}

std::optional<DeviceTable> JoinPieces::next(uint64_t rows_max) {
    RadixJoinPieces& pieces = state_->pieces;
    if (pieces.rows_left() == 0) return std::nullopt;
    DeviceTable table = state_->joiner.finish(pieces.next(rows_max));
    pieces.accept();
    return table;
}

}}  // namespace spillway::cuda::relation
