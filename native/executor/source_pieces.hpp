// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transfer/source.hpp"

namespace spillway {

// Consecutive rows of one batch.
struct Piece {
    int64_t batch = 0;
    int64_t row = 0;  // inside the batch
    int64_t rows = 0;
};

// Calls use(piece) for rows [begin, end) of the source, in order.
template <class Use>
void for_pieces(const Source& source, int64_t begin, int64_t end, Use use) {
    for (int64_t batch = begin < end ? batch_of(source, begin) : 0; begin < end; ++batch) {
        const int64_t row = begin - source.first_row(batch);
        const int64_t rows = std::min(end - begin, source.batch_rows(batch) - row);
        if (rows > 0) use(Piece{batch, row, rows});
        begin += std::max<int64_t>(rows, 0);
    }
}

}  // namespace spillway
