// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "staged_group_by/group_merger.hpp"
#include "staged_group_by/group_partials.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

GroupMerger::GroupMerger(Device& device, Parcels& parcels, const GroupShape& shape, uint64_t rows_max)
    : device_(device), parcels_(parcels), shape_(shape), rows_max_(rows_max), published_(device, 2 * shape.partitions) {
    keys_ = device.memory().allocate(rows_max * shape.key_bytes, "partial rows as columns");
    for (const PartialColumn& partial : shape.partials) {
        values_.push_back(device.memory().allocate(rows_max * partial.width, "partial rows as columns"));
    }
    count_ = device.memory().allocate(sizeof(uint64_t), "number of partial rows");
}

uint64_t GroupMerger::load(const uint32_t* rows, const std::vector<RowPiece>& pieces, KeySlice slice) {
    std::vector<uint64_t> first_row;
    first_row.reserve(pieces.size());
    uint64_t total = 0;
    for (const RowPiece& piece : pieces) {
        first_row.push_back(total);
        total += piece.rows;
    }
    if (total == 0) return 0;
    if (slice.bits == 0 && total > rows_max_) {
        throw Error(ErrorCode::kInternal, "more partial rows are to be aggregated at once than there is room for");
    }
    RowsToColumns pass;
    const std::vector<uint64_t> first_tile = first_tiles_of(pieces);
    std::tie(pass.tiles.piece, pass.tiles.first_tile, pass.first_row) =
        parcels_.send_together(pieces, first_tile, first_row);
    pass.tiles.pieces = pieces.size();
    pass.tiles.tiles = first_tile.back();
    pass.rows = rows;
    pass.row_words = shape_.code.row_words;
    pass.radix_bits = shape_.code.radix_bits;
    pass.slice = slice;
    pass.columns.rows = rows_max_;
    pass.columns.key_bytes = shape_.key_bytes;
    ResultColumn& key = pass.columns.column[pass.columns.columns++];
    key = {keys_.as(), static_cast<uint16_t>(shape_.key_bytes), static_cast<uint8_t>(OutputSide::kBuild), 0};
    for (size_t i = 0; i < values_.size(); ++i) {
        pass.columns.column[pass.columns.columns++] = {values_[i].as(), static_cast<uint16_t>(shape_.partials[i].width),
                                                       static_cast<uint8_t>(OutputSide::kBuild),
                                                       static_cast<uint8_t>(shape_.rows.offsets[i])};
    }
    pass.count = count_.as<unsigned long long>();
    if (slice.bits > 0) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(count_.as(), 0, count_.bytes(), device_.stream()));
    rows_to_columns(device_, pass);
    if (slice.bits == 0) return total;
    published_.publish({{count_.as(), 1}});
    return published_.wait()[0];
}

DeviceRelation GroupMerger::loaded(uint64_t rows) const {
    DeviceRelation relation;
    relation.rows = rows;
    relation.key = {keys_.as(), shape_.key_bytes};
    for (size_t i = 0; i < values_.size(); ++i) relation.columns.push_back({values_[i].as(), shape_.partials[i].width});
    return relation;
}

GroupByResult GroupMerger::merge(uint64_t rows) const {
    GroupByResult groups = group_partials(device_, shape_, shape_.of_partials(loaded(rows)));
    unmix_keys(device_, groups.keys.as(), shape_.key_bytes, groups.groups);
    return groups;
}

PartialRows GroupMerger::pack_loaded(uint64_t rows) {
    unmix_keys(device_, keys_.as(), shape_.key_bytes, rows);
    return pack(loaded(rows));
}

PartialRows GroupMerger::pack(const DeviceRelation& relation) {
    PartialRows packed;
    packed.batch.row_words = shape_.code.row_words;
    if (relation.rows == 0) return packed;
    packed.rows = radix_partition(device_, relation, static_cast<int>(shape_.code.radix_bits));
    const uint64_t partitions = shape_.partitions;
    published_.publish({{packed.rows.begin.as(), partitions}, {packed.rows.end.as(), partitions}});
    const uint64_t* const begin = published_.wait();
    const uint64_t* const end = begin + partitions;
    packed.batch.rows = packed.rows.data.as<const uint32_t>();
    for (uint64_t p = 0; p < partitions; ++p) {
        if (end[p] > begin[p]) packed.batch.pieces.push_back({begin[p], end[p] - begin[p], p});
    }
    return packed;
}

}}  // namespace spillway::cuda::staged_group_by
