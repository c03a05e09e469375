// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/warp.cuh"
#include "radix_partition/radix_policy.hpp"
#include "stream/row_pages.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// Words as wide as rows are aligned; row_words: of such words.
template <class Word>
__global__ void copy_rows_kernel(const Word* from, Word* to, uint32_t row_words, const RowCopy* copies,
                                 const uint64_t* first_tile, uint64_t count) {
    const uint64_t index = last_not_above<uint64_t>(first_tile, count, blockIdx.x);
    const RowCopy copy = copies[index];
    const uint64_t offset = (blockIdx.x - first_tile[index]) * kTileRows;
    const uint64_t left = copy.rows - offset;
    const uint64_t words = (left < kTileRows ? left : kTileRows) * row_words;
    const Word* const source = from + (copy.from + offset) * row_words;
    Word* const target = to + (copy.to + offset) * row_words;
    for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) target[i] = source[i];
}

}  // namespace

void copy_rows(Device& device, Parcels& parcels, const uint32_t* from, uint32_t* to, uint32_t row_words,
               const std::vector<RowCopy>& copies) {
    const std::vector<uint64_t> first_tile = first_tiles_of(copies);
    if (first_tile.back() == 0) return;
    uint64_t rows = 0;
    for (const RowCopy& copy : copies) rows += copy.rows;
    count_moved(device, 2 * rows * row_words * sizeof(uint32_t));
    const auto [sent, tiles_sent] = parcels.send_together(copies, first_tile);
    const dim3 grid(static_cast<unsigned>(first_tile.back()));
    const dim3 block(kStreamThreads);
    if (row_words % 4 == 0) {
        launch(copy_rows_kernel<uint4>, grid, block, 0, device.stream(), reinterpret_cast<const uint4*>(from),
               reinterpret_cast<uint4*>(to), row_words / 4, sent, tiles_sent, copies.size());
    } else if (row_words % 2 == 0) {
        launch(copy_rows_kernel<uint2>, grid, block, 0, device.stream(), reinterpret_cast<const uint2*>(from),
               reinterpret_cast<uint2*>(to), row_words / 2, sent, tiles_sent, copies.size());
    } else {
        launch(copy_rows_kernel<uint32_t>, grid, block, 0, device.stream(), from, to, row_words, sent, tiles_sent,
               copies.size());
    }
}

RowPages::RowPages(Device& device, Parcels& parcels, uint32_t row_words, uint64_t page_rows, uint64_t pages,
                   uint64_t partitions)
    : device_(device), parcels_(parcels), row_words_(row_words), page_rows_(page_rows), pages_(pages) {
    if (page_rows < kRegionAlignRows || (page_rows & (page_rows - 1)) != 0 || pages >= UINT32_MAX) {
        throw Error(ErrorCode::kInvalid,
                    "pages have a power of two of rows, eight at least, and there are less than 2^32 of them");
    }
    memory_ = device.memory().allocate(pages * page_rows * row_words * sizeof(uint32_t), "pages of build rows");
    lists_.resize(partitions);
    free_.reserve(pages);
    for (uint64_t page = pages; page > 0; --page) free_.push_back(static_cast<uint32_t>(page - 1));
}

std::vector<RowPiece> RowPages::pieces(uint64_t partition) const {
    const List& list = lists_[partition];
    std::vector<RowPiece> pieces;
    uint64_t left = list.rows;
    for (const uint32_t page : list.pages) {
        const uint64_t rows = std::min(left, page_rows_);
        pieces.push_back({page * page_rows_, rows, partition});
        left -= rows;
    }
    return pieces;
}

uint64_t RowPages::pages_for(uint64_t partition, uint64_t more_rows) const {
    const List& list = lists_[partition];
    return (list.rows + more_rows + page_rows_ - 1) / page_rows_ - list.pages.size();
}

void RowPages::append(const RowPieces& batch, const std::vector<RowPiece>& pieces) {
    copy_rows(device_, parcels_, batch.rows, data(), row_words_, allot(pieces));
}

std::vector<RowCopy> RowPages::allot(const std::vector<RowPiece>& pieces) {
    std::vector<RowCopy> copies;
    for (const RowPiece& piece : pieces) {
        List& list = lists_[piece.partition];
        for (uint64_t done = 0; done < piece.rows;) {
            const uint64_t slot = list.rows % page_rows_;
            if (slot == 0) {
                if (free_.empty()) throw Error(ErrorCode::kInternal, "a partition grew beyond the pool of pages");
                list.pages.push_back(free_.back());
                free_.pop_back();
            }
            const uint64_t rows = std::min(piece.rows - done, page_rows_ - slot);
            copies.push_back({piece.begin + done, list.pages.back() * page_rows_ + slot, rows});
            list.rows += rows;
            done += rows;
        }
    }
    return copies;
}

void RowPages::gather(uint64_t partition, uint64_t first, uint64_t rows, uint32_t* to) {
    const List& list = lists_[partition];
    std::vector<RowCopy> copies;
    for (uint64_t done = 0; done < rows;) {
        const uint64_t row = first + done;
        const uint64_t slot = row % page_rows_;
        const uint64_t some = std::min(rows - done, page_rows_ - slot);
        copies.push_back({list.pages[row / page_rows_] * page_rows_ + slot, done, some});
        done += some;
    }
    copy_rows(device_, parcels_, data(), to, row_words_, copies);
}

void RowPages::release(uint64_t partition) {
    List& list = lists_[partition];
    free_.insert(free_.end(), list.pages.begin(), list.pages.end());
    list.pages.clear();
    list.rows = 0;
}

void RowPages::release_front(uint64_t partition, uint64_t pages) {
    List& list = lists_[partition];
    const auto end = list.pages.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(pages, list.pages.size()));
    free_.insert(free_.end(), list.pages.begin(), end);
    list.pages.erase(list.pages.begin(), end);
    list.rows -= std::min(list.rows, pages * page_rows_);
}

}}  // namespace spillway::cuda::stream
