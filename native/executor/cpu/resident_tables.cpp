// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/resident_tables.hpp"

#include <algorithm>
#include <atomic>

#include "base/parallel.hpp"
#include "cpu/radix_partition/radix_partitioner.hpp"

namespace spillway {

namespace {

// Numbers of rows have 32 bits, and numbers between spans of different lengths may be left out.
constexpr uint64_t kPerfectRowsMax = uint64_t{1} << 30;

}  // namespace

void ResidentTables::for_each_partition(const std::function<void(size_t)>& work) {
    std::atomic<int32_t> next{0};
    parallel_run(
        std::min(spec_.workers, build_.partition_count()),
        [&](int) {
            for (int32_t p = next++; p < build_.partition_count(); p = next++) {
                control_.check();
                work(static_cast<size_t>(p));
            }
        },
        [this] { control_.cancelled.store(true, std::memory_order_relaxed); });
}

void ResidentTables::make() {
    const auto partitions = static_cast<size_t>(build_.partition_count());
    memory_.resize(partitions);
    std::vector<std::vector<RowSpan>> spans(partitions);
    std::vector<std::optional<KeyRange>> ranges(partitions);
    for_each_partition([&](size_t p) {
        spans[p] = build_.load(static_cast<int32_t>(p), memory_[p]);
        if (spec_.scheme == HashingScheme::kPerfect) ranges[p] = key_range(BuildRows(spans[p], build_.layout()));
    });
    if (make_perfect(spans, ranges)) return;
    tables_.resize(partitions);
    for_each_partition([&](size_t p) {
        Table& made = tables_[p];
        made.rows = std::make_unique<BuildRows>(spans[p], build_.layout());
        made.table = JoinTable::build(spec_.scheme, use_, *made.rows, probe_layout_, spec_.perfect_range_max,
                                      spec_.hash_mask, build_.budget());
        finish(made);
    });
}

// Returns false where keys are not one integer each, or spread too far.
bool ResidentTables::make_perfect(const std::vector<std::vector<RowSpan>>& spans,
                                  const std::vector<std::optional<KeyRange>>& ranges) {
    std::vector<RowSpan> all;
    std::optional<KeyRange> range;
    uint64_t rows = 0;
    for (size_t p = 0; p < spans.size(); ++p) {
        all.insert(all.end(), spans[p].begin(), spans[p].end());
        for (const RowSpan& span : spans[p]) rows += span.count;
        if (!ranges[p]) continue;  // a partition without rows
        if (!range) range = ranges[p];
        const uint64_t last = std::max(range->min + range->span, ranges[p]->min + ranges[p]->span);
        range->min = std::min(range->min, ranges[p]->min);
        range->span = last - range->min;
    }
    if (!range || range->span >= spec_.perfect_range_max || rows >= kPerfectRowsMax) return false;
    Table made;
    made.rows = std::make_unique<BuildRows>(all, build_.layout());
    auto table = std::make_unique<PerfectTable>(*made.rows, probe_layout_, *range, build_.budget(), spec_.workers);
    perfect_ = table.get();
    made.table = std::move(table);
    tables_.push_back(std::move(made));
    finish(tables_.back());
    return true;
}

void ResidentTables::finish(Table& made) {
    if (marks_build_rows(spec_)) {
        made.matched =
            Buffer::allocate(build_.budget(), std::max<uint64_t>(made.rows->numbers(), 1), "match flags", true);
    }
    made.target = {&spec_, made.rows.get(), made.table.get(), made.matched.data(), nullptr};
}

size_t ResidentTables::partition_of(uint64_t word) const {
    if (perfect_ != nullptr) return 0;
    return static_cast<size_t>(radix_of(word, build_.spec().hash_mask, build_.spec().radix_bits));
}

bool ResidentTables::unique() const {
    return std::all_of(tables_.begin(), tables_.end(), [](const Table& table) { return table.table->unique(); });
}

}  // namespace spillway
