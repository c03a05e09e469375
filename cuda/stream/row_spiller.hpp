// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "device/published.hpp"
#include "stream/pack_rows.hpp"
#include "stream/row_pages.hpp"
#include "stream/spill_store.hpp"

namespace spillway::cuda { inline namespace stream {

// Packs rows in device memory and sends them out, a run while the next is packed.
class RowSpiller {
  public:
    // layouts: of build and probe rows. run_words: packed words of a run at most.
    RowSpiller(Device& device, Parcels& parcels, SpillStore& store, const CodeLayout (&layouts)[2], uint64_t run_words);
    ~RowSpiller();
    RowSpiller(const RowSpiller&) = delete;
    RowSpiller& operator=(const RowSpiller&) = delete;

    // Pieces of a batch whose extremes are known: [partition * fields].
    void spill(int side, const uint32_t* rows, const std::vector<RowPiece>& pieces, const FieldExtremes* extremes);
    // Pieces whose extremes are not known, of each partition one at most: kernels look for them, and the rows leave by
    // the next flush(), so that the host need not wait. They stay where they are until then.
    void spill_later(int side, const uint32_t* rows, const std::vector<RowPiece>& pieces);
    // Sends what spill_later() has left. Waits for the extremes.
    void flush();

  private:
    struct Run {
        Allocation memory;
        Event packed;
        Event sent;
        bool used = false;
    };
    void send(int side, const uint32_t* rows, FragmentSet set);

    Device& device_;
    Parcels& parcels_;
    SpillStore& store_;
    const CodeLayout layouts_[2];
    Published extremes_;
    struct Later {
        int side = 0;
        const uint32_t* rows = nullptr;
        std::vector<RowPiece> pieces;  // none: nothing is left
    } later_;
    std::array<Run, kRunBuffers> runs_;
    size_t next_ = 0;
};

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
