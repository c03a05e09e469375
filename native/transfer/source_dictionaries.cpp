// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "transfer/dictionary_unifier.hpp"
#include "transfer/source_parts.hpp"

namespace spillway {

namespace {

// Values come through a reader in slices, so that a large dictionary does not need its size twice.
constexpr int64_t kSliceRows = 65536;
constexpr uint64_t kSliceBytes = 16u << 20;

// Reads the values of one column of dictionaries, version by version.
class VersionReader {
  public:
    VersionReader(const DictionaryValues& values, MemoryBudget& budget, const JobControl& control)
        : values_(values), control_(control), reader_(*values.source, {0}, budget, uncounted_) {}

    // indices: one per value of the version.
    void unify(const DictionaryValues::Rows& rows, DictionaryUnifier& unifier, int32_t* indices) {
        for (int64_t batch = rows.first_batch; batch < rows.first_batch + rows.batches; ++batch) {
            const int64_t batch_rows = values_.source->batch_rows(batch);
            const int64_t first = values_.source->first_row(batch) - rows.first;
            for (int64_t row = 0; row < batch_rows;) {
                control_.check();
                const int64_t wanted = std::min(kSliceRows, batch_rows - row);
                const int64_t count = reader_.rows_within(batch, row, wanted, kSliceBytes);
                unifier.add(reader_.read(batch, row, count)[0], indices + first + row);
                row += count;
            }
        }
    }

  private:
    const DictionaryValues& values_;
    const JobControl& control_;
    JobControl uncounted_;  // dictionary bytes are no input rows: they stay out of the job's progress
    SourceReader reader_;
};

bool is_identity(const int32_t* indices, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (indices[i] != i) return false;
    }
    return true;
}

// A stream that sends a dictionary again, longer, has versions that need no table: what they add comes last.
void unify_version(DictionaryRemap& remap, int32_t version, const DictionaryValues::Rows& rows, VersionReader& reader,
                   DictionaryUnifier& unifier, MemoryBudget& budget) {
    const auto start = static_cast<int64_t>(remap.entries.size());
    const auto count = static_cast<size_t>(rows.rows);
    int32_t* indices = remap.entries.append(budget, count);
    reader.unify(rows, unifier, indices);
    const bool identity = is_identity(indices, rows.rows);
    if (identity) remap.entries.pop_back(count);
    remap.starts[static_cast<size_t>(version)] = identity ? DictionaryRemap::kIdentity : start;
}

void load_group(DictionaryGroup& group, const SourceSpec& spec, const SourceParts& parts, MemoryBudget& budget,
                const JobControl& control) {
    DictionaryUnifier unifier(group.value_type, group.column, budget);
    std::unordered_map<int32_t, DictionaryRemap> remaps;
    for (const auto& [source, unloaded] : group.remaps) {
        const DictionaryValues& values = parts.values[static_cast<size_t>(source)];
        const size_t versions = values.versions == nullptr ? 1 : values.versions->size();
        int64_t* starts = remaps[source].starts.append(budget, versions);
        std::fill_n(starts, versions, DictionaryRemap::kUnused);
    }
    // One at a time, as its buffers may be large: the versions of a file follow one another.
    std::unique_ptr<VersionReader> reader;
    int32_t reads = -1;
    for (const DictionaryRef ref : dictionaries_met(spec, parts, group.dictionary)) {
        const DictionaryValues& values = parts.values[static_cast<size_t>(ref.source)];
        if (ref.source != reads) {
            reader.reset();
            reader = std::make_unique<VersionReader>(values, budget, control);
            reads = ref.source;
        }
        const DictionaryValues::Rows rows = values.rows_of(ref.version);
        unify_version(remaps.at(ref.source), ref.version, rows, *reader, unifier, budget);
    }
    for (auto& [source, remap] : remaps) remap.entries.fit(budget);
    unifier.finish(*group.unified);
    group.remaps = std::move(remaps);
    group.loaded = true;
}

void load_node(const NodePlan& plan, const SourceSpec& spec, const SourceParts& parts, MemoryBudget& budget,
               const JobControl& control) {
    if (plan.group >= 0) {
        DictionaryGroup& group = *parts.groups[static_cast<size_t>(plan.group)];
        if (!group.loaded) load_group(group, spec, parts, budget, control);
    }
    for (const NodePlan& child : plan.children) load_node(child, spec, parts, budget, control);
}

}  // namespace

void Source::load_dictionaries(const std::vector<int32_t>& columns, MemoryBudget& budget, const JobControl& control) {
    const std::lock_guard<std::mutex> lock(parts_->dictionary_mutex);
    for (const int32_t column : columns) {
        if (column < 0) continue;  // pseudo columns (row number)
        SPILLWAY_CHECK(static_cast<size_t>(column) < parts_->plans.size());
        load_node(parts_->plans[static_cast<size_t>(column)], spec_, *parts_, budget, control);
    }
}

}  // namespace spillway
