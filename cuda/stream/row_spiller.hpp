// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "device/device.hpp"
#include "device/published.hpp"
#include "stream/pack_rows.hpp"
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

}}  // namespace spillway::cuda::stream
