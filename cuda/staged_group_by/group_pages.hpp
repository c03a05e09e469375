// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/device.hpp"
#include "staged_group_by/group_merger.hpp"
#include "staged_group_by/group_writer.hpp"
#include "stream/chunk_reader.hpp"
#include "stream/row_pages.hpp"
#include "stream/row_spiller.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Partial rows between device memory and the spill store. When pages run out, partitions whose rows may be those of
// half as many groups are aggregated again where they lie, one after the other and no more of them than the next chunk
// needs, so that chunks on the link never wait for all of them; only when that does not help the last resident
// partition leaves. A partition is looked at again when it has twice as many rows as its groups were, so that all of
// this costs a constant number of passes over the rows.
class GroupPages {
  public:
    GroupPages(Device& device, Parcels& parcels, const GroupShape& shape, const StreamSizes& sizes, GroupMerger& merger,
               GroupWriter& writer);

    // Partial rows of a chunk, to pages or to the store.
    void add(const PartitionedChunk& chunk, RowSpiller& spiller);
    // Whether no partition can have to leave in the next so many chunks, whatever they have.
    bool has_room_for_chunks(uint64_t chunks) const;
    bool is_resident(uint64_t partition) const { return resident_[partition] != 0; }
    std::vector<uint64_t> resident() const;

    // Rows that came back from the store.
    bool has_room_for(const std::vector<RowPiece>& pieces) const;
    void append(const RowPieces& batch);
    // Aggregates what may become half as much, as long as it does, until there is room. False: nothing did, or no page
    // became free.
    bool compact(const std::function<bool()>& has_room);
    // The same of one partition that came back and cannot leave again: a part of the pages is enough. False: no page
    // became free, or none would.
    bool compact_alone(uint64_t partition);
    // Keeps only those rows of the partition that are in the slice.
    void keep(uint64_t partition, KeySlice slice);

    // Writes the groups of these partitions, all of whose rows are here; their pages are free afterwards.
    void give(const std::vector<uint64_t>& partitions);
    // The same of some of them, from the first on, that are aggregated at once; the place of the next one.
    size_t give_some(const std::vector<uint64_t>& partitions, size_t first);
    uint64_t free_pages() const { return pages_.free_pages(); }

    // Room for rows of a chunk on their way out or back.
    uint32_t* scratch() const { return scratch_.as<uint32_t>(); }
    uint64_t compacted_rows() const { return compacted_rows_; }

    static constexpr int kSide = 0;

  private:
    uint64_t wanted_pages(const std::vector<RowPiece>& pieces) const;
    void make_room(const std::vector<RowPiece>& pieces, RowSpiller& spiller);
    std::vector<RowPiece> front(uint64_t partition, uint64_t pages) const;
    std::vector<RowPiece> pieces_of(const std::vector<uint64_t>& partitions) const;
    uint64_t rows_of(const std::vector<uint64_t>& partitions) const;
    bool may_shrink(uint64_t partition) const;
    bool fits_merger(const std::vector<uint64_t>& partitions, uint64_t more) const;
    void replace(uint64_t partition, const std::function<PartialRows(const std::vector<RowPiece>&)>& make);
    void compact_large(uint64_t partition);
    bool compact_some(const std::vector<uint64_t>& partitions);
    void give_large(uint64_t partition);
    void give_slice(uint64_t partition, KeySlice slice);

    Device& device_;
    const GroupShape& shape_;
    const uint64_t chunk_rows_;
    GroupMerger& merger_;
    GroupWriter& writer_;
    RowPages pages_;
    Allocation scratch_;
    std::vector<uint8_t> resident_;  // of each partition: 1 = it is
    std::vector<uint64_t> groups_;   // rows that were left when it was aggregated last
    uint64_t next_ = 0;              // partition to be aggregated: of all it has waited longest
    uint64_t compacted_rows_ = 0;
};

}}  // namespace spillway::cuda::staged_group_by
