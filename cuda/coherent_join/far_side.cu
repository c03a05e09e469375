// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "coherent_join/far_side.hpp"

namespace spillway::cuda { inline namespace coherent_join {

FarSide::FarSide(Device& device, PageArea& area, uint32_t row_bytes, uint64_t page_rows, int radix_bits)
    : device_(device), area_(area), row_bytes_(row_bytes), page_rows_(page_rows), rows_(1ULL << radix_bits) {}

void FarSide::partition(const FarRelation& relation, const FarPartitionOptions& options) {
    if (relation.rows == 0) return;
    FarDestination to;
    to.pages = area_.rest(page_rows_);
    if (to.pages.pages == 0) throw Error(ErrorCode::kInvalid, "a side has more rows than the join was made for");
    const FarPartitions done = far_partition(device_, relation, to, options);
    area_.take(done.pages_used);
    Chunk chunk;
    done.host_rows(device_, chunk.pages);
    chunk.counts = done.counts;
    chunk.begin = done.begin;
    for (uint64_t p = 0; p < partitions(); ++p) {
        rows_[p] += chunk.counts[p];
        for (uint64_t row = 0; row < chunk.counts[p]; row += page_rows_) {
            const char* const page = chunk.pages[chunk.begin[p] + row / page_rows_];
            if (!area_.is_near(page)) far_rows_ += std::min(page_rows_, chunk.counts[p] - row);
        }
    }
    all_rows_ += relation.rows;
    chunks_.push_back(std::move(chunk));
}

uint64_t FarSide::find(uint64_t partition, uint64_t first, uint64_t rows, std::vector<RowPiece>& pieces) const {
    uint64_t far_rows = 0;
    for (const Chunk& chunk : chunks_) {
        const uint64_t count = chunk.counts[partition];
        if (first >= count) {
            first -= count;
            continue;
        }
        for (uint64_t row = first; row < count && rows > 0;) {
            const uint64_t slot = row % page_rows_;
            const uint64_t some = std::min({page_rows_ - slot, count - row, rows});
            const char* const page = chunk.pages[chunk.begin[partition] + row / page_rows_];
            const auto offset_bytes = static_cast<uint64_t>(page - area_.base());
            pieces.push_back({offset_bytes / row_bytes_ + slot, some, partition});
            if (!area_.is_near(page)) far_rows += some;
            row += some;
            rows -= some;
        }
        if (rows == 0) break;
        first = 0;
    }
    return far_rows;
}

}}  // namespace spillway::cuda::coherent_join
