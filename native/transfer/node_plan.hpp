// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "transfer/file_table.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Where a node of a column's type tree lies in every batch of the source. Field nodes and buffers are numbered in
// pre-order over all columns; view columns add a number of data buffers that differs from batch to batch, so `buffer`
// counts the fixed ones only (see BatchPosition::first_buffer). The values of a dictionary are no part of the batch.
struct NodePlan {
    const ColumnType* type = nullptr;   // as in the file
    const ColumnType* shown = nullptr;  // as handed out: dictionary set, int32 indices
    std::string name;                   // column.child.child
    int32_t node = 0;
    int32_t buffer = 0;
    int32_t variadic = 0;                // number of view nodes before this one
    int32_t dictionary = 0;              // number of dictionary nodes before this one
    int32_t group = -1;                  // kDictionary: which unified dictionary
    std::vector<int32_t> child_of_id{};  // unions: 256 entries, -1 = unknown type id
    std::vector<NodePlan> children{};
};

// Totals over all columns of a schema.
struct SchemaCounts {
    int32_t nodes = 0;
    int32_t buffers = 0;
    int32_t variadics = 0;
    int32_t dictionaries = 0;
};

// Plans one column, adding its nodes to `counts`. Throws kUnsupportedType / kInvalidArgument for a malformed type.
NodePlan plan_column(const ColumnType& type, const ColumnType& shown, SchemaCounts& counts);

// Which dictionary of a source a batch means: one of SourceParts::values, and of its versions.
struct DictionaryRef {
    int32_t source = -1;  // -1: none, every row is NULL
    int32_t version = 0;
    bool operator==(const DictionaryRef&) const = default;
};

// One batch of the source, for reading and for naming it in errors.
struct BatchPosition {
    const BatchLayout* layout = nullptr;
    int64_t number = 0;
    const FileTable* files = nullptr;
    const int64_t* variadic_starts = nullptr;     // data buffers of views before the k-th view node
    const DictionaryRef* dictionaries = nullptr;  // of each dictionary node; only for batches that are read

    const BatchLayout::Node& node(const NodePlan& plan) const { return layout->nodes[static_cast<size_t>(plan.node)]; }
    const BatchLayout::Region& buffer(const NodePlan& plan, int64_t i) const {
        const int64_t variadic = variadic_starts == nullptr ? 0 : variadic_starts[plan.variadic];
        return layout->buffers[static_cast<size_t>(plan.buffer + variadic + i)];
    }
    bool in_file() const { return layout->file >= 0; }
};

inline constexpr const char* kAllColumns = "*";  // as a column name in errors

// kFileCorrupt (files) or kInvalidArgument (memory), naming file, column and batch; `what` continues the sentence
// "column 'x' of batch 3 ...".
[[nodiscard]] Error corrupt_batch(const BatchPosition& batch, const std::string& column, const std::string& what);
// The same with the sizes: "... has <found> bytes of <what>, <wanted> are needed".
[[nodiscard]] Error short_buffer(const BatchPosition& batch, const std::string& column, const char* what,
                                 int64_t wanted_bytes, int64_t found_bytes);

// Checks a whole batch against schema and files; see Source.
void check_batch(const std::vector<NodePlan>& plans, const SchemaCounts& counts, const BatchPosition& batch);

}  // namespace spillway
