// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/buffer.hpp"
#include "transfer/file_table.hpp"
#include "transfer/node_plan.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Index into one dictionary of the input -> index into the unified one; -1 = the value is NULL.
struct DictionaryRemap {
    int64_t values = 0;
    bool identity = true;   // table left out: index i stays i
    bool has_null = false;  // some entry is -1
    Buffer table;           // int32
    const int32_t* entries() const { return reinterpret_cast<const int32_t*>(table.data()); }
};

// The dictionaries that one node meets over all batches and files, unified. Nodes that meet the same ones share it.
struct DictionaryGroup {
    std::vector<int32_t> specs;                         // indices into SourceSpec::dictionaries, in order of first use
    std::string column;                                 // the first node that uses it
    TypePtr value_type;                                 // as in the file
    std::shared_ptr<Dictionary> unified;                // made at once, filled by load_dictionaries
    std::vector<DictionaryRemap> remaps;                // one per entry of specs
    std::unordered_map<int32_t, size_t> remap_of_spec;  // dictionary -> index into remaps
    bool loaded = false;
};

struct SourceParts {
    std::shared_ptr<FileTable> files;
    std::vector<NodePlan> plans;  // one per column
    SchemaCounts counts;
    std::vector<std::vector<int64_t>> variadic_starts;        // per batch; empty without view columns
    std::vector<std::unique_ptr<Source>> dictionary_sources;  // one per SourceSpec::dictionaries: one column, values
    std::vector<std::unique_ptr<DictionaryGroup>> groups;
    std::vector<int64_t> numbers;  // of each batch inside its file, for errors
    std::mutex dictionary_mutex;

    BatchPosition position(const SourceSpec& spec, int64_t batch) const {
        const auto at = static_cast<size_t>(batch);
        return {&spec.batches[at], numbers[at], files.get(),
                variadic_starts.empty() ? nullptr : variadic_starts[at].data()};
    }
};

}  // namespace spillway
