// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/group_collector.hpp"

#include "executor/cpu/distinct_pairs.hpp"

namespace spillway {

namespace {

// So many passes over the rows cost no more than to partition their values.
constexpr double kCollectPassesMax = 3;

uint64_t pairs_in(const std::vector<DistinctSet*>& sets) {
    uint64_t pairs = 0;
    for (const DistinctSet* set : sets) pairs += set->pairs();
    return pairs;
}

}  // namespace

// Reads the rows once, unless the values of count distinct fill the memory before the groups do.
void GroupCollector::collect(int32_t partition, const HashRange& keys, const Progress& progress) {
    const Input input{partition, keys, progress};
    const bool distinct = groups_.table().plan().has_distinct;
    double wanted_bytes = 0;
    groups_.clear();
    try {
        scan(input, 0, distinct ? kReadShare : 1, [&](RowBlock& block) {
            groups_.add_states(block);
            if (distinct) groups_.add_distinct(block);
        });
        groups_.distinct().clear();
    } catch (const TableFull&) {
        const uint64_t pair_bytes = groups_.distinct().bytes();
        if (pair_bytes * 2 < memory_.used() || groups_.distinct().pairs() <= 1) throw;
        const auto rows = static_cast<double>(rows_.partition(partition).rows);
        wanted_bytes = static_cast<double>(pair_bytes) * rows / static_cast<double>(rows_read_ + 1);
    }
    if (wanted_bytes > 0) count_apart(input, wanted_bytes);
    progress(1);
}

// The states first; what memory they leave is for the values.
void GroupCollector::count_apart(const Input& input, double wanted_bytes) {
    groups_.release();  // what earlier partitions needed
    scan(input, 0, kReadShare, [&](RowBlock& block) { groups_.add_states(block); });
    const uint64_t left = memory_.limit() - memory_.used();
    // Fewer groups at a time serve better.
    if (left < memory_.limit() / 4 && groups_.table().groups() > 1) throw TableFull{};
    Sets sets;
    for (const auto& set : groups_.distinct().each()) sets.push_back(set.get());
    const bool few_passes = wanted_bytes <= kCollectPassesMax * static_cast<double>(left);
    if (few_passes && count_in_ranges(input, sets, ~0ULL / 8)) return;
    const double share = (1 - kReadShare) / static_cast<double>(sets.size());
    size_t next = 0;
    for (const AggregatePlan& aggregate : groups_.table().plan().aggregates) {
        if (aggregate.state != StateKind::kCountDistinct) continue;
        const size_t index = next++;
        forget_counts(aggregate);
        if (count_pairs(input, aggregate, kReadShare + share * static_cast<double>(index), share)) continue;
        forget_counts(aggregate);
        if (!count_in_ranges(input, {sets[index]}, 0)) throw TableFull{};
    }
}

// A pass over the rows for each range of the values' hash. Returns false, with some values counted, when the ranges
// would have to be smaller than span_min.
bool GroupCollector::count_in_ranges(const Input& input, const Sets& sets, uint64_t span_min) {
    uint64_t span = ~0ULL;
    for (uint64_t first = 0;;) {
        const HashRange values{first, ~0ULL - first <= span ? ~0ULL : first + span};
        bool fits = true;
        try {
            scan(input, 0, 0, [&](RowBlock& block) {
                groups_.find_again(block);
                for (DistinctSet* set : sets) set->add(block, groups_.gather(), values);
            });
        } catch (const TableFull&) {
            fits = false;
        }
        const bool hopeless = !fits && (span == 0 || span / 2 < span_min || pairs_in(sets) <= 1);
        for (DistinctSet* set : sets) {
            if (!fits) set->undo();
            set->clear();
        }
        if (hopeless) return false;
        if (!fits) {
            span /= 2;
            continue;
        }
        if (values.last == ~0ULL) return true;
        first = values.last + 1;
    }
}

bool GroupCollector::count_pairs(const Input& input, const AggregatePlan& aggregate, double done, double share) {
    const Partition& rows = rows_.partition(input.partition);
    try {
        DistinctPairs::Input pairs_input;
        pairs_input.memory_bytes = memory_.limit() - memory_.used();
        pairs_input.rows = rows.rows;
        pairs_input.heap_bytes = rows.bytes - rows.rows * rows_.layout().row_bytes;
        pairs_input.one_group = groups_.table().groups() == 1;
        DistinctPairs pairs(aggregate, pairs_input, rows_, control_);
        scan(input, done, done + share / 2, [&](RowBlock& block) {
            groups_.find_again(block);
            pairs.add(0, block, groups_.gather());
        });
        pairs.finish();
        pairs.count([&](double counted) { input.progress(done + share / 2 + share / 2 * counted); });
        return true;
    } catch (const TableFull&) {
        return false;
    }
}

void GroupCollector::forget_counts(const AggregatePlan& aggregate) {
    const uint32_t record_bytes = groups_.table().plan().record_bytes;
    groups_.table().for_each_chunk([&](uint8_t* record, uint64_t count) {
        for (uint64_t i = 0; i < count; ++i, record += record_bytes) forget_distinct(aggregate, record);
    });
}

template <class Body>
void GroupCollector::scan(const Input& input, double progress_begin, double progress_end, Body&& body) {
    const Partition& partition = rows_.partition(input.partition);
    const double step = (progress_end - progress_begin) / static_cast<double>(partition.rows);
    PageCursor cursor(rows_, input.partition, 0, rows_.page_count(input.partition));
    rows_read_ = 0;
    for (RowSpan span; cursor.next(span);) {
        control_.check();
        groups_.cutter().cut(span, input.keys, body);
        rows_read_ += span.count;
        input.progress(progress_begin + step * static_cast<double>(rows_read_));
    }
}

}  // namespace spillway
