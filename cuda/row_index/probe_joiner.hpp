// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/stream_spec.hpp"
#include "device/device.hpp"
#include "device/published.hpp"
#include "row_index/probe_index.hpp"
#include "stream/result_writer.hpp"
#include "stream/row_pieces.hpp"

namespace spillway::cuda { inline namespace row_index {

// Rows of one side that are in the result once each, by marks that probes have set (outer, semi and anti joins).
// Reads the marks, and the rows that it writes.
struct LonePass {
    PieceTiles tiles;
    const uint32_t* rows = nullptr;
    uint32_t row_words = 1;
    const uint8_t* marks = nullptr;  // a byte per row; nullptr: all rows are wanted
    bool marked = false;             // wanted are rows with a mark, or those without
    bool build_side = false;
    bool has_key = true;
};

// What a kind of join wants of each side.
struct KindRules {
    ProbeRule probe;
    bool build_marks = false;    // rows of the build side follow, by whether they have a mark
    bool build_marked = false;   // those that follow have a mark; false: they have none
    bool build_keyless = false;  // rows without a key are in the result
    bool probe_keyless = false;

    static KindRules of(const JoinKind& kind);
    // What is left to do where a build partition comes in parts: pairs only, the rest by marks of probe rows.
    bool probe_marks() const { return probe.keep_unmatched || probe.once; }
    bool probe_marked() const { return probe.once && !probe.anti; }
    ProbeRule part_rule() const { return {probe.pairs, false, false, false}; }
};

// Joins batches of probe rows with the index, and makes of what is found counts, sums or result rows.
class ProbeJoiner {
  public:
    // columns: of the result. probe: rows of that side. probe_tiles: tiles of a batch at most. writer: nullptr unless
    // rows are wanted.
    ProbeJoiner(Device& device, Parcels& parcels, JoinResultKind result, const ResultWindow& columns,
                const RowLayout& probe, uint64_t probe_tiles, ResultWriter* writer);

    // From now on the pairs of an inner join are added up, and no rows are written. false: some part is no number of a
    // row's, and nothing has changed.
    bool sum(const std::vector<SumPart>& parts);
    void probe(const RowPieces& batch, const std::vector<RowPiece>& pieces, const IndexView& index,
               const ProbeRule& rule, uint8_t* build_marks, uint8_t* probe_marks);
    // Rows of one side: pass says which; its tiles are made of the pieces here, as many batches as they take.
    void lone(LonePass pass, const std::vector<RowPiece>& pieces);

    // Waits for the device. rows: of the result; sums: of kSums.
    uint64_t total(FixedList<uint64_t, kSumColumnsMax>& sums);
    // The same, with what sum() asked for.
    uint64_t total(std::vector<ExactSum>& sums);

  private:
    void lone_batch(LonePass& pass, const std::vector<RowPiece>& pieces);
    // count() fills group_rows_, write() writes a window.
    template <class Count, class Write>
    void give_rows(uint64_t tiles, const Count& count, const Write& write);

    Device& device_;
    Parcels& parcels_;
    const JoinResultKind result_;
    const ResultWindow columns_;
    const uint32_t more_at_;
    const uint64_t batch_tiles_;
    ResultWriter* const writer_;
    std::optional<AddedParts> parts_;  // of sum()
    Allocation totals_;                // rows, sums
    Allocation group_rows_;            // of a batch, [groups + 1]
    Published published_;
    uint64_t rows_ = 0;  // that the writer got
};

}}  // namespace spillway::cuda::row_index
