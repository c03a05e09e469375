// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "stream/evict_rows.hpp"

namespace spillway::cuda { inline namespace stream {

void evict_rows(RowPages& pages, const std::vector<uint64_t>& partitions, int side, const EvictionRoom& room,
                RowSpiller& spiller) {
    std::vector<RowPiece> pieces;
    uint64_t at = 0;
    const auto send = [&] {
        spiller.spill_later(side, room.memory, pieces);
        pieces.clear();
        at = 0;
    };
    for (const uint64_t partition : partitions) {
        const uint64_t rows = pages.rows(partition);
        for (uint64_t done = 0; done < rows;) {
            if (at == 0) spiller.flush();  // what is in the room has to leave first
            const uint64_t some = std::min(room.rows - at, rows - done);
            pages.gather(partition, done, some, room.memory + at * room.row_words);
            pieces.push_back({at, some, partition});
            at += some;
            done += some;
            if (at == room.rows) send();
        }
        pages.release(partition);
    }
    if (!pieces.empty()) send();
}

}}  // namespace spillway::cuda::stream
