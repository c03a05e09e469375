// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"
#include "model/row_layout.hpp"

namespace spillway {

constexpr uint32_t kNoRow = 0xffffffffu;

// The build rows of one co-partition (or one chunk of it) under 32-bit numbers: number = span * 2^shift + row in span.
// Tables hold these numbers, half the size of pointers; 2^32 of them per co-partition chunk is far beyond what a chunk
// of any sensible budget holds and is checked.
class BuildRows {
  public:
    BuildRows(const std::vector<RowSpan>& spans, const RowLayout& layout) : layout_(&layout) {
        uint32_t most = 1;
        for (const RowSpan& span : spans) {
            most = span.count > most ? span.count : most;
            rows_ += span.count;
        }
        shift_ = static_cast<uint32_t>(std::bit_width(most - 1));
        spans_ = spans;
        if ((static_cast<uint64_t>(spans.size()) << shift_) > rows_ + rows_ / 2) split(spans);
        mask_ = (1u << shift_) - 1;
        SPILLWAY_CHECK((static_cast<uint64_t>(spans_.size()) << shift_) < kNoRow);
    }

    uint64_t rows() const { return rows_; }
    // Size of per-row arrays: at most 3/2 of rows().
    uint32_t numbers() const { return static_cast<uint32_t>(spans_.size()) << shift_; }
    const std::vector<RowSpan>& spans() const { return spans_; }
    const RowLayout& layout() const { return *layout_; }
    uint32_t first_number(size_t span) const { return static_cast<uint32_t>(span) << shift_; }
    const uint8_t* row(uint32_t number) const {
        return spans_[number >> shift_].rows + static_cast<uint64_t>(number & mask_) * layout_->row_bytes;
    }

  private:
    // Spilled runs are many times as long as pages: numbers as for the longest span would have gaps behind all the
    // short ones, and arrays over all numbers many times the memory that was planned. Pieces of at most half the
    // average span leave gaps of half the rows (executor/cpu/join_memory.cpp counts on that).
    void split(const std::vector<RowSpan>& spans) {
        const uint64_t half = rows_ / (2 * std::max<size_t>(spans.size(), 1));
        shift_ = half > 1 ? static_cast<uint32_t>(std::bit_width(half) - 1) : 0;
        const uint32_t piece = 1u << shift_;
        spans_.clear();
        for (const RowSpan& span : spans) {
            for (uint32_t done = 0; done < span.count; done += piece) {
                const uint8_t* rows = span.rows + static_cast<uint64_t>(done) * layout_->row_bytes;
                spans_.push_back({rows, std::min(span.count - done, piece)});
            }
        }
    }

    const RowLayout* layout_;
    std::vector<RowSpan> spans_;
    uint64_t rows_ = 0;
    uint32_t shift_ = 0;
    uint32_t mask_ = 0;
};

}  // namespace spillway
