// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/shared_groups.hpp"

#include "base/parallel.hpp"

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

}  // namespace spillway
