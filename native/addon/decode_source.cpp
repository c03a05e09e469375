// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "addon/decode.hpp"

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

std::vector<BatchLayout::Region> decode_file_regions(const Field& field) {
    const std::vector<int64_t> numbers = field.counts(2);
    std::vector<BatchLayout::Region> regions(numbers.size() / 2);
    for (size_t i = 0; i < regions.size(); ++i) regions[i] = {numbers[2 * i], nullptr, numbers[2 * i + 1]};
    return regions;
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

BatchLayout decode_batch(const Field& field, int32_t paths, int32_t dictionaries,
                         std::vector<Napi::Value>& references) {
    Fields fields(field);
    BatchLayout batch;
    batch.file = fields["file"].int32(-1, paths - 1);
    batch.rows = fields["rows"].integer(0, kSafeInteger);
    batch.nodes = decode_nodes(fields["nodes"]);
    const Field buffers = fields["buffers"];
    const Field memory = fields["memory"];
    if (batch.file >= 0) {
        if (!memory.is_null()) throw memory.error("null for a batch of a file");
        batch.buffers = decode_file_regions(buffers);
    } else {
        if (!buffers.counts(2).empty()) throw buffers.error("empty for a batch in memory");
        batch.buffers = decode_memory_regions(memory, references);
    }
    for (const Field& count : fields["variadicCounts"].array()) {
        batch.variadic_counts.push_back(count.int32(0, std::numeric_limits<int32_t>::max()));
    }
    for (const Field& index : fields["dictionaries"].array()) {
        batch.dictionaries.push_back(index.int32(-1, dictionaries - 1));
    }
    fields.finish();
    return batch;
}

DictionarySpec decode_dictionary(const Field& field, int32_t paths, int32_t dictionaries,
                                 std::vector<Napi::Value>& references) {
    Fields fields(field);
    DictionarySpec dictionary;
    dictionary.value_type = decode_column(fields["valueType"]);
    for (const Field& batch : fields["batches"].array()) {
        dictionary.batches.push_back(decode_batch(batch, paths, dictionaries, references));
    }
    fields.finish();
    return dictionary;
}

}  // namespace

SourceSpec decode_source(const Napi::Value& value, std::vector<Napi::Value>& references) {
    Fields fields(value, "spec");
    SourceSpec spec;
    spec.columns = decode_columns(fields["columns"]);
    for (const Field& path : fields["paths"].array()) spec.paths.push_back(path.string());
    const Field stamps = fields["stamps"];
    for (const Field& stamp : stamps.array()) spec.stamps.push_back(stamp.string());
    if (spec.stamps.size() != spec.paths.size()) throw stamps.error("one stamp for each path");
    const auto dictionaries = fields["dictionaries"].array();
    const auto path_count = static_cast<int32_t>(spec.paths.size());
    const auto dictionary_count = static_cast<int32_t>(dictionaries.size());
    for (const Field& batch : fields["batches"].array()) {
        spec.batches.push_back(decode_batch(batch, path_count, dictionary_count, references));
    }
    for (const Field& dictionary : dictionaries) {
        spec.dictionaries.push_back(decode_dictionary(dictionary, path_count, dictionary_count, references));
    }
    fields.finish();
    return spec;
}

}  // namespace spillway::addon
