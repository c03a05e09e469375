// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "cpu/row/nested_codec.hpp"
#include "transfer/source_parts.hpp"

namespace spillway {

namespace {

class OrderedRefs {
  public:
    void add(DictionaryRef ref) {
        if (ref.source < 0) return;
        const uint64_t key =
            static_cast<uint64_t>(static_cast<uint32_t>(ref.source)) << 32 | static_cast<uint32_t>(ref.version);
        // Batches that follow one another mostly have the same.
        if (!found_.empty() && found_.back() == ref) return;
        if (seen_.insert(key).second) found_.push_back(ref);
    }
    void add(const SourceParts::Provider& provider, int32_t dictionary) {
        const FileBatches& batches = *provider.batches;
        for (size_t f = 0; f < batches.files.size(); ++f) {
            const FileBatches::FileSets& file = batches.files[f];
            const int64_t end = f + 1 < batches.files.size() ? batches.files[f + 1].first_set : batches.set_count();
            const int32_t values = provider.first_values + file.values_of_node[static_cast<size_t>(dictionary)];
            for (int64_t set = file.first_set; set < end; ++set) {
                const int32_t version = batches.version_of(set, dictionary);
                if (version >= 0) add({values, version});
            }
        }
    }
    std::vector<DictionaryRef> take() { return std::move(found_); }

  private:
    std::vector<DictionaryRef> found_;
    std::unordered_set<uint64_t> seen_;
};

// Values of one layout can be read as the other's.
bool same_layout(const ColumnType& a, const ColumnType& b) {
    return a.layout == b.layout && a.byte_width == b.byte_width && a.list_size == b.list_size &&
           a.type_ids == b.type_ids &&
           std::equal(a.children.begin(), a.children.end(), b.children.begin(), b.children.end(), same_layout);
}

std::unique_ptr<DictionaryGroup> make_group(const SourceParts& parts, const NodePlan& plan,
                                            std::vector<DictionaryRef> order) {
    auto group = std::make_unique<DictionaryGroup>();
    group->dictionary = plan.dictionary;
    group->column = plan.name;
    group->value_type = std::make_shared<ColumnType>(plan.type->children[0]);
    group->unified = std::make_shared<Dictionary>();
    for (const DictionaryRef ref : order) {
        if (!group->remaps.try_emplace(ref.source).second) continue;
        if (same_layout(*parts.values[static_cast<size_t>(ref.source)].type, *group->value_type)) continue;
        throw Error(ErrorCode::kInvalidArgument,
                    "column '" + plan.name + "' has dictionaries of different value types; give its files one type",
                    {{"column", plan.name}});
    }
    group->order = std::move(order);
    return group;
}

}  // namespace

DictionaryValues::Rows DictionaryValues::rows_of(int32_t version) const {
    if (versions == nullptr) return {0, source->batch_count(), 0, source->rows()};
    const auto at = static_cast<size_t>(version);
    const int64_t begin = (*versions)[at];
    const int64_t end = at + 1 < versions->size() ? (*versions)[at + 1] : places->count();
    return {begin, end - begin, places->first_row(begin), places->first_row(end) - places->first_row(begin)};
}

int32_t SourceParts::provider_of(const std::shared_ptr<const FileBatches>& batches) const {
    const auto found = std::find_if(providers.begin(), providers.end(),
                                    [&](const Provider& provider) { return provider.batches == batches; });
    return static_cast<int32_t>(found - providers.begin());
}

std::vector<DictionaryRef> dictionaries_met(const SourceSpec& spec, const SourceParts& parts, int32_t dictionary) {
    OrderedRefs refs;
    for (const DictionaryLink& link : spec.links) {
        if (link.node != dictionary) continue;
        for (const DictionaryLink::Part& part : link.parts) {
            for (const int32_t index : part.dictionaries) refs.add({index, 0});
            if (part.files == nullptr) continue;
            refs.add(parts.providers[static_cast<size_t>(parts.provider_of(part.files))], part.node);
        }
    }
    for (const BatchLayout& batch : spec.batches) {
        refs.add({batch.dictionaries[static_cast<size_t>(dictionary)], 0});
    }
    if (parts.own >= 0) refs.add(parts.providers[static_cast<size_t>(parts.own)], dictionary);
    return refs.take();
}

void assign_groups(const SourceSpec& spec, SourceParts& parts, NodePlan& plan, ColumnType& shown) {
    if (plan.type->layout != Layout::kDictionary) {
        for (size_t k = 0; k < plan.children.size(); ++k) {
            assign_groups(spec, parts, plan.children[k], shown.children[k]);
        }
        return;
    }
    std::vector<DictionaryRef> order = dictionaries_met(spec, parts, plan.dictionary);
    auto& groups = parts.groups;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::unique_ptr<DictionaryGroup>& group) {
        return !order.empty() && group->order == order;
    });
    plan.group = static_cast<int32_t>(same - groups.begin());
    if (same == groups.end()) groups.push_back(make_group(parts, plan, std::move(order)));
    const DictionaryGroup& group = *groups[static_cast<size_t>(plan.group)];
    shown.byte_width = sizeof(int32_t);
    shown.order = Order::kSigned;
    shown.children[0] = *materialized_type(group.value_type);
    shown.dictionary = group.unified;
}

}  // namespace spillway
