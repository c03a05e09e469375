// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/placed_rows.hpp"

#include "base/error.hpp"

namespace spillway {

int64_t PlacedRows::place(const EncodedRows& encoded, int64_t begin, MemoryBudget& budget) {
    row_bytes_ = encoded.row_bytes;
    if (encoded.var_fields == 0) {
        rows_ = encoded.data + begin * encoded.row_bytes;
        return encoded.rows;
    }
    // Estimates know the mean length of values; a few of them may be longer than all of the others.
    constexpr uint64_t kPageBytes = 64 << 10;
    uint64_t bytes = 0;
    int64_t end = begin;
    for (; end < encoded.rows; ++end) {
        const uint64_t more = static_cast<uint64_t>(encoded.row_bytes) + encoded.heap_bytes[end];
        if (bytes > 0 && bytes + more > kPageBytes) break;
        bytes += more;
    }
    SPILLWAY_CHECK(bytes < 0xffffffffULL);
    page_.set_size(0);
    if (page_.capacity() < bytes) page_.grow(budget, bytes, "probe rows");
    uint8_t* row = page_.data();
    uint8_t* heap = row + static_cast<uint64_t>(end - begin) * encoded.row_bytes;
    for (int64_t i = begin; i < end; ++i, row += encoded.row_bytes) {
        place_row(encoded, i, row, heap);
        heap += encoded.heap_bytes[i];
    }
    rows_ = page_.data();
    return end;
}

}  // namespace spillway
