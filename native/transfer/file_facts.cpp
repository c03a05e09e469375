// SPDX-License-Identifier: Apache-2.0
#include "transfer/file_facts.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace spillway {

namespace {

// Buffers may lie over each other, so what they add up to has no bound.
void add_to(int64_t& total, int64_t bytes) {
    if (__builtin_add_overflow(total, bytes, &total)) total = std::numeric_limits<int64_t>::max();
}

int64_t bytes_of(const BatchLayout& layout, size_t begin, size_t end) {
    int64_t bytes = 0;
    for (size_t i = begin; i < end; ++i) add_to(bytes, layout.buffers[i].length);
    return bytes;
}

void mark_null_columns(const std::vector<NodePlan>& plans, std::vector<uint8_t>& has_nulls) {
    for (const NodePlan& plan : plans) {
        if (plan.type->layout == Layout::kNull) has_nulls[static_cast<size_t>(plan.node)] = 1;
        mark_null_columns(plan.children, has_nulls);
    }
}

void find_dictionary_nodes(const NodePlan& plan, int32_t column, std::vector<DictionaryNode>& found) {
    if (plan.type->layout == Layout::kDictionary) {
        DictionaryNode node;
        node.column = column;
        node.node = plan.node;
        auto values = std::make_shared<ColumnType>(plan.type->children[0]);
        values->name = plan.name + " (dictionary values)";
        values->nullable = true;
        node.plans.push_back(plan_column(*values, *values, node.counts));
        node.values.push_back(std::move(values));
        found.push_back(std::move(node));
    }
    for (const NodePlan& child : plan.children) find_dictionary_nodes(child, column, found);
}

}  // namespace

std::vector<DictionaryNode> dictionary_nodes(const std::vector<NodePlan>& plans) {
    std::vector<DictionaryNode> found;
    for (size_t column = 0; column < plans.size(); ++column) {
        find_dictionary_nodes(plans[column], static_cast<int32_t>(column), found);
    }
    return found;
}

FactsOfHeaders::FactsOfHeaders(const std::vector<NodePlan>& plans, const SchemaCounts& counts,
                               const std::vector<DictionaryNode>& dictionaries, MemoryBudget& budget)
    : plans_(plans), dictionaries_(dictionaries), budget_(budget) {
    facts_.column_bytes.assign(plans.size(), 0);
    facts_.dictionary_bytes.assign(plans.size(), 0);
    facts_.dictionary_rows.assign(plans.size(), 0);
    facts_.node_has_nulls.assign(static_cast<size_t>(counts.nodes), 0);
}

void FactsOfHeaders::add_records(const BatchLayout& layout, const std::vector<int64_t>& starts) {
    if (facts_.rows == 0 && facts_.largest_batch_rows == 0) mark_null_columns(plans_, facts_.node_has_nulls);
    add_to(facts_.rows, layout.rows);
    facts_.largest_batch_rows = std::max(facts_.largest_batch_rows, layout.rows);
    for (size_t i = 0; i < layout.nodes.size(); ++i) facts_.node_has_nulls[i] |= layout.nodes[i].null_count != 0;
    const auto first = [&](size_t column) {
        if (column == plans_.size()) return layout.buffers.size();
        const NodePlan& plan = plans_[column];
        return static_cast<size_t>(plan.buffer + starts[static_cast<size_t>(plan.variadic)]);
    };
    for (size_t c = 0; c < plans_.size(); ++c) {
        add_to(facts_.column_bytes[c], bytes_of(layout, first(c), first(c + 1)));
    }
}

void FactsOfHeaders::know_values(size_t count) {
    while (versions_.size() < count) versions_.emplace_back("facts of dictionaries");
}

void FactsOfHeaders::add_values(int32_t values, bool is_new, const BatchLayout& layout) {
    know_values(static_cast<size_t>(values) + 1);
    CountedArray<VersionFacts>& versions = versions_[static_cast<size_t>(values)];
    if (is_new) versions.push_back(budget_, {});
    VersionFacts& version = versions[versions.size() - 1];
    add_to(version.bytes, bytes_of(layout, 0, layout.buffers.size()));
    version.has_nulls = version.has_nulls || layout.nodes[0].null_count != 0;
}

void FactsOfHeaders::use_set(const FileBatches& batches, const FileBatches::FileSets& file, int64_t set) {
    for (size_t i = 0; i < dictionaries_.size(); ++i) {
        const int32_t version = batches.version_of(set, static_cast<int32_t>(i));
        if (version < 0) continue;
        VersionFacts& facts = versions_[static_cast<size_t>(file.values_of_node[i])][static_cast<size_t>(version)];
        if (facts.column < 0) facts.column = dictionaries_[i].column;
    }
}

// A later delta may still have brought a NULL, so the dictionaries are looked at when all are known.
FileFacts FactsOfHeaders::finish(const FileBatches& batches) {
    know_values(batches.values.size());
    for (size_t f = 0; f < batches.files.size(); ++f) {
        const FileBatches::FileSets& file = batches.files[f];
        const int64_t end = f + 1 < batches.files.size() ? batches.files[f + 1].first_set : batches.set_count();
        for (int64_t set = file.first_set; set < end; ++set) {
            for (size_t i = 0; i < dictionaries_.size(); ++i) {
                const int32_t version = batches.version_of(set, static_cast<int32_t>(i));
                if (version < 0) continue;
                const auto values = static_cast<size_t>(file.values_of_node[i]);
                if (versions_[values][static_cast<size_t>(version)].has_nulls) {
                    facts_.node_has_nulls[static_cast<size_t>(dictionaries_[i].node)] = 1;
                }
            }
        }
    }
    for (size_t v = 0; v < versions_.size(); ++v) {
        const FileBatches::Values& values = batches.values[v];
        for (size_t i = 0; i < versions_[v].size(); ++i) {
            const VersionFacts& version = versions_[v][i];
            if (version.column < 0) continue;  // no record batch uses it
            const int64_t end = i + 1 < values.versions.size() ? values.versions[i + 1] : values.places.count();
            const int64_t rows = values.places.first_row(end) - values.places.first_row(values.versions[i]);
            add_to(facts_.dictionary_bytes[static_cast<size_t>(version.column)], version.bytes);
            add_to(facts_.dictionary_rows[static_cast<size_t>(version.column)], rows);
        }
    }
    return std::move(facts_);
}

}  // namespace spillway
