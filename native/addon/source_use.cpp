// SPDX-License-Identifier: Apache-2.0
#include "addon/source_use.hpp"

#include <limits>

#include "addon/fields.hpp"
#include "executor/dictionary_batch.hpp"

namespace spillway::addon {

std::shared_ptr<SourceHandle> use_source(const Napi::Value& handle) {
    auto source = get_handle<SourceHandle>(handle);
    source->memory.check();
    return source;
}

std::vector<int32_t> decode_dictionary_path(const Napi::Value& value, const std::vector<TypePtr>& columns) {
    const Field field(value, "path");
    std::vector<int32_t> path;
    const ColumnType* type = nullptr;
    for (const Field& step : field.array()) {
        const size_t choices = type == nullptr ? columns.size() : type->children.size();
        const int32_t index = step.int32(0, std::numeric_limits<int32_t>::max());
        if (static_cast<size_t>(index) >= choices) throw step.error("one of " + std::to_string(choices) + " children");
        type = type == nullptr ? columns[index].get() : &type->children[index];
        path.push_back(index);
    }
    if (type == nullptr || type->layout != Layout::kDictionary) throw field.error("the path of a dictionary column");
    return path;
}

OutputBatch dictionary_of(const SourceHandle& source, const std::vector<int32_t>& path, Job& job) {
    MemoryBudget& budget = job.engine->budget;
    source.source->load_dictionaries({path.front()}, budget, job.control);
    return dictionary_batch(*source.source->dictionary(path), budget, job.control);
}

}  // namespace spillway::addon
