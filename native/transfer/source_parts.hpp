// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/counted_array.hpp"
#include "transfer/file_batches.hpp"
#include "transfer/file_table.hpp"
#include "transfer/node_plan.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Values that dictionaries are made of, read as a source of one column: those of a SourceSpec::dictionaries, or those
// of one id in one file, which has all versions that a stream brings.
struct DictionaryValues {
    TypePtr type;
    const BatchPlaces* places = nullptr;              // of files; else the batches of the DictionarySpec
    const CountedArray<int32_t>* versions = nullptr;  // first batch of each version; nullptr: one version has all
    int32_t first_file = 0;                           // that of `places`, in the table of the source
    std::unique_ptr<Source> source;

    struct Rows {
        int64_t first_batch = 0;
        int64_t batches = 0;
        int64_t first = 0;
        int64_t rows = 0;
    };
    Rows rows_of(int32_t version) const;
};

// Index into one dictionary of the input -> index into the unified one; -1 = the value is NULL.
struct DictionaryRemap {
    static constexpr int64_t kIdentity = -1;  // no table: index i stays i
    static constexpr int64_t kUnused = -2;
    CountedArray<int64_t> starts{"dictionaries"};  // of each version: where its table begins in `entries`
    CountedArray<int32_t> entries{"dictionaries"};
};

// The dictionaries that one node meets over all batches and files, unified. Nodes that meet the same ones share it.
struct DictionaryGroup {
    int32_t dictionary = 0;                               // the first node that uses it, among the dictionary nodes
    std::string column;                                   // its name
    TypePtr value_type;                                   // as in the file
    std::vector<DictionaryRef> order;                     // in order of first use; emptied when the source is made
    std::shared_ptr<Dictionary> unified;                  // made at once, filled by load_dictionaries
    std::unordered_map<int32_t, DictionaryRemap> remaps;  // by SourceParts::values
    bool loaded = false;
};

struct SourceParts {
    // Batches of files whose layouts are read when they are needed: the source's own and those it is linked with.
    struct Provider {
        std::shared_ptr<const FileBatches> batches;
        int32_t first_file = 0;    // its files in the table of the source
        int32_t first_values = 0;  // its dictionaries among `values`
    };

    std::shared_ptr<FileTable> files;
    std::vector<NodePlan> plans;  // one per column
    SchemaCounts counts;
    std::vector<Provider> providers;
    int32_t own = -1;                     // SourceSpec::files among them
    const BatchPlaces* places = nullptr;  // of the batches behind those of the SourceSpec
    int32_t first_file = 0;               // of `places`
    std::vector<DictionaryValues> values;
    std::vector<std::unique_ptr<DictionaryGroup>> groups;
    std::vector<int64_t> numbers;  // of each batch of the SourceSpec inside its file, for errors
    std::mutex dictionary_mutex;

    int32_t provider_of(const std::shared_ptr<const FileBatches>& batches) const;
};

// The dictionaries that a dictionary node meets, each once, in the order in which they are unified.
std::vector<DictionaryRef> dictionaries_met(const SourceSpec& spec, const SourceParts& parts, int32_t dictionary);

// Finds or makes the group of every dictionary node under `plan`, and shows it in the types handed out.
void assign_groups(const SourceSpec& spec, SourceParts& parts, NodePlan& plan, ColumnType& shown);

}  // namespace spillway
