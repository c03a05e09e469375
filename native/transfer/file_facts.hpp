// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "transfer/file_batches.hpp"
#include "transfer/node_plan.hpp"

namespace spillway {

// A dictionary node of a schema, and how the batches of its dictionary are read: as a table of one column.
struct DictionaryNode {
    int32_t column = 0;
    int32_t node = 0;  // among all field nodes
    std::vector<TypePtr> values;
    std::vector<NodePlan> plans;
    SchemaCounts counts;
};

// The dictionary nodes of columns in pre-order.
std::vector<DictionaryNode> dictionary_nodes(const std::vector<NodePlan>& plans);

// Adds up what the headers of record and dictionary batches tell.
class FactsOfHeaders {
  public:
    FactsOfHeaders(const std::vector<NodePlan>& plans, const SchemaCounts& counts,
                   const std::vector<DictionaryNode>& dictionaries, MemoryBudget& budget);

    // starts: see find_variadic_starts.
    void add_records(const BatchLayout& layout, const std::vector<int64_t>& starts);
    // A batch of the newest version of one of FileBatches::values.
    void add_values(int32_t values, bool is_new, const BatchLayout& layout);
    // A new set of FileBatches::dictionary_sets is in use.
    void use_set(const FileBatches& batches, const FileBatches::FileSets& file, int64_t set);

    FileFacts finish(const FileBatches& batches);

  private:
    struct VersionFacts {
        int64_t bytes = 0;
        int32_t column = -1;  // that uses it first
        bool has_nulls = false;
    };
    void know_values(size_t count);

    const std::vector<NodePlan>& plans_;
    const std::vector<DictionaryNode>& dictionaries_;
    MemoryBudget& budget_;
    FileFacts facts_;
    std::vector<CountedArray<VersionFacts>> versions_;  // as FileBatches::values
};

}  // namespace spillway
