// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/second_pass.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace spillway {

SecondPass::SecondPass(const std::vector<RowSpan>& spans, uint32_t row_bytes, int32_t ignore_bits, int32_t radix_bits,
                       uint64_t hash_mask, MemoryBudget& budget)
    : row_bytes_(row_bytes), offsets_((size_t{1} << radix_bits) + 1, 0) {
    const int32_t shift = 64 - ignore_bits - radix_bits;
    const uint64_t sub_mask = (uint64_t{1} << radix_bits) - 1;
    const auto sub_of = [&](const uint8_t* row) {
        uint64_t hash;
        std::memcpy(&hash, row, 8);
        return ((hash & hash_mask) >> shift) & sub_mask;
    };
    uint64_t rows = 0;
    for (const RowSpan& span : spans) {
        rows += span.count;
        const uint8_t* row = span.rows;
        for (uint32_t i = 0; i < span.count; ++i, row += row_bytes) ++offsets_[sub_of(row) + 1];
    }
    for (size_t p = 1; p < offsets_.size(); ++p) offsets_[p] += offsets_[p - 1];
    SPILLWAY_CHECK(offsets_.back() == rows);
    rows_ = Buffer::allocate(budget, std::max<uint64_t>(rows * row_bytes, 64), "second partition pass");
    std::vector<uint64_t> cursor(offsets_.begin(), offsets_.end() - 1);
    for (const RowSpan& span : spans) {
        const uint8_t* row = span.rows;
        for (uint32_t i = 0; i < span.count; ++i, row += row_bytes) {
            std::memcpy(rows_.data() + cursor[sub_of(row)]++ * row_bytes, row, row_bytes);
        }
    }
}

RowSpan SecondPass::sub_partition(int32_t p) const {
    const uint64_t begin = offsets_[static_cast<size_t>(p)];
    const uint64_t count = offsets_[static_cast<size_t>(p) + 1] - begin;
    SPILLWAY_CHECK(count < 0xffffffffULL);
    return {rows_.data() + begin * row_bytes_, static_cast<uint32_t>(count)};
}

}  // namespace spillway
