// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "transfer/dictionary_unifier.hpp"
#include "transfer/source_parts.hpp"

namespace spillway {

namespace {

constexpr const char* kSourceDictionariesPurpose = "dictionaries";
// Values come through a reader in slices, so that a large dictionary does not need its size twice.
constexpr int64_t kSliceRows = 65536;
constexpr uint64_t kSliceBytes = 16u << 20;

DictionaryRemap make_remap(const Source& values, DictionaryUnifier& unifier, MemoryBudget& budget,
                           const JobControl& control) {
    DictionaryRemap remap;
    remap.values = values.rows();
    if (remap.values == 0) return remap;
    remap.table =
        Buffer::allocate(budget, static_cast<uint64_t>(remap.values) * sizeof(int32_t), kSourceDictionariesPurpose);
    auto* table = reinterpret_cast<int32_t*>(remap.table.data());
    JobControl uncounted;  // dictionary bytes are no input rows: they stay out of the job's progress
    SourceReader reader(values, {0}, budget, uncounted);
    for (int64_t batch = 0; batch < values.batch_count(); ++batch) {
        const int64_t rows = values.batch_rows(batch);
        for (int64_t row = 0; row < rows;) {
            control.check();
            const int64_t wanted = std::min(kSliceRows, rows - row);
            const int64_t count = reader.rows_within(batch, row, wanted, kSliceBytes);
            unifier.add(reader.read(batch, row, count)[0], table + values.first_row(batch) + row);
            row += count;
        }
    }
    for (int64_t i = 0; i < remap.values; ++i) {
        remap.identity = remap.identity && table[i] == i;
        remap.has_null = remap.has_null || table[i] < 0;
    }
    if (remap.identity) remap.table = Buffer();
    return remap;
}

void load_group(DictionaryGroup& group, const SourceParts& parts, MemoryBudget& budget, const JobControl& control) {
    DictionaryUnifier unifier(group.value_type, group.column, budget);
    std::vector<DictionaryRemap> remaps;
    for (const int32_t spec : group.specs) {
        const Source& values = *parts.dictionary_sources[static_cast<size_t>(spec)];
        remaps.push_back(make_remap(values, unifier, budget, control));
    }
    unifier.finish(*group.unified);
    group.remaps = std::move(remaps);
    group.loaded = true;
}

void load_node(const NodePlan& plan, const SourceParts& parts, MemoryBudget& budget, const JobControl& control) {
    if (plan.group >= 0) {
        DictionaryGroup& group = *parts.groups[static_cast<size_t>(plan.group)];
        if (!group.loaded) load_group(group, parts, budget, control);
    }
    for (const NodePlan& child : plan.children) load_node(child, parts, budget, control);
}

}  // namespace

void Source::load_dictionaries(const std::vector<int32_t>& columns, MemoryBudget& budget, const JobControl& control) {
    const std::lock_guard<std::mutex> lock(parts_->dictionary_mutex);
    for (const int32_t column : columns) {
        if (column < 0) continue;  // pseudo columns (row number)
        SPILLWAY_CHECK(static_cast<size_t>(column) < parts_->plans.size());
        load_node(parts_->plans[static_cast<size_t>(column)], *parts_, budget, control);
    }
}

}  // namespace spillway
