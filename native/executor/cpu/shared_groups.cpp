// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/shared_groups.hpp"

#include <algorithm>

#include "base/parallel.hpp"
#include "executor/cpu/distinct_pairs.hpp"
#include "executor/cpu/group_collector.hpp"

namespace spillway {

SharedGroups::SharedGroups(const GroupPlan& plan, MemoryBudget& budget, JobControl& control, uint64_t table_bytes,
                           int workers, int32_t radix_bits)
    : plan_(plan),
      budget_(budget),
      control_(control),
      table_bytes_(table_bytes),
      workers_(workers),
      radix_bits_(radix_bits) {
    const uint64_t share = table_bytes / static_cast<uint64_t>(workers);
    for (int i = 0; i < workers; ++i) {
        memories_.push_back(std::make_unique<TableMemory>(budget, share));
        aggregators_.push_back(std::make_unique<GroupAggregator>(plan, *memories_.back(),
                                                                 workers > 1 ? kMergeBytesPerRecord : 0, radix_bits));
    }
}

bool SharedGroups::run(const std::function<void(int)>& body) {
    parallel_run(
        workers_,
        [&](int worker) {
            try {
                body(worker);
            } catch (const TableFull&) {
                full_.store(true, std::memory_order_relaxed);
            }
        },
        [this] { control_.cancelled.store(true, std::memory_order_relaxed); });
    return !full_.load();
}

bool SharedGroups::aggregate(const std::function<void(int, GroupAggregator&)>& feed) {
    return run([&](int worker) { feed(worker, *aggregators_[static_cast<size_t>(worker)]); });
}

bool SharedGroups::merge() {
    if (workers_ == 1) return true;
    std::vector<const GroupTable*> tables;
    for (auto& aggregator : aggregators_) {
        aggregator->table().release_index();
        tables.push_back(&aggregator->table());
    }
    for (int i = 0; i < workers_; ++i) {
        // What a merge needs was charged to the tables, record by record.
        merge_memories_.push_back(std::make_unique<TableMemory>(budget_, ~0ULL));
        merges_.push_back(std::make_unique<GroupMerge>(plan_, *merge_memories_.back()));
    }
    return run([&](int worker) {
        control_.check();
        merges_[static_cast<size_t>(worker)]->run(tables, static_cast<uint32_t>(worker),
                                                  static_cast<uint32_t>(workers_));
    });
}

void SharedGroups::find_merged(RowBlock& block) const {
    std::vector<RowBlock::Var> vars;
    for (const GroupPlan::Copy& copy : plan_.var_copies) vars.push_back(block.var(copy.from));
    const bool wide = plan_.wide_keys();
    uint8_t* previous = nullptr;
    for (int32_t i = 0; i < block.count; ++i) {
        const uint64_t word = load_word(block.rows[i]);
        const auto equal = [&](const uint8_t* record) {
            return load_word(record) == word && (!wide || wide_key_equals_record(plan_, block, i, vars.data(), record));
        };
        if (previous == nullptr || !equal(previous)) {
            const uint32_t part = GroupMerge::part_of(word, static_cast<uint32_t>(workers_));
            previous = merges_[part]->index().find(word, equal);
        }
        block.records[i] = previous;
    }
    block.one_group = false;
}

void SharedGroups::write(const std::vector<std::unique_ptr<GroupWriter>>& writers) {
    run([&](int worker) {
        GroupWriter& writer = *writers[static_cast<size_t>(worker)];
        if (workers_ > 1) {
            const GroupMerge& merge = *merges_[static_cast<size_t>(worker)];
            writer.append(merge.records(), merge.groups());
        } else {
            aggregators_[0]->table().for_each_chunk([&](const uint8_t* record, uint64_t count) {
                control_.check();
                writer.append_chunk(record, count);
            });
        }
    });
}

uint64_t SharedGroups::wanted_bytes() const {
    uint64_t wanted = 0;
    for (const auto& memory : memories_) wanted = std::max(wanted, memory->wanted());
    return wanted * static_cast<uint64_t>(workers_);
}

struct SharedGroups::DistinctInput {
    PartitionedRows& rows;
    int32_t partition;
    uint64_t memory_bytes;  // of all workers
    const Progress& progress;

    size_t pages() const { return rows.page_count(partition); }
    uint64_t row_count() const { return rows.partition(partition).rows; }
};

bool SharedGroups::count_distinct(PartitionedRows& rows, int32_t partition, const Progress& progress) {
    SPILLWAY_CHECK(workers_ > 1);
    uint64_t used = 0;
    for (const auto& memory : memories_) used += memory->used();
    // The groups themselves fill the memory: better to split them first.
    if (used > table_bytes_ / 2) return false;
    const DistinctInput input{rows, partition, table_bytes_ - used, progress};
    if (count_in_ranges(input)) return true;
    std::vector<const AggregatePlan*> aggregates;
    for (const AggregatePlan& aggregate : plan_.aggregates) {
        if (aggregate.state == StateKind::kCountDistinct) aggregates.push_back(&aggregate);
    }
    const double share = (1 - GroupCollector::kReadShare) / static_cast<double>(aggregates.size());
    double done = GroupCollector::kReadShare;
    for (const AggregatePlan* aggregate : aggregates) {
        full_.store(false);
        forget_counts(*aggregate);
        if (!count_pairs(input, *aggregate, done, share)) return false;
        done += share;
    }
    return true;
}

// Every worker takes a range of the values' hash and reads all rows.
bool SharedGroups::count_in_ranges(const DistinctInput& input) {
    const uint64_t step = ~0ULL / static_cast<uint64_t>(workers_);
    return run([&](int worker) {
        const uint64_t first = step * static_cast<uint64_t>(worker);
        const uint64_t last = worker + 1 == workers_ ? ~0ULL : first + step - 1;
        count_range(input, {first, last}, worker);
    });
}

void SharedGroups::count_range(const DistinctInput& input, const HashRange& range, int worker) {
    // With more parts of its range a worker would read the rows too often: to partition the values serves better.
    constexpr uint64_t kSplitsMax = 4;
    GroupAggregator& scratch = *aggregators_[static_cast<size_t>(worker)];
    FieldGather& gather = scratch.gather();
    TableMemory memory(budget_, input.memory_bytes / static_cast<uint64_t>(workers_));
    DistinctSets sets(plan_, memory, true);
    uint64_t span = range.last - range.first;
    const uint64_t span_min = span / kSplitsMax;
    for (uint64_t first = range.first;;) {
        const HashRange part{first, range.last - first <= span ? range.last : first + span};
        uint64_t read = 0;
        try {
            PageCursor cursor(input.rows, input.partition, 0, input.pages());
            for (RowSpan rows; cursor.next(rows); read += rows.count) {
                control_.check();
                if (stopped()) throw TableFull{};
                scratch.cutter().cut(rows, HashRange{}, [&](RowBlock& block) {
                    find_merged(block);
                    gather.start(block);
                    sets.add(block, gather, part);
                });
            }
        } catch (const TableFull&) {
            if (span <= span_min || read * kSplitsMax < input.row_count() || stopped()) throw;
            sets.undo();
            sets.clear();
            span /= 2;
            continue;
        }
        sets.clear();
        if (part.last == range.last) return;
        first = part.last + 1;
    }
}

bool SharedGroups::count_pairs(const DistinctInput& input, const AggregatePlan& aggregate, double done, double share) {
    const Partition& rows = input.rows.partition(input.partition);
    uint64_t groups = 0;
    for (const auto& merge : merges_) groups += merge->groups();
    DistinctPairs::Input pairs_input;
    pairs_input.memory_bytes = input.memory_bytes;
    pairs_input.workers = workers_;
    pairs_input.rows = rows.rows;
    pairs_input.heap_bytes = rows.bytes - rows.rows * plan_.layout.row_bytes;
    pairs_input.one_group = groups == 1;
    pairs_input.counting = DistinctSet::Counting::kShared;
    try {
        DistinctPairs pairs(aggregate, pairs_input, input.rows, control_);
        const size_t piece = std::max<size_t>(1, input.pages() / (static_cast<size_t>(workers_) * 8));
        std::atomic<size_t> next{0};
        std::atomic<uint64_t> read{0};
        const bool added = run([&](int worker) {
            GroupAggregator& scratch = *aggregators_[static_cast<size_t>(worker)];
            for (size_t begin = next.fetch_add(piece); begin < input.pages(); begin = next.fetch_add(piece)) {
                PageCursor cursor(input.rows, input.partition, begin, std::min(input.pages(), begin + piece));
                for (RowSpan span; !stopped() && cursor.next(span);) {
                    control_.check();
                    scratch.cutter().cut(span, HashRange{}, [&](RowBlock& block) {
                        find_merged(block);
                        scratch.gather().start(block);
                        pairs.add(worker, block, scratch.gather());
                    });
                    const uint64_t now = read.fetch_add(span.count, std::memory_order_relaxed) + span.count;
                    input.progress(done + share / 2 * static_cast<double>(now) / static_cast<double>(rows.rows));
                }
            }
        });
        if (!added) return false;
        pairs.finish();
        return run(
            [&](int) { pairs.count([&](double counted) { input.progress(done + share / 2 + share / 2 * counted); }); });
    } catch (const TableFull&) {
        return false;
    }
}

void SharedGroups::forget_counts(const AggregatePlan& aggregate) {
    for (const auto& merge : merges_) {
        for (uint64_t i = 0; i < merge->groups(); ++i) {
            forget_distinct(aggregate, const_cast<uint8_t*>(merge->records()[i]));
        }
    }
}

}  // namespace spillway
