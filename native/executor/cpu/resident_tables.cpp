// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/resident_tables.hpp"

#include <algorithm>
#include <atomic>

#include "base/parallel.hpp"
#include "cpu/radix_partition/radix_partitioner.hpp"

namespace spillway {

void ResidentTables::make() {
    tables_.resize(static_cast<size_t>(build_.partition_count()));
    std::atomic<int32_t> next{0};
    parallel_run(
        std::min(spec_.workers, build_.partition_count()),
        [&](int) {
            for (int32_t p = next++; p < build_.partition_count(); p = next++) {
                control_.check();
                make_table(p);
            }
        },
        [this] { control_.cancelled.store(true, std::memory_order_relaxed); });
}

void ResidentTables::make_table(int32_t p) {
    Table& made = tables_[static_cast<size_t>(p)];
    made.rows = std::make_unique<BuildRows>(build_.load(p, made.memory), build_.layout());
    made.table = JoinTable::build(spec_.scheme, use_, *made.rows, probe_layout_, spec_.perfect_range_max,
                                  spec_.hash_mask, build_.budget());
    if (marks_build_rows(spec_)) {
        made.matched =
            Buffer::allocate(build_.budget(), std::max<uint64_t>(made.rows->numbers(), 1), "match flags", true);
    }
    made.target = {&spec_, made.rows.get(), made.table.get(), made.matched.data(), nullptr};
}

size_t ResidentTables::partition_of(uint64_t word) const {
    return static_cast<size_t>(radix_of(word, build_.spec().hash_mask, build_.spec().radix_bits));
}

bool ResidentTables::unique() const {
    return std::all_of(tables_.begin(), tables_.end(), [](const Table& table) { return table.table->unique(); });
}

}  // namespace spillway
