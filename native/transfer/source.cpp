// SPDX-License-Identifier: Apache-2.0
#include "transfer/source.hpp"

#include <algorithm>

#include "base/checked_size.hpp"
#include "transfer/batch_header.hpp"
#include "transfer/source_parts.hpp"

namespace spillway {

namespace {

void add_provider(const std::shared_ptr<const FileBatches>& batches, SourceSpec& spec, SourceParts& parts) {
    if (batches == nullptr || parts.provider_of(batches) < static_cast<int32_t>(parts.providers.size())) return;
    const auto first_values = static_cast<int32_t>(parts.values.size());
    const auto first_file = static_cast<int32_t>(spec.paths.size());
    parts.providers.push_back({batches, first_file, first_values});
    for (const FileBatches::Values& values : batches->values) {
        parts.values.push_back({values.type, &values.places, &values.versions, first_file, nullptr});
    }
    spec.stamps.resize(spec.paths.size());
    spec.paths.insert(spec.paths.end(), batches->paths.begin(), batches->paths.end());
    spec.stamps.insert(spec.stamps.end(), batches->stamps.begin(), batches->stamps.end());
}

// The files of all batches and dictionaries, open; which dictionaries there are.
std::unique_ptr<SourceParts> open_parts(SourceSpec& spec) {
    auto parts = std::make_unique<SourceParts>();
    for (const DictionarySpec& dictionary : spec.dictionaries) {
        parts->values.push_back({dictionary.value_type, nullptr, nullptr, 0, nullptr});
    }
    add_provider(spec.files, spec, *parts);
    if (spec.files != nullptr) {
        parts->own = 0;
        parts->places = &spec.files->records;
        parts->first_file = parts->providers[0].first_file;
    }
    for (const DictionaryLink& link : spec.links) {
        for (const DictionaryLink::Part& part : link.parts) add_provider(part.files, spec, *parts);
    }
    parts->files = std::make_shared<FileTable>(spec.paths, spec.stamps);
    return parts;
}

void check_links(const SourceSpec& spec, const SchemaCounts& counts) {
    for (const DictionaryLink& link : spec.links) {
        SPILLWAY_CHECK(link.node >= 0 && link.node < counts.dictionaries);
        for (const DictionaryLink::Part& part : link.parts) {
            SPILLWAY_CHECK(part.files == nullptr || (part.node >= 0 && part.node < part.files->dictionary_nodes));
            for (const int32_t index : part.dictionaries) {
                SPILLWAY_CHECK(index >= 0 && static_cast<size_t>(index) < spec.dictionaries.size());
            }
        }
    }
}

void name_dictionaries(const SourceParts& parts, const NodePlan& plan, std::vector<std::string>& names) {
    if (plan.group >= 0) {
        for (const auto& [source, remap] : parts.groups[static_cast<size_t>(plan.group)]->remaps) {
            auto& name = names[static_cast<size_t>(source)];
            if (name.empty()) name = plan.name + " (dictionary values)";
        }
    }
    for (const NodePlan& child : plan.children) name_dictionaries(parts, child, names);
}

}  // namespace

Source::Source(SourceSpec spec) : spec_(std::move(spec)), parts_(open_parts(spec_)) {
    open();
}

Source::Source(SourceSpec spec, std::unique_ptr<SourceParts> parts) : spec_(std::move(spec)), parts_(std::move(parts)) {
    open();
}

Source::~Source() = default;

void Source::open() {
    std::vector<std::shared_ptr<ColumnType>> shown;
    shown.reserve(spec_.columns.size());
    parts_->plans.reserve(spec_.columns.size());
    for (const TypePtr& column : spec_.columns) {
        shown.push_back(std::make_shared<ColumnType>(*column));
        parts_->plans.push_back(plan_column(*column, *shown.back(), parts_->counts));
    }
    if (parts_->own >= 0) SPILLWAY_CHECK(spec_.files->dictionary_nodes == parts_->counts.dictionaries);
    check_links(spec_, parts_->counts);
    check_batches();
    keep_first_rows();
    for (size_t i = 0; i < shown.size(); ++i) assign_groups(spec_, *parts_, parts_->plans[i], *shown[i]);
    columns_.assign(shown.begin(), shown.end());
    open_values();
}

void Source::check_batches() {
    std::vector<int64_t> batches_of_file(static_cast<size_t>(parts_->files->count()) + 1, 0);  // 0: memory
    std::vector<int64_t> starts;
    first_rows_.reserve(spec_.batches.size() + 1);
    for (const BatchLayout& batch : spec_.batches) {
        SPILLWAY_CHECK(batch.file >= -1 && batch.file < parts_->files->count());
        parts_->numbers.push_back(batches_of_file[static_cast<size_t>(batch.file + 1)]++);
        find_variadic_starts(batch, starts);
        const BatchPosition position{&batch, parts_->numbers.back(), parts_->files.get(), starts.data(), nullptr};
        check_batch(parts_->plans, parts_->counts, position);
        if (batch.dictionaries.size() != static_cast<size_t>(parts_->counts.dictionaries)) {
            throw corrupt_batch(position, kAllColumns,
                                "together have " + std::to_string(batch.dictionaries.size()) +
                                    " dictionary columns instead of the " +
                                    std::to_string(parts_->counts.dictionaries) + " of the schema");
        }
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
    first_rows_.push_back(rows_);
    if (parts_->places != nullptr) {
        SPILLWAY_CHECK(!__builtin_add_overflow(rows_, parts_->places->rows(), &rows_));
    }
}

void Source::keep_first_rows() {
    batches_ = all_batches();
    if (rows_ <= spec_.rows_max) return;
    rows_ = spec_.rows_max;
    int64_t low = 0;
    while (low < batches_) {
        const int64_t middle = low + (batches_ - low) / 2;
        if (first_row(middle) < rows_) {
            low = middle + 1;
        } else {
            batches_ = middle;
        }
    }
}

// The dictionary batches are record batches of one column: they are checked and read as sources of their own.
void Source::open_values() {
    std::vector<std::string> names(parts_->values.size());
    for (const NodePlan& plan : parts_->plans) name_dictionaries(*parts_, plan, names);
    for (size_t i = 0; i < names.size(); ++i) {
        DictionaryValues& values = parts_->values[i];
        auto type = std::make_shared<ColumnType>(*values.type);
        type->name = names[i].empty() ? "dictionary " + std::to_string(i) : names[i];
        type->nullable = true;
        SourceSpec spec;
        spec.columns.push_back(std::move(type));
        auto parts = std::make_unique<SourceParts>();
        parts->files = parts_->files;
        parts->places = values.places;
        parts->first_file = values.first_file;
        if (values.places == nullptr) spec.batches = std::move(spec_.dictionaries[i].batches);
        values.source = std::unique_ptr<Source>(new Source(std::move(spec), std::move(parts)));
    }
    for (const auto& group : parts_->groups) group->order = {};
}

int64_t Source::batch_count() const {
    return batches_;
}

int64_t Source::all_batches() const {
    const auto known = static_cast<int64_t>(spec_.batches.size());
    return parts_->places == nullptr ? known : known + parts_->places->count();
}

int64_t Source::first_row(int64_t batch) const {
    const auto known = static_cast<int64_t>(spec_.batches.size());
    if (batch < known) return first_rows_[static_cast<size_t>(batch)];
    return first_rows_.back() + (parts_->places == nullptr ? 0 : parts_->places->first_row(batch - known));
}

int64_t Source::batch_rows(int64_t batch) const {
    const auto known = static_cast<int64_t>(spec_.batches.size());
    const int64_t left = rows_ - first_row(batch);
    if (batch < known) return std::min(left, spec_.batches[static_cast<size_t>(batch)].rows);
    const BatchPlaces& places = *parts_->places;
    return std::min(left, places.first_row(batch - known + 1) - places.first_row(batch - known));
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
