// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "stream/row_pages.hpp"
#include "stream/row_spiller.hpp"

namespace spillway::cuda { inline namespace stream {

// Room for rows on their way from pages to a spiller: memory that nobody else uses until RowSpiller::flush().
struct EvictionRoom {
    uint32_t* memory = nullptr;
    uint64_t rows = 0;
    uint32_t row_words = 1;
};

// The resident partitions with the greatest numbers, in ascending order, as few as free `wanted_pages(resident)` pages
// together with those that are free; they are resident no longer. Throws kInternal where all of them do not suffice.
template <class WantedPages>
std::vector<uint64_t> leaving_partitions(const RowPages& pages, std::vector<uint8_t>& resident,
                                         const WantedPages& wanted_pages) {
    std::vector<uint64_t> leaving;
    uint64_t free_pages = pages.free_pages();
    for (uint64_t p = resident.size(); wanted_pages() > free_pages;) {
        do {
            if (p == 0) throw Error(ErrorCode::kInternal, "pages are in use and no partition is resident");
        } while (resident[--p] == 0);
        resident[p] = 0;
        free_pages += pages.pages(p).size();
        leaving.insert(leaving.begin(), p);
    }
    return leaving;
}

// Rows of these partitions, in ascending order, leave their pages, which are free afterwards: all together, as many at
// a time as there is room for, so that a partition alone makes neither a short copy nor a wait for its extremes.
void evict_rows(RowPages& pages, const std::vector<uint64_t>& partitions, int side, const EvictionRoom& room,
                RowSpiller& spiller);

}}  // namespace spillway::cuda::stream
