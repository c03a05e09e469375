// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "staged_group_by/group_pages.hpp"
#include "staged_group_by/staged_group_policy.hpp"
#include "stream/row_spiller.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

GroupPages::GroupPages(Device& device, Parcels& parcels, const GroupShape& shape, const StreamSizes& sizes,
                       GroupMerger& merger, GroupWriter& writer)
    : device_(device),
      shape_(shape),
      chunk_rows_(sizes.chunk_rows),
      merger_(merger),
      writer_(writer),
      pages_(device, parcels, shape.code.row_words, sizes.page_rows, sizes.pages, shape.partitions),
      scratch_(device.memory().allocate(sizes.chunk_rows * shape.rows.row_bytes(), "rows that leave or come back")),
      resident_(shape.partitions, 1),
      groups_(shape.partitions) {}

std::vector<uint64_t> GroupPages::resident() const {
    std::vector<uint64_t> partitions;
    for (uint64_t p = 0; p < resident_.size(); ++p) {
        if (is_resident(p)) partitions.push_back(p);
    }
    return partitions;
}

bool GroupPages::has_room_for_chunks(uint64_t chunks) const {
    // Each piece of a chunk begins a page more than its rows fill, at most.
    const uint64_t chunk_pages = chunk_rows_ / pages_.page_rows() + 1 + shape_.partitions;
    const bool all_resident = std::find(resident_.begin(), resident_.end(), uint8_t{0}) == resident_.end();
    return all_resident && pages_.free_pages() >= chunks * chunk_pages;
}

bool GroupPages::has_room_for(const std::vector<RowPiece>& pieces) const {
    return wanted_pages(pieces) <= pages_.free_pages();
}

uint64_t GroupPages::wanted_pages(const std::vector<RowPiece>& pieces) const {
    // Pieces of one partition are taken together: they come in the order of partitions from a chunk, but a partition
    // comes several times in what comes back.
    std::vector<uint64_t> more(shape_.partitions);
    for (const RowPiece& piece : pieces) more[piece.partition] += piece.rows;
    uint64_t wanted = 0;
    for (uint64_t p = 0; p < more.size(); ++p) {
        if (more[p] > 0) wanted += pages_.pages_for(p, more[p]);
    }
    return wanted;
}

void GroupPages::append(const RowPieces& batch) {
    pages_.append(batch, batch.pieces);
}

void GroupPages::add(const PartitionedChunk& chunk, RowSpiller& spiller) {
    spiller.flush();
    make_room(chunk.batch.pieces, spiller);
    RowPieces kept;
    kept.rows = chunk.batch.rows;
    kept.row_words = chunk.batch.row_words;
    std::vector<RowPiece> spilled;
    for (const RowPiece& piece : chunk.batch.pieces) {
        (is_resident(piece.partition) ? kept.pieces : spilled).push_back(piece);
    }
    append(kept);
    spiller.spill(kSide, chunk.batch.rows, spilled, chunk.extremes);
}

// For those of the pieces whose partitions are resident then.
void GroupPages::make_room(const std::vector<RowPiece>& pieces, RowSpiller& spiller) {
    const auto wanted = [&] {
        std::vector<RowPiece> kept;
        for (const RowPiece& piece : pieces) {
            if (is_resident(piece.partition)) kept.push_back(piece);
        }
        return wanted_pages(kept);
    };
    const auto has_room = [&] { return wanted() <= pages_.free_pages(); };
    while (!has_room()) {
        if (compact(has_room)) continue;
        const std::vector<uint64_t> leaving = leaving_partitions(pages_, resident_, wanted);
        for (const uint64_t p : leaving) groups_[p] = 0;
        evict_rows(pages_, leaving, kSide, {scratch(), chunk_rows_, shape_.code.row_words}, spiller);
    }
}

// The rows in the first pages of a partition.
std::vector<RowPiece> GroupPages::front(uint64_t partition, uint64_t pages) const {
    std::vector<RowPiece> pieces;
    uint64_t left = pages_.rows(partition);
    for (uint64_t i = 0; i < pages; ++i) {
        const uint64_t rows = std::min(left, pages_.page_rows());
        pieces.push_back({pages_.pages(partition)[i] * pages_.page_rows(), rows, partition});
        left -= rows;
    }
    return pieces;
}

std::vector<RowPiece> GroupPages::pieces_of(const std::vector<uint64_t>& partitions) const {
    std::vector<RowPiece> pieces;
    for (const uint64_t p : partitions) {
        const std::vector<RowPiece> own = front(p, pages_.pages(p).size());
        pieces.insert(pieces.end(), own.begin(), own.end());
    }
    return pieces;
}

// What the merger makes of the partition's pages, as many at a time as it can take, takes their place.
void GroupPages::replace(uint64_t partition, const std::function<PartialRows(const std::vector<RowPiece>&)>& make) {
    const uint64_t step = merger_.rows_max() / pages_.page_rows();
    // Rows that were made stand behind those that were there, also in the last page that had room.
    for (uint64_t left = pages_.pages(partition).size(); left > 0;) {
        device_.check_cancelled();
        const uint64_t some = std::min(left, step);
        const PartialRows packed = make(front(partition, some));
        pages_.release_front(partition, some);
        append(packed.batch);
        left -= some;
    }
}

// Where a partition has more rows than the merger takes at once, they are aggregated part by part, again and again as
// long as that leaves at most half of them.
void GroupPages::compact_large(uint64_t partition) {
    uint64_t before = 0;
    do {
        before = pages_.rows(partition);
        replace(partition, [&](const std::vector<RowPiece>& pieces) {
            const uint64_t rows = merger_.load(pages_.data(), pieces);
            compacted_rows_ += rows;
            return merger_.pack(merger_.merge(rows));
        });
    } while (pages_.rows(partition) > merger_.rows_max() && 2 * pages_.rows(partition) <= before);
}

uint64_t GroupPages::rows_of(const std::vector<uint64_t>& partitions) const {
    uint64_t rows = 0;
    for (const uint64_t p : partitions) rows += pages_.rows(p);
    return rows;
}

// Partitions that the merger takes at once, or one. Whether at least half of their rows are gone.
bool GroupPages::compact_some(const std::vector<uint64_t>& partitions) {
    const uint64_t before = rows_of(partitions);
    if (before > merger_.rows_max()) compact_large(partitions.front());
    if (rows_of(partitions) <= merger_.rows_max()) {
        const uint64_t rows = merger_.load(pages_.data(), pieces_of(partitions));
        compacted_rows_ += rows;
        const PartialRows packed = merger_.pack(merger_.merge(rows));
        for (const uint64_t p : partitions) pages_.release(p);
        append(packed.batch);
    }
    for (const uint64_t p : partitions) groups_[p] = pages_.rows(p);
    return 2 * rows_of(partitions) <= before;
}

bool GroupPages::fits_merger(const std::vector<uint64_t>& partitions, uint64_t more) const {
    return rows_of(partitions) + pages_.rows(more) <= merger_.rows_max();
}

bool GroupPages::may_shrink(uint64_t partition) const {
    return pages_.pages(partition).size() >= 2 && pages_.rows(partition) >= 2 * groups_[partition];
}

// On from where the last one ended: partitions that were not aggregated for longest have most rows of equal keys.
bool GroupPages::compact(const std::function<bool()>& has_room) {
    const uint64_t free_before = pages_.free_pages();
    bool pays = true;
    bool paid = false;
    for (uint64_t looked_at = 0; pays && !has_room();) {
        std::vector<uint64_t> some;
        for (; looked_at < shape_.partitions; ++looked_at, next_ = (next_ + 1) % shape_.partitions) {
            if (!may_shrink(next_)) continue;
            if (!some.empty() && !fits_merger(some, next_)) break;
            some.push_back(next_);
        }
        if (some.empty()) break;
        device_.check_cancelled();
        pays = compact_some(some);
        paid = paid || pays;
    }
    return paid && pages_.free_pages() > free_before;
}

bool GroupPages::compact_alone(uint64_t partition) {
    if (pages_.rows(partition) < groups_[partition] + pages_.capacity_rows() / kCompactedShare) return false;
    const uint64_t free_before = pages_.free_pages();
    compact_some({partition});
    return pages_.free_pages() > free_before;
}

void GroupPages::keep(uint64_t partition, KeySlice slice) {
    replace(partition, [&](const std::vector<RowPiece>& pieces) {
        return merger_.pack_loaded(merger_.load(pages_.data(), pieces, slice));
    });
    groups_[partition] = std::min(groups_[partition] / 2, pages_.rows(partition));
}

size_t GroupPages::give_some(const std::vector<uint64_t>& partitions, size_t first) {
    device_.check_cancelled();
    if (pages_.rows(partitions[first]) > merger_.rows_max()) {
        give_large(partitions[first]);
        return first + 1;
    }
    std::vector<uint64_t> some;
    for (; first < partitions.size() && fits_merger(some, partitions[first]); ++first) {
        some.push_back(partitions[first]);
    }
    const uint64_t rows = merger_.load(pages_.data(), pieces_of(some));
    if (rows > 0) writer_.write(merger_.merge(rows), true);
    for (const uint64_t p : some) {
        pages_.release(p);
        groups_[p] = 0;
    }
    return first;
}

void GroupPages::give(const std::vector<uint64_t>& partitions) {
    for (size_t next = 0; next < partitions.size();) next = give_some(partitions, next);
}

// Rows of the same key in different parts of the pages are aggregated with each other slice by slice of the keys. It is
// worth something to aggregate each part before: a key that most rows have is in one slice.
void GroupPages::give_large(uint64_t partition) {
    compact_large(partition);
    KeySlice slice;
    while (pages_.rows(partition) >> slice.bits > merger_.rows_max()) ++slice.bits;
    for (; slice.value >> slice.bits == 0; ++slice.value) give_slice(partition, slice);
    pages_.release(partition);
    groups_[partition] = 0;
}

void GroupPages::give_slice(uint64_t partition, KeySlice slice) {
    device_.check_cancelled();
    const uint64_t rows = merger_.load(pages_.data(), pieces_of({partition}), slice);
    if (rows <= merger_.rows_max()) {
        if (rows > 0) writer_.write(merger_.merge(rows), true);
        return;
    }
    if (slice.bits + shape_.code.radix_bits >= shape_.key_bytes * 8) {
        throw Error(ErrorCode::kInternal, "one key has more partial rows than are aggregated at once");
    }
    for (const uint64_t half : {0, 1}) give_slice(partition, slice.half(half));
}

}}  // namespace spillway::cuda::staged_group_by
