// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/hash_join/join_table.hpp"
#include "cpu/materialize/result_writer.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Does this join need to know which build rows found a partner?
inline bool marks_build_rows(const JoinSpec& spec) {
    return spec.emit == JoinEmit::kBuildOnce || (spec.emit == JoinEmit::kPairs && spec.keep_unmatched_build);
}
// Is a probe row's own output decided by whether it found a partner?
inline bool decides_probe_rows(const JoinSpec& spec) {
    return spec.emit == JoinEmit::kProbeOnce || (spec.emit == JoinEmit::kPairs && spec.keep_unmatched_probe);
}
// Output of rows of one side that can have no partner (other side empty, NULL key).
inline bool emits_lone_build(const JoinSpec& spec) {
    return spec.emit == JoinEmit::kBuildOnce ? spec.anti : spec.emit == JoinEmit::kPairs && spec.keep_unmatched_build;
}
inline bool emits_lone_probe(const JoinSpec& spec) {
    return spec.emit == JoinEmit::kProbeOnce ? spec.anti : spec.emit == JoinEmit::kPairs && spec.keep_unmatched_probe;
}

inline TableUse table_use(const JoinSpec& spec, bool counting) {
    if (!counting || spec.emit != JoinEmit::kPairs) return TableUse::kFind;
    return marks_build_rows(spec) || decides_probe_rows(spec) ? TableUse::kFindAndCount : TableUse::kCount;
}

// What the workers on one co-partition (or one build chunk of it) share.
struct ProbeTarget {
    const JoinSpec* spec = nullptr;
    const BuildRows* build = nullptr;
    const JoinTable* table = nullptr;
    uint8_t* build_matched = nullptr;  // one byte per row number; set when marks_build_rows
    uint8_t* probe_matched = nullptr;  // build sides in several chunks: one byte per probe row of the co-partition,
                                       // collected now and emitted after the last chunk; else nullptr
};

// Probes blocks of rows and writes what the join type asks for. One per worker.
class CoPartitionProbe {
  public:
    explicit CoPartitionProbe(ResultWriter& out);
    // rows: at most kProbeBlockRows addresses; first_ordinal: number of rows[0] within its co-partition.
    void probe(const ProbeTarget& target, const uint8_t* const* rows, int64_t count, uint64_t first_ordinal);
    // All rows of a span, without a table: rows that have no partner, or the decided ones (matched != nullptr).
    void emit_probe_rows(const JoinSpec& spec, const RowSpan& span, uint32_t row_bytes, const uint8_t* matched);
    // After all probing of a chunk: build rows that are output by their match flag.
    void emit_build_rows(const ProbeTarget& target);
    void emit_lone_build_rows(const RowSpan& span, uint32_t row_bytes);

  private:
    void mark_build(const ProbeTarget& target, int64_t count);
    void pairs(const ProbeTarget& target, const uint8_t* const* rows, int64_t count);
    void decide_probe_rows(const ProbeTarget& target, const uint8_t* const* rows, int64_t count, uint64_t ordinal);
    void emit_pairs();

    ResultWriter& out_;
    std::vector<uint32_t> first_;
    std::vector<const uint8_t*> build_rows_;
    std::vector<const uint8_t*> probe_rows_;
    std::vector<const uint8_t*> lone_rows_;
};

}  // namespace spillway
