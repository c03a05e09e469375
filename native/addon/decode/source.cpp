// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/decode.hpp"
#include "addon/jobs/handles.hpp"

namespace spillway::addon {

namespace {

// Whether the numbers agree with each other is for Source to see: it can name the file and the column.
std::vector<BatchLayout::Node> decode_nodes(const Field& field) {
    const std::vector<int64_t> numbers = field.counts(3);
    std::vector<BatchLayout::Node> nodes(numbers.size() / 3);
    for (size_t i = 0; i < nodes.size(); ++i) {
        nodes[i] = {numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]};
    }
    return nodes;
}

std::vector<BatchLayout::Region> decode_memory_regions(const Field& field, std::vector<Napi::Value>& references) {
    std::vector<BatchLayout::Region> regions;
    for (const Field& buffer : field.array()) {
        BatchLayout::Region region;
        if (!buffer.is_null()) {
            const bool bytes = buffer.value().IsTypedArray() &&
                               buffer.value().As<Napi::TypedArray>().TypedArrayType() == napi_uint8_array;
            if (!bytes) throw buffer.error("a Uint8Array or null");
            const auto array = buffer.value().As<Napi::Uint8Array>();
            region.length = static_cast<int64_t>(array.ElementLength());
            if (region.length > 0) {
                region.pointer = array.Data();
                references.push_back(buffer.value());
            }
        }
        regions.push_back(region);
    }
    return regions;
}

BatchLayout decode_batch(const Field& field, int32_t dictionaries, std::vector<Napi::Value>& references) {
    Fields fields(field);
    BatchLayout batch;
    batch.rows = fields["rows"].integer(0, kSafeInteger);
    batch.nodes = decode_nodes(fields["nodes"]);
    batch.buffers = decode_memory_regions(fields["memory"], references);
    for (const Field& count : fields["variadicCounts"].array()) {
        batch.variadic_counts.push_back(count.int32(0, kInt32Max));
    }
    for (const Field& index : fields["dictionaries"].array()) {
        batch.dictionaries.push_back(index.int32(-1, dictionaries - 1));
    }
    fields.finish();
    return batch;
}

DictionarySpec decode_dictionary(const Field& field, int32_t dictionaries, std::vector<Napi::Value>& references) {
    Fields fields(field);
    DictionarySpec dictionary;
    dictionary.value_type = decode_column(fields["valueType"]);
    for (const Field& batch : fields["batches"].array()) {
        dictionary.batches.push_back(decode_batch(batch, dictionaries, references));
    }
    fields.finish();
    return dictionary;
}

int32_t count_dictionary_nodes(const ColumnType& type) {
    if (type.layout == Layout::kDictionary) return 1;
    int32_t count = 0;
    for (const ColumnType& child : type.children) count += count_dictionary_nodes(child);
    return count;
}

std::shared_ptr<const FileBatches> decode_file_batches_handle(const Field& field) {
    return field.is_null() ? nullptr : get_handle<FileBatchesHandle>(field.value())->batches;
}

DictionaryLink::Part decode_link_part(const Field& field, int32_t dictionaries) {
    Fields fields(field);
    DictionaryLink::Part part;
    part.files = decode_file_batches_handle(fields["files"]);
    const int32_t nodes = part.files == nullptr ? 1 : part.files->dictionary_nodes;
    part.node = fields["node"].int32(0, nodes - 1);
    for (const Field& index : fields["dictionaries"].array()) {
        part.dictionaries.push_back(index.int32(0, dictionaries - 1));
    }
    fields.finish();
    return part;
}

DictionaryLink decode_link(const Field& field, int32_t nodes, int32_t dictionaries) {
    Fields fields(field);
    DictionaryLink link;
    link.node = fields["node"].int32(0, nodes - 1);
    for (const Field& part : fields["parts"].array()) link.parts.push_back(decode_link_part(part, dictionaries));
    fields.finish();
    return link;
}

FileBatchesSpec::File decode_file(const Field& field, int32_t nodes) {
    Fields fields(field);
    FileBatchesSpec::File file;
    file.path = fields["path"].string();
    file.stamp = fields["stamp"].string();
    file.is_stream = fields["format"].one_of<bool>({{"file", false}, {"stream", true}});
    file.begin = fields["begin"].integer(0, kSafeInteger);
    file.has_union = fields["hasUnion"].boolean();
    const Field ids = fields["dictionaryIds"];
    for (const Field& id : ids.array()) file.dictionary_ids.push_back(id.integer(-kSafeInteger, kSafeInteger));
    if (file.dictionary_ids.size() != static_cast<size_t>(nodes)) {
        throw ids.error("one id for each of " + std::to_string(nodes) + " dictionary nodes");
    }
    fields.finish();
    return file;
}

int32_t count_dictionary_nodes(const std::vector<TypePtr>& columns) {
    int32_t count = 0;
    for (const TypePtr& column : columns) count += count_dictionary_nodes(*column);
    return count;
}

}  // namespace

SourceSpec decode_source(const Napi::Value& value, std::vector<Napi::Value>& references) {
    Fields fields(value, "spec");
    SourceSpec spec;
    spec.columns = decode_columns(fields["columns"]);
    const int32_t nodes = count_dictionary_nodes(spec.columns);
    const auto dictionaries = fields["dictionaries"].array();
    const auto dictionary_count = static_cast<int32_t>(dictionaries.size());
    for (const Field& batch : fields["batches"].array()) {
        spec.batches.push_back(decode_batch(batch, dictionary_count, references));
    }
    for (const Field& dictionary : dictionaries) {
        spec.dictionaries.push_back(decode_dictionary(dictionary, dictionary_count, references));
    }
    const Field files = fields["files"];
    spec.files = decode_file_batches_handle(files);
    if (spec.files != nullptr && spec.files->dictionary_nodes != nodes) {
        throw files.error("batches of files with these columns");
    }
    for (const Field& link : fields["links"].array()) {
        spec.links.push_back(decode_link(link, nodes, dictionary_count));
    }
    if (fields.has("rowsMax")) spec.rows_max = fields["rowsMax"].integer(0, kSafeInteger);
    fields.finish();
    return spec;
}

FileBatchesSpec decode_file_batches(const Napi::Value& value) {
    Fields fields(value, "spec");
    FileBatchesSpec spec;
    spec.columns = decode_columns(fields["columns"]);
    const int32_t nodes = count_dictionary_nodes(spec.columns);
    for (const Field& file : fields["files"].array()) spec.files.push_back(decode_file(file, nodes));
    fields.finish();
    return spec;
}

std::vector<int32_t> decode_dictionary_path(const Napi::Value& value, const std::vector<TypePtr>& columns) {
    const Field field(value, "path");
    std::vector<int32_t> path;
    const ColumnType* type = nullptr;
    for (const Field& step : field.array()) {
        const size_t choices = type == nullptr ? columns.size() : type->children.size();
        const int32_t index = step.int32(0, kInt32Max);
        if (static_cast<size_t>(index) >= choices) throw step.error("one of " + std::to_string(choices) + " children");
        type = type == nullptr ? columns[index].get() : &type->children[index];
        path.push_back(index);
    }
    if (type == nullptr || type->layout != Layout::kDictionary) throw field.error("the path of a dictionary column");
    return path;
}

}  // namespace spillway::addon
