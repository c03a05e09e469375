// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "staged_join/build_side.hpp"
#include "stream/row_spiller.hpp"

namespace spillway::cuda { inline namespace staged_join {

BuildSide::BuildSide(Device& device, Parcels& parcels, const RowLayout& rows, const CodeLayout& layout,
                     const StreamSizes& sizes, uint64_t index_rows, bool marks)
    : device_(device),
      row_words_(layout.row_words),
      chunk_rows_(sizes.chunk_rows),
      pages_(device, parcels, layout.row_words, sizes.page_rows, sizes.pages, 1ULL << layout.radix_bits),
      index_(device, parcels, pages_, rows, static_cast<int>(layout.radix_bits), index_rows),
      resident_(1ULL << layout.radix_bits),
      rows_(1ULL << layout.radix_bits) {
    for (uint64_t p = 0; p < resident_.size(); ++p) resident_[p] = p < sizes.resident_partitions ? 1 : 0;
    if (marks) marks_ = device.memory().allocate(pages_.capacity_rows(), "marks of build rows");
}

std::vector<uint64_t> BuildSide::resident() const {
    std::vector<uint64_t> partitions;
    for (uint64_t p = 0; p < resident_.size(); ++p) {
        if (is_resident(p)) partitions.push_back(p);
    }
    return partitions;
}

BuildSide::Split BuildSide::split(const std::vector<RowPiece>& pieces) const {
    Split split;
    for (const RowPiece& piece : pieces)
        (is_resident(piece.partition) ? split.resident : split.spilled).push_back(piece);
    return split;
}

uint64_t BuildSide::wanted_pages(const std::vector<RowPiece>& pieces) const {
    return std::accumulate(pieces.begin(), pieces.end(), uint64_t{0}, [&](uint64_t pages, const RowPiece& piece) {
        return pages + pages_.pages_for(piece.partition, piece.rows);
    });
}

// The scratch of the index serves: there is no index while the build side comes in.
void BuildSide::evict(const std::vector<uint64_t>& partitions, RowSpiller& spiller) {
    const EvictionRoom room = {index_.scratch(), std::min(chunk_rows_, index_.partition_rows_max()), row_words_};
    evict_rows(pages_, partitions, kSide, room, spiller);
}

void BuildSide::add(const PartitionedChunk& chunk, RowSpiller& spiller) {
    for (const RowPiece& piece : chunk.batch.pieces) rows_[piece.partition] += piece.rows;
    spiller.flush();
    Split pieces = split(chunk.batch.pieces);
    if (wanted_pages(pieces.resident) > pages_.free_pages()) {
        const std::vector<uint64_t> leaving =
            leaving_partitions(pages_, resident_, [&] { return wanted_pages(split(chunk.batch.pieces).resident); });
        evict(leaving, spiller);
        pieces = split(chunk.batch.pieces);
    }
    pages_.append(chunk.batch, pieces.resident);
    spiller.spill(kSide, chunk.batch.rows, pieces.spilled, chunk.extremes);
}

void BuildSide::finish(RowSpiller& spiller) {
    std::vector<uint64_t> too_large;
    for (uint64_t p = 0; p < resident_.size(); ++p) {
        if (!is_resident(p) || rows_[p] <= index_.partition_rows_max()) continue;
        too_large.push_back(p);
        resident_[p] = 0;
    }
    evict(too_large, spiller);
    spiller.flush();
    index(resident());
}

void BuildSide::index(const std::vector<uint64_t>& partitions) {
    index_.build(partitions);
    if (marks_) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(marks_.as(), 0, marks_.bytes(), device_.stream()));
}

}}  // namespace spillway::cuda::staged_join
