// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "stream/row_spiller.hpp"

namespace spillway::cuda { inline namespace stream {

RowSpiller::RowSpiller(Device& device, Parcels& parcels, SpillStore& store, const CodeLayout (&layouts)[2],
                       uint64_t run_words)
    : device_(device),
      parcels_(parcels),
      store_(store),
      layouts_{layouts[0], layouts[1]},
      extremes_(device, 2 * (uint64_t{std::max(layouts[0].fields, layouts[1].fields)} << layouts[0].radix_bits)) {
    for (Run& run : runs_) run.memory = device.memory().allocate(run_words * sizeof(uint32_t), "packed rows");
}

RowSpiller::~RowSpiller() {
    try {
        for (const Run& run : runs_) run.sent.synchronize();
    } catch (const Error&) {  // a lost device copies nothing any more
    }
}

void RowSpiller::send(int side, const uint32_t* rows, FragmentSet set) {
    Run& run = runs_[next_];
    next_ = (next_ + 1) % runs_.size();
    if (set.words * sizeof(uint32_t) > run.memory.bytes()) {
        throw Error(ErrorCode::kInternal, "a run of packed rows is larger than its buffer");
    }
    if (run.used) SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), run.sent.get(), 0));
    run.used = true;
    pack_rows(device_, parcels_, layouts_[side], rows, set, run.memory.as<uint32_t>());
    run.packed.record(device_.stream());
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(store_.stream(), run.packed.get(), 0));
    store_.append(side, std::move(set), run.memory.as<const uint32_t>());
    run.sent.record(store_.stream());
}

void RowSpiller::spill(int side, const uint32_t* rows, const std::vector<RowPiece>& pieces,
                       const FieldExtremes* extremes) {
    if (pieces.empty()) return;
    FragmentSet set;
    for (const RowPiece& piece : pieces) {
        set.add(layouts_[side], piece, extremes + piece.partition * layouts_[side].fields);
    }
    send(side, rows, std::move(set));
}

void RowSpiller::spill_later(int side, const uint32_t* rows, const std::vector<RowPiece>& pieces) {
    flush();
    if (pieces.empty()) return;
    const CodeLayout& layout = layouts_[side];
    std::vector<uint64_t> bounds;
    for (const RowPiece& piece : pieces) bounds.push_back(piece.begin);
    uint64_t rows_in_all = 0;
    for (const RowPiece& piece : pieces) {
        bounds.push_back(piece.begin + piece.rows);
        rows_in_all += piece.rows;
    }
    const uint64_t count = pieces.size();
    const Allocation found =
        device_.memory().allocate(count * layout.fields * sizeof(FieldExtremes), "extremes of fields");
    const uint64_t* const sent = parcels_.send(bounds);
    find_extremes(device_, layout, rows, sent, sent + count, count, rows_in_all, found.as<FieldExtremes>());
    extremes_.publish({{found.as(), 2 * count * layout.fields}});
    later_ = {side, rows, pieces};
}

void RowSpiller::flush() {
    if (later_.pieces.empty()) return;
    const Later later = std::move(later_);
    later_ = {};
    const auto* extremes = reinterpret_cast<const FieldExtremes*>(extremes_.wait());
    FragmentSet set;
    for (const RowPiece& piece : later.pieces) {
        set.add(layouts_[later.side], piece, extremes);
        extremes += layouts_[later.side].fields;
    }
    send(later.side, later.rows, std::move(set));
}

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
