// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "coherent_join/coherent_policy.hpp"
#include "coherent_join/coherent_shape.hpp"
#include "coherent_join/far_side.hpp"
#include "coherent_join/gathered_parts.hpp"
#include "device/device.hpp"
#include "row_index/probe_joiner.hpp"
#include "row_index/row_index.hpp"
#include "stream/parcels.hpp"
#include "stream/result_writer.hpp"
#include "stream/row_pages.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace coherent_join {

// Brings rows from pages of any memory into the device's, by a kernel on a stream of its own, while the device's stream
// joins what came before.
class RowGatherer {
  public:
    // grid: blocks at most. alone: each has its multiprocessor for itself.
    RowGatherer(Device& device, uint32_t grid, bool alone);
    // Waits for the copies.
    ~RowGatherer();
    RowGatherer(const RowGatherer&) = delete;
    RowGatherer& operator=(const RowGatherer&) = delete;

    // Copies rows counted from `from` to rows counted from `to`, behind all that is on the device's stream now. Returns
    // a ticket for wait_on_device(), which must come before kUnitsAhead + 1 further calls.
    uint32_t gather(const char* from, uint32_t* to, uint32_t row_words, const std::vector<RowCopy>& copies);
    // Later work on the device's stream begins when the rows are there.
    void wait_on_device(uint32_t ticket);
    // Returns how long the copies took by the clock of their stream, and waits for them.
    std::vector<PhaseTimer::Phase> milliseconds() { return timer_.milliseconds(); }

  private:
    struct Slot {
        PinnedBlock host;
        Allocation device;
        Event gathered;
    };
    const RowCopy* send(Slot& slot, const std::vector<RowCopy>& copies);

    Device& device_;
    const uint32_t grid_;
    const uint64_t shared_bytes_;
    Stream stream_{StreamPriority::kUrgent};
    Event joint_;
    PhaseTimer timer_;
    std::array<Slot, kUnitsAhead + 1> slots_;
    uint32_t next_ = 0;
};

// Second pass and join of the partitions of both sides, group by group, on two streams (section 5.2 and figure 11 of
// the Triton join's paper). There both sides are partitioned once more; here build rows alone are sorted, by buckets of
// a row or a few, so that probe rows need no second pass: build rows of a group are gathered on one stream while the
// other indexes and probes the group before it. Counts and sums of inner joins look probe rows up where they lie, so
// that each passes the link once and is written nowhere; rows of a result are counted before they are written, and
// those of other joins are marked, so that probe rows are gathered, too (CoherentOptions::gather_probe).
class GatheredJoin {
  public:
    GatheredJoin(Device& device, const CoherentJoinSpec& spec, const CoherentShape& shape, const char* base,
                 const FarSide& build, const FarSide& probe);

    // Adds rows, sums and bytes to the report.
    void run(ResultSink* sink, StreamReport& report);
    StageTimes stages();

  private:
    struct Unit {
        size_t part = 0;
        bool build = false;
        bool last = false;    // of its part
        bool waits = false;   // cannot be gathered before the parts before it have been joined
        uint64_t pages = 0;   // that build rows take
        uint64_t before = 0;  // probe rows of the part before these
        std::vector<RowPiece> pieces;
        const uint32_t* rows = nullptr;  // that the pieces are of
        uint32_t ticket = 0;
    };

    bool plan_units();
    void plan_build(const GatheredPart& part);
    void plan_probe(const std::vector<RowPiece>& pieces);
    void gather_ahead();
    void gather(Unit& unit);
    void gather_probe(Unit& unit);
    void use(Unit& unit);
    void index_build_rows(const GatheredPart& part);
    void use_probe_rows(const GatheredPart& part, const Unit& unit);
    void finish(const GatheredPart& part);
    void give_keyless();

    Device& device_;
    const CoherentShape shape_;
    const uint32_t* const base_;
    const FarSide& build_;
    const FarSide& probe_;
    const KindRules rules_;
    Parcels parcels_;
    RowPages pages_;
    RowIndex index_;
    Allocation staged_;  // kUnitsAhead batches of probe rows
    Allocation build_marks_;
    Allocation probe_marks_;
    std::unique_ptr<ResultWriter> writer_;
    ProbeJoiner joiner_;
    RowGatherer gatherer_;
    PhaseTimer timer_;
    std::vector<GatheredPart> parts_;
    size_t next_part_ = 0;
    std::deque<Unit> planned_;
    std::deque<Unit> ahead_;  // gathered, or on their way
    uint32_t next_staged_ = 0;
    uint64_t far_rows_ = 0;  // that were read
};

}}  // namespace spillway::cuda::coherent_join
