// SPDX-License-Identifier: Apache-2.0
#include "transfer/source.hpp"

#include <algorithm>

#include "base/checked_size.hpp"
#include "cpu/row/nested_codec.hpp"
#include "transfer/source_parts.hpp"

namespace spillway {

namespace {

bool has_dictionary(const ColumnType& type) {
    return type.layout == Layout::kDictionary ||
           std::any_of(type.children.begin(), type.children.end(), has_dictionary);
}

// Adds the dictionaries that this node meets in all batches, in order of first use.
std::vector<int32_t> specs_of_node(const SourceSpec& spec, const NodePlan& plan) {
    std::vector<int32_t> specs;
    std::vector<bool> seen(spec.dictionaries.size(), false);
    for (const BatchLayout& batch : spec.batches) {
        const int32_t used = batch.dictionaries[static_cast<size_t>(plan.dictionary)];
        if (used < 0 || seen[static_cast<size_t>(used)]) continue;
        seen[static_cast<size_t>(used)] = true;
        specs.push_back(used);
    }
    return specs;
}

std::unique_ptr<DictionaryGroup> make_group(const SourceSpec& spec, const NodePlan& plan, std::vector<int32_t> specs) {
    auto group = std::make_unique<DictionaryGroup>();
    group->column = plan.name;
    group->value_type = std::make_shared<ColumnType>(plan.type->children[0]);
    group->unified = std::make_shared<Dictionary>();
    for (size_t i = 0; i < specs.size(); ++i) {
        const ColumnType& found = *spec.dictionaries[static_cast<size_t>(specs[i])].value_type;
        if (found.layout != group->value_type->layout || found.byte_width != group->value_type->byte_width) {
            throw Error(ErrorCode::kInvalidArgument,
                        "column '" + plan.name + "' has dictionaries of different value types; give its files one type",
                        {{"column", plan.name}});
        }
        group->remap_of_spec[specs[i]] = i;
    }
    group->specs = std::move(specs);
    return group;
}

// Finds or makes the group of every dictionary node under `plan`, and shows it in the types handed out.
void assign_groups(const SourceSpec& spec, SourceParts& parts, NodePlan& plan, ColumnType& shown) {
    if (plan.type->layout != Layout::kDictionary) {
        for (size_t k = 0; k < plan.children.size(); ++k) {
            assign_groups(spec, parts, plan.children[k], shown.children[k]);
        }
        return;
    }
    if (has_dictionary(plan.type->children[0])) {
        throw Error(ErrorCode::kUnsupportedType,
                    "column '" + plan.name +
                        "' is a dictionary whose values are dictionary-encoded again; decode the " +
                        "inner dictionary when writing the file",
                    {{"column", plan.name}});
    }
    std::vector<int32_t> specs = specs_of_node(spec, plan);
    auto& groups = parts.groups;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::unique_ptr<DictionaryGroup>& group) {
        return !specs.empty() && group->specs == specs;
    });
    plan.group = static_cast<int32_t>(same - groups.begin());
    if (same == groups.end()) groups.push_back(make_group(spec, plan, std::move(specs)));
    const DictionaryGroup& group = *groups[static_cast<size_t>(plan.group)];
    shown.byte_width = sizeof(int32_t);
    shown.order = Order::kSigned;
    shown.children[0] = *materialized_type(group.value_type);
    shown.dictionary = group.unified;
}

void name_dictionaries(const SourceParts& parts, const NodePlan& plan, std::vector<std::string>& names) {
    if (plan.group >= 0) {
        for (const int32_t spec : parts.groups[static_cast<size_t>(plan.group)]->specs) {
            auto& name = names[static_cast<size_t>(spec)];
            if (name.empty()) name = plan.name + " (dictionary values)";
        }
    }
    for (const NodePlan& child : plan.children) name_dictionaries(parts, child, names);
}

}  // namespace

Source::Source(SourceSpec spec) : Source(std::move(spec), nullptr) {}

Source::Source(SourceSpec spec, std::shared_ptr<FileTable> files)
    : spec_(std::move(spec)), parts_(std::make_unique<SourceParts>()) {
    parts_->files = files ? std::move(files) : std::make_shared<FileTable>(spec_.paths, spec_.stamps);
    std::vector<std::shared_ptr<ColumnType>> shown;
    shown.reserve(spec_.columns.size());
    parts_->plans.reserve(spec_.columns.size());
    for (const TypePtr& column : spec_.columns) {
        shown.push_back(std::make_shared<ColumnType>(*column));
        parts_->plans.push_back(plan_column(*column, *shown.back(), parts_->counts));
    }
    check_batches();
    for (size_t i = 0; i < shown.size(); ++i) assign_groups(spec_, *parts_, parts_->plans[i], *shown[i]);
    columns_.assign(shown.begin(), shown.end());
    open_dictionaries();
}

Source::~Source() = default;

void Source::check_batches() {
    const SchemaCounts& counts = parts_->counts;
    first_rows_.reserve(spec_.batches.size());
    std::vector<int64_t> batches_of_file(static_cast<size_t>(parts_->files->count()) + 1, 0);  // 0: memory
    if (counts.variadics > 0) parts_->variadic_starts.reserve(spec_.batches.size());
    for (int64_t b = 0; b < batch_count(); ++b) {
        const BatchLayout& batch = spec_.batches[static_cast<size_t>(b)];
        SPILLWAY_CHECK(batch.file >= -1 && batch.file < parts_->files->count());
        parts_->numbers.push_back(batches_of_file[static_cast<size_t>(batch.file + 1)]++);
        if (counts.variadics > 0) {
            std::vector<int64_t> starts{0};
            for (const int32_t count : batch.variadic_counts) starts.push_back(starts.back() + std::max(count, 0));
            parts_->variadic_starts.push_back(std::move(starts));
        }
        const BatchPosition position = parts_->position(spec_, b);
        check_batch(parts_->plans, counts, position);
        for (const int32_t used : batch.dictionaries) {
            if (used < static_cast<int32_t>(spec_.dictionaries.size())) continue;
            throw corrupt_batch(position, kAllColumns, "use a dictionary that is not there");
        }
        first_rows_.push_back(rows_);
        rows_ = add_or_max(rows_, batch.rows);
        // JavaScript counts them exactly up to here; beyond, sums of rows and bytes per row would come near to 2^63.
        constexpr int64_t kRowsMax = int64_t{1} << 53;
        if (rows_ > kRowsMax) throw corrupt_batch(position, kAllColumns, "bring the relation to more than 2^53 rows");
    }
}

// The dictionary batches are record batches of one column: they are checked and read as sources of their own.
void Source::open_dictionaries() {
    std::vector<std::string> names(spec_.dictionaries.size());
    for (const NodePlan& plan : parts_->plans) name_dictionaries(*parts_, plan, names);
    for (size_t i = 0; i < names.size(); ++i) {
        DictionarySpec& dictionary = spec_.dictionaries[i];
        auto values = std::make_shared<ColumnType>(*dictionary.value_type);
        values->name = names[i].empty() ? "dictionary " + std::to_string(i) : names[i];
        values->nullable = true;
        SourceSpec spec;
        spec.columns.push_back(std::move(values));
        spec.batches = std::move(dictionary.batches);
        parts_->dictionary_sources.push_back(std::unique_ptr<Source>(new Source(std::move(spec), parts_->files)));
    }
}

std::shared_ptr<const Dictionary> Source::dictionary(const std::vector<int32_t>& path) const {
    const ColumnType* type = nullptr;
    for (size_t depth = 0; depth < path.size(); ++depth) {
        const auto at = static_cast<size_t>(path[depth]);
        const size_t count = depth == 0 ? columns_.size() : type->children.size();
        if (path[depth] < 0 || at >= count) {
            throw Error(ErrorCode::kInvalidArgument, "a dictionary was asked for at child " + std::to_string(at) +
                                                         " of a node with " + std::to_string(count) + " children");
        }
        type = depth == 0 ? columns_[at].get() : &type->children[at];
    }
    if (type == nullptr || type->layout != Layout::kDictionary) {
        throw Error(ErrorCode::kInvalidArgument, "a dictionary was asked for, but the column has none");
    }
    return type->dictionary;
}

}  // namespace spillway
