// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/phase_times.hpp"
#include "equi_join/equi_join_policy.hpp"
#include "equi_join/radix_hash_join.hpp"
#include "equi_join/range_filter.hpp"
#include "hash_join/hash_join.hpp"
#include "materialize/gather_packs.hpp"
#include "radix_partition/pass_policy.hpp"

namespace spillway::cuda { inline namespace equi_joins {

namespace {

std::vector<uint32_t> widths_of(const DeviceRelation& relation) {
    std::vector<uint32_t> widths;
    for (const DeviceColumn& column : relation.columns) widths.push_back(column.width);
    return widths;
}

bool is_padded(uint32_t row_words, int radix_bits) {
    const int passes = radix_passes(radix_bits);
    return gains_from_padding(row_words, (radix_bits + passes - 1) / passes);
}

// With a word more per row that nobody asks for: the row's number, which is read from nowhere.
DeviceRelation with_padding(DeviceRelation relation) {
    relation.columns.push_back({nullptr, 4});
    return relation;
}

constexpr uint8_t kSidePresence[] = {kBuildPresent, kProbePresent};

}  // namespace

RadixHashJoin::RadixHashJoin(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                             const RadixJoinWish& wish)
    : device_(device), wish_(wish), relations_{&build, &probe}, extent_{wish.kind, &build, &probe} {
    const FilteredSides filtered =
        filter_sides(device, build, probe, wish.kind, wish.filter_rows_min, wish.gathered_rows_min);
    const uint64_t build_rows = filtered.build.relation.rows;
    relations_[kBuildSide] = &filtered.build.relation;
    relations_[kProbeSide] = &filtered.probe.relation;
    const uint32_t words_max = wish.row_words_max == 0 ? kWholeRowWordsMax : wish.row_words_max;
    bool is_packed[2];
    uint32_t row_words[2];
    int bits = 0;
    for (const int side : {kBuildSide, kProbeSide}) {
        const DeviceRelation& relation = *relations_[side];
        row_words[side] = RowLayout::words_for(relation.key.width, widths_of(relation));
        is_packed[side] = row_words[side] > words_max || relation.columns.size() > static_cast<size_t>(kRowColumnsMax);
        if (!is_packed[side]) continue;
        row_words[side] = relation.key.width / 4 + row_number_width(relation.rows) / 4;
        bits = std::max(bits, pack_radix_bits(relation.rows));
    }
    if (is_packed[kBuildSide] || is_packed[kProbeSide]) {
        while (bits < kPackedRadixBitsMax && build_rows >> bits > kPackedPartitionRows) ++bits;
        extent_.chunk_rows_max = kPackedChunkRows;
    }
    bits = std::max(bits, join_radix_bits(device, build_rows, build.key.width / 4, row_words[kBuildSide]));
    bool pads[] = {true, true};
    if (is_padded(row_words[kBuildSide], bits)) {
        const int padded = join_radix_bits(device, build_rows, build.key.width / 4, row_words[kBuildSide] + 1);
        // Another pass costs more than rows of seven words do.
        pads[kBuildSide] = radix_passes(padded) <= radix_passes(bits);
        if (pads[kBuildSide]) bits = std::max(bits, padded);
    }
    if (wish.radix_bits >= 0) bits = wish.radix_bits;
    const bool keeps_keyless[] = {wish.kind.keeps_unmatched_build(), wish.kind.keeps_unmatched_probe()};
    for (const int side : {kBuildSide, kProbeSide}) {
        sides_[side] = is_packed[side] ? packed_side(*relations_[side], bits, keeps_keyless[side])
                                       : whole_side(*relations_[side], bits, pads[side]);
    }
    // Nobody asks for rows that were left out.
    relations_[kBuildSide] = &build;
    relations_[kProbeSide] = &probe;
    if (sides_[kBuildSide].is_packed) extent_.build = &sides_[kBuildSide].by_place;
    if (sides_[kProbeSide].is_packed) extent_.probe = &sides_[kProbeSide].by_place;
    plan_output();
}

RadixJoinSide RadixHashJoin::whole_side(const DeviceRelation& relation, int bits, bool pads) const {
    RadixJoinSide side;
    pads = pads && is_padded(RowLayout::words_for(relation.key.width, widths_of(relation)), bits);
    side.rows = radix_partition(device_, pads ? with_padding(relation) : relation, bits);
    return side;
}

RadixJoinSide RadixHashJoin::packed_side(const DeviceRelation& relation, int bits, bool keeps_keyless) const {
    RadixJoinSide side;
    side.is_packed = true;
    side.packed = partition_packed(device_, relation, bits, keeps_keyless);
    side.by_place = side.packed.by_place();
    side.rows = std::move(side.packed.keys);
    return side;
}

void RadixHashJoin::plan_output() {
    // A row of a packed side may be missing: its columns are zeros then.
    const bool wants_presence =
        wish_.kind.pairs() && !wish_.kind.inner() && (sides_[0].is_packed || sides_[1].is_packed);
    for (const JoinOutputColumn& column : wish_.output) {
        const bool of_build = column.side == OutputSide::kBuild;
        const bool of_probe = column.side == OutputSide::kProbe;
        if ((of_build && sides_[kBuildSide].is_packed) || (of_probe && sides_[kProbeSide].is_packed)) {
            output_.column_of.push_back(-1);
            int& places = output_.places[of_build ? kBuildSide : kProbeSide];
            if (places >= 0) continue;
            places = static_cast<int>(output_.columns.size());
            output_.columns.push_back({column.side, 0});
            continue;
        }
        if (column.side == OutputSide::kPresence) output_.presence = static_cast<int>(output_.columns.size());
        output_.column_of.push_back(static_cast<int>(output_.columns.size()));
        output_.columns.push_back(column);
    }
    if (!wants_presence || output_.presence >= 0) return;
    output_.presence = static_cast<int>(output_.columns.size());
    output_.columns.push_back({OutputSide::kPresence, 0});
}

JoinResult RadixHashJoin::materialize(uint64_t expected_rows, OutputPlan plan) {
    JoinResult joined = join_partitions(device_, sides_[kBuildSide].rows, sides_[kProbeSide].rows, output_.columns,
                                        expected_rows, plan, extent_);
    for (RadixJoinSide& side : sides_) side.rows = {};
    return gather(std::move(joined), true);
}

uint64_t RadixHashJoin::count() const {
    return count_matches(device_, sides_[kBuildSide].rows, sides_[kProbeSide].rows, extent_);
}

HashJoinPieces RadixHashJoin::pieces() {
    return {device_, std::move(sides_[kBuildSide].rows), std::move(sides_[kProbeSide].rows), output_.columns, extent_};
}

JoinResult RadixHashJoin::finish(JoinResult piece) {
    return gather(std::move(piece), false);
}

JoinResult RadixHashJoin::gather(JoinResult joined, bool is_last) {
    JoinResult result;
    result.rows = joined.rows;
    result.columns.resize(wish_.output.size());
    const PhaseScope materialize(device_, Phase::kMaterialize);
    for (const int side : {kBuildSide, kProbeSide}) {
        if (output_.places[side] < 0) continue;
        for (ColumnPack& pack : sides_[side].packed.packs) {
            gather_side(side, pack, joined, result);
            if (is_last) pack.rows.reset();
        }
        joined.columns[output_.places[side]].reset();
    }
    for (size_t c = 0; c < wish_.output.size(); ++c) {
        if (output_.column_of[c] >= 0) result.columns[c] = std::move(joined.columns[output_.column_of[c]]);
    }
    return result;
}

void RadixHashJoin::gather_side(int side, const ColumnPack& pack, const JoinResult& joined, JoinResult& result) {
    const PackedRelation& packed = sides_[side].packed;
    const RowNumbers places{joined.columns[output_.places[side]].as(), packed.place_width, joined.rows, packed.places};
    PresentRows present;
    if (output_.presence >= 0) {
        present = {joined.columns[output_.presence].as<const uint8_t>(), kSidePresence[side]};
    }
    std::vector<MatchColumn> columns;
    const auto gather = [&] {
        if (!columns.empty() && joined.rows > 0)
            gather_packs(device_, {pack.rows.as<const uint32_t>(), pack.words}, places, columns, present);
        columns.clear();
    };
    for (const PackField& field : pack.fields) {
        for (size_t c = 0; c < wish_.output.size(); ++c) {
            const JoinOutputColumn& wished = wish_.output[c];
            const bool is_of_side = wished.side == (side == kBuildSide ? OutputSide::kBuild : OutputSide::kProbe);
            if (!is_of_side || wished.column != field.column) continue;
            // A gather writes each field once.
            const bool is_there = std::any_of(columns.begin(), columns.end(),
                                              [&](const MatchColumn& column) { return column.offset == field.offset; });
            if (is_there) gather();
            result.columns[c] = device_.memory().allocate(joined.rows * field.width, "join result");
            columns.push_back({result.columns[c].as(), field.width, field.offset});
        }
    }
    gather();
}

}}  // namespace spillway::cuda::equi_joins
