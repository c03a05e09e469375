// SPDX-License-Identifier: Apache-2.0
#include "cpu/hash_join/co_partition_probe.hpp"

namespace spillway {

namespace {

// Workers that share a co-partition mark the same bytes: relaxed atomics, every writer writes 1.
inline void mark(uint8_t* flags, uint64_t i) {
    __atomic_store_n(flags + i, uint8_t{1}, __ATOMIC_RELAXED);
}
inline bool marked(const uint8_t* flags, uint64_t i) {
    return __atomic_load_n(flags + i, __ATOMIC_RELAXED) != 0;
}

}  // namespace

CoPartitionProbe::CoPartitionProbe(ResultWriter& out) : out_(out), first_(kProbeBlockRows) {
    build_rows_.reserve(kProbeBlockRows);
    probe_rows_.reserve(kProbeBlockRows);
    lone_rows_.reserve(kProbeBlockRows);
}

void CoPartitionProbe::probe(const ProbeTarget& target, const uint8_t* const* rows, int64_t count,
                             uint64_t first_ordinal) {
    const JoinSpec& spec = *target.spec;
    const bool pairs_wanted = spec.emit == JoinEmit::kPairs;
    const bool marks = marks_build_rows(spec);
    const bool decides = decides_probe_rows(spec);
    if (pairs_wanted && out_.counting()) {
        out_.count(target.table->count_matches(rows, count));
        if (!marks && !decides) return;
    }
    target.table->find(rows, count, first_.data());
    if (marks) mark_build(target, count);
    if (decides) decide_probe_rows(target, rows, count, first_ordinal);
    if (pairs_wanted && !out_.counting()) pairs(target, rows, count);
}

// Rows of equal keys are always found from the same first row, so its flag stands for the whole chain.
void CoPartitionProbe::mark_build(const ProbeTarget& target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t first = first_[i];
        if (first == kNoRow || marked(target.build_matched, first)) continue;
        for (uint32_t number = first; number != kNoRow; number = target.table->next_equal(number)) {
            mark(target.build_matched, number);
        }
    }
}

void CoPartitionProbe::decide_probe_rows(const ProbeTarget& target, const uint8_t* const* rows, int64_t count,
                                         uint64_t ordinal) {
    const JoinSpec& spec = *target.spec;
    if (target.probe_matched != nullptr) {
        for (int64_t i = 0; i < count; ++i) {
            if (first_[i] != kNoRow) target.probe_matched[ordinal + static_cast<uint64_t>(i)] = 1;
        }
        return;
    }
    const bool wanted = spec.emit == JoinEmit::kProbeOnce && !spec.anti;  // else: the ones without a match
    lone_rows_.clear();
    for (int64_t i = 0; i < count; ++i) {
        if ((first_[i] != kNoRow) == wanted) lone_rows_.push_back(rows[i]);
    }
    out_.probe_only(lone_rows_.data(), static_cast<int64_t>(lone_rows_.size()));
}

void CoPartitionProbe::pairs(const ProbeTarget& target, const uint8_t* const* rows, int64_t count) {
    const JoinTable& table = *target.table;
    const BuildRows& build = *target.build;
    const bool unique = table.unique();
    for (int64_t i = 0; i < count; ++i) {
        for (uint32_t number = first_[i]; number != kNoRow;) {
            build_rows_.push_back(build.row(number));
            probe_rows_.push_back(rows[i]);
            if (static_cast<int64_t>(build_rows_.size()) == kProbeBlockRows) emit_pairs();
            if (unique) break;
            number = table.next_equal(number);
        }
    }
    emit_pairs();  // the probe rows may be gone after this block
}

void CoPartitionProbe::emit_pairs() {
    out_.pairs(build_rows_.data(), probe_rows_.data(), static_cast<int64_t>(build_rows_.size()));
    build_rows_.clear();
    probe_rows_.clear();
}

void CoPartitionProbe::emit_probe_rows(const JoinSpec& spec, const RowSpan& span, uint32_t row_bytes,
                                       const uint8_t* matched) {
    const bool wanted = spec.emit == JoinEmit::kProbeOnce && !spec.anti;
    lone_rows_.clear();
    for (uint32_t i = 0; i < span.count; ++i) {
        const bool has_match = matched != nullptr && matched[i] != 0;
        if (has_match == wanted) lone_rows_.push_back(span.rows + static_cast<uint64_t>(i) * row_bytes);
    }
    out_.probe_only(lone_rows_.data(), static_cast<int64_t>(lone_rows_.size()));
}

void CoPartitionProbe::emit_build_rows(const ProbeTarget& target) {
    const JoinSpec& spec = *target.spec;
    const bool wanted = spec.emit == JoinEmit::kBuildOnce && !spec.anti;
    const BuildRows& build = *target.build;
    for (size_t s = 0; s < build.spans().size(); ++s) {
        const RowSpan& span = build.spans()[s];
        const uint8_t* flags = target.build_matched + build.first_number(s);
        lone_rows_.clear();
        for (uint32_t i = 0; i < span.count; ++i) {
            if (marked(flags, i) != wanted) continue;
            lone_rows_.push_back(span.rows + static_cast<uint64_t>(i) * build.layout().row_bytes);
        }
        out_.build_only(lone_rows_.data(), static_cast<int64_t>(lone_rows_.size()));
    }
}

void CoPartitionProbe::emit_lone_build_rows(const RowSpan& span, uint32_t row_bytes) {
    lone_rows_.clear();
    for (uint32_t i = 0; i < span.count; ++i) {
        lone_rows_.push_back(span.rows + static_cast<uint64_t>(i) * row_bytes);
    }
    out_.build_only(lone_rows_.data(), static_cast<int64_t>(lone_rows_.size()));
}

}  // namespace spillway
