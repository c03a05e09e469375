// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/arrow_value.hpp"
#include "support/test_file.hpp"
#include "transfer/source.hpp"

// Lays test values out as Arrow columns (IPC field nodes and buffers, nothing around them) in memory or in a file.
// What the format leaves open is used: bytes under NULLs, items of NULL lists, gaps in data buffers, offsets that do
// not begin at 0, duplicate dictionary values.
namespace spillway::test {

struct Body {
    struct Node {
        int64_t length;
        int64_t null_count;
    };
    std::vector<Node> nodes;
    std::vector<Bytes> buffers;
    std::vector<int32_t> variadic_counts;
    std::vector<int32_t> dictionaries;
};

class BodyBuilder {
  public:
    BodyBuilder(Random& random, std::vector<DictionarySpec>& dictionaries)
        : random_(random), dictionaries_(dictionaries) {}
    // Memory the batches point at when no file is given; must outlive the source.
    std::vector<std::shared_ptr<Body>> kept;
    bool junk = true;  // use what the format leaves open

    // One batch of columns; file == nullptr: in memory.
    BatchLayout batch(const std::vector<ColumnType>& types, const std::vector<std::vector<Value>>& columns,
                      int64_t rows, TestFile* file, int32_t file_index) {
        auto body = std::make_shared<Body>();
        for (size_t c = 0; c < types.size(); ++c) {
            std::vector<const Value*> values;
            for (const Value& value : columns[c]) values.push_back(&value);
            add(types[c], values, *body, file, file_index);
        }
        return place(body, rows, file, file_index);
    }

  private:
    using Values = std::vector<const Value*>;

    BatchLayout place(const std::shared_ptr<Body>& body, int64_t rows, TestFile* file, int32_t file_index) {
        BatchLayout layout;
        layout.file = file == nullptr ? -1 : file_index;
        layout.rows = rows;
        for (const Body::Node& node : body->nodes) layout.nodes.push_back({node.length, node.null_count, 0});
        for (const Bytes& buffer : body->buffers) {
            BatchLayout::Region region;
            region.length = static_cast<int64_t>(buffer.size());
            if (file != nullptr) region.offset = file->append(buffer);
            if (file == nullptr && !buffer.empty()) region.pointer = buffer.data();
            layout.buffers.push_back(region);
        }
        layout.variadic_counts = body->variadic_counts;
        layout.dictionaries = body->dictionaries;
        if (file == nullptr) kept.push_back(body);
        return layout;
    }

    template <class T>
    static void put(Bytes& bytes, T value) {
        const auto* from = reinterpret_cast<const uint8_t*>(&value);
        bytes.insert(bytes.end(), from, from + sizeof value);
    }
    static void put_offset(Bytes& bytes, int32_t width, int64_t value) {
        width == 8 ? put(bytes, value) : put(bytes, static_cast<int32_t>(value));
    }
    std::string junk_bytes(int64_t count) { return random_bytes(random_, junk ? count : 0); }

    static Bytes bitmap(const Values& values, bool (*test)(const Value&)) {
        Bytes bits((values.size() + 7) / 8, 0);
        for (size_t i = 0; i < values.size(); ++i) {
            if (test(*values[i])) set_bit(bits.data(), static_cast<int64_t>(i));
        }
        return bits;
    }

    void add(const ColumnType& type, const Values& values, Body& body, TestFile* file, int32_t file_index) {
        const auto nulls = std::count_if(values.begin(), values.end(), [](const Value* value) { return value->null; });
        const bool is_union = type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense;
        body.nodes.push_back({static_cast<int64_t>(values.size()), is_union ? 0 : nulls});
        if (type.layout != Layout::kNull && !is_union) {
            body.buffers.push_back(nulls == 0 ? Bytes() : bitmap(values, [](const Value& v) { return !v.null; }));
        }
        if (type.layout == Layout::kDictionary) return add_dictionary(type, values, body, file, file_index);
        if (type.layout == Layout::kView) return add_views(values, body);
        std::vector<Values> children(type.children.size());
        add_buffers(type, values, body, children);
        for (size_t k = 0; k < children.size(); ++k) add(type.children[k], children[k], body, file, file_index);
    }

    const Value* junk_value(const ColumnType& type) {
        junk_values_.push_back(std::make_unique<Value>(random_value(random_, type, 20)));
        return junk_values_.back().get();
    }

    void add_buffers(const ColumnType& type, const Values& values, Body& body, std::vector<Values>& children) {
        switch (type.layout) {
            case Layout::kBool:
                return body.buffers.push_back(
                    bitmap(values, [](const Value& v) { return !v.null && v.bytes[0] != 0; }));
            case Layout::kFixed:
                return add_fixed(type, values, body);
            case Layout::kBinary:
                return add_binary(type, values, body);
            case Layout::kList:
                return add_list(type, values, body, children[0]);
            case Layout::kFixedList:
                for (const Value* value : values) {
                    for (int64_t i = 0; i < type.list_size; ++i) {
                        children[0].push_back(value->null ? junk_value(type.children[0])
                                                          : &value->items[static_cast<size_t>(i)]);
                    }
                }
                return;
            case Layout::kStruct:
                for (size_t k = 0; k < children.size(); ++k) {
                    for (const Value* value : values) {
                        children[k].push_back(value->null ? junk_value(type.children[k]) : &value->items[k]);
                    }
                }
                return;
            case Layout::kUnionSparse:
            case Layout::kUnionDense:
                return add_union(type, values, body, children);
            default:
                return;
        }
    }

    void add_fixed(const ColumnType& type, const Values& values, Body& body) {
        Bytes data;
        for (const Value* value : values) {
            const std::string bytes = value->null ? random_bytes(random_, type.byte_width) : value->bytes;
            data.insert(data.end(), bytes.begin(), bytes.end());
        }
        body.buffers.push_back(std::move(data));
    }

    void add_binary(const ColumnType& type, const Values& values, Body& body) {
        Bytes offsets;
        const std::string prefix = junk_bytes(5);
        Bytes data(prefix.begin(), prefix.end());
        if (!values.empty()) put_offset(offsets, type.byte_width, static_cast<int64_t>(data.size()));
        for (const Value* value : values) {
            const std::string bytes = value->null ? junk_bytes(3) : value->bytes;
            data.insert(data.end(), bytes.begin(), bytes.end());
            put_offset(offsets, type.byte_width, static_cast<int64_t>(data.size()));
        }
        body.buffers.push_back(std::move(offsets));
        body.buffers.push_back(std::move(data));
    }

    void add_list(const ColumnType& type, const Values& values, Body& body, Values& items) {
        Bytes offsets;
        if (junk) items.push_back(junk_value(type.children[0]));
        if (!values.empty()) put_offset(offsets, type.byte_width, static_cast<int64_t>(items.size()));
        for (const Value* value : values) {
            for (const Value& item : value->items) items.push_back(&item);
            if (value->null && junk) items.push_back(junk_value(type.children[0]));
            put_offset(offsets, type.byte_width, static_cast<int64_t>(items.size()));
        }
        body.buffers.push_back(std::move(offsets));
    }

    void add_union(const ColumnType& type, const Values& values, Body& body, std::vector<Values>& children) {
        const bool dense = type.layout == Layout::kUnionDense;
        Bytes ids;
        Bytes offsets;
        for (const Value* value : values) {
            const auto member = static_cast<size_t>(value->member);
            put(ids, type.type_ids[member]);
            put(offsets, static_cast<int32_t>(children[member].size()));
            for (size_t k = 0; k < children.size(); ++k) {
                if (k == member) children[k].push_back(&value->items[0]);
                if (k != member && !dense) children[k].push_back(junk_value(type.children[k]));
            }
        }
        body.buffers.push_back(std::move(ids));
        if (dense) body.buffers.push_back(std::move(offsets));
    }

    void add_views(const Values& values, Body& body) {
        std::vector<Bytes> data(junk ? 3 : 1);
        Bytes views;
        for (const Value* value : values) {
            if (value->null) {
                const std::string bytes = random_bytes(random_, 16);
                views.insert(views.end(), bytes.begin(), bytes.end());
                continue;
            }
            Bytes view(16, 0);
            const auto length = static_cast<int32_t>(value->bytes.size());
            std::memcpy(view.data(), &length, 4);
            std::memcpy(view.data() + 4, value->bytes.data(),
                        std::min<size_t>(value->bytes.size(), length > 12 ? 4 : 12));
            if (length > 12) {
                const auto at = static_cast<int32_t>(below(random_, static_cast<int64_t>(data.size())));
                Bytes& to = data[static_cast<size_t>(at)];
                const std::string gap = junk_bytes(view_gap > 0 ? below(random_, view_gap) : 0);
                to.insert(to.end(), gap.begin(), gap.end());
                const auto offset = static_cast<int32_t>(to.size());
                to.insert(to.end(), value->bytes.begin(), value->bytes.end());
                std::memcpy(view.data() + 8, &at, 4);
                std::memcpy(view.data() + 12, &offset, 4);
            }
            views.insert(views.end(), view.begin(), view.end());
        }
        body.buffers.push_back(std::move(views));
        body.variadic_counts.push_back(static_cast<int32_t>(data.size()));
        for (Bytes& buffer : data) body.buffers.push_back(std::move(buffer));
    }

    void add_dictionary(const ColumnType& type, const Values& values, Body& body, TestFile* file, int32_t file_index);

  public:
    int64_t view_gap = 7;  // random bytes between view values
    int deltas = 1;        // batches per dictionary

  private:
    Random& random_;
    std::vector<DictionarySpec>& dictionaries_;
    std::vector<std::unique_ptr<Value>> junk_values_;
};

// A dictionary of its own for these rows: distinct values, some twice, one NULL, in `deltas` batches.
inline void BodyBuilder::add_dictionary(const ColumnType& type, const Values& values, Body& body, TestFile* file,
                                        int32_t file_index) {
    const ColumnType& value_type = type.children[0];
    std::vector<Value> entries;
    std::map<std::string, int64_t> index_of;
    Value null_value;
    null_value.null = true;
    const bool is_union = value_type.layout == Layout::kUnionSparse || value_type.layout == Layout::kUnionDense;
    Bytes codes;
    std::vector<int64_t> indices;
    const size_t kEntriesMax = type.byte_width == 1 ? 120 : 30000;
    for (const Value* value : values) {
        const std::string text = value->null ? "" : text_of(value->items[0], value_type);
        const bool again = junk && below(random_, 8) == 0 && entries.size() < 60;
        if (!value->null && (index_of.count(text) == 0 || again) && entries.size() < kEntriesMax) {
            index_of[text] = static_cast<int64_t>(entries.size());
            entries.push_back(!is_union && text == "null" ? null_value : value->items[0]);
        }
        // Without room for a value of their own, rows would change: tests keep below kEntriesMax distinct ones.
        indices.push_back(value->null ? -1 : index_of.at(text));
    }
    for (const int64_t index : indices) {
        const auto code = index < 0 ? random_() : static_cast<uint64_t>(index);  // anything under a NULL
        const auto* from = reinterpret_cast<const uint8_t*>(&code);
        codes.insert(codes.end(), from, from + type.byte_width);
    }
    body.buffers.push_back(std::move(codes));
    body.dictionaries.push_back(static_cast<int32_t>(dictionaries_.size()));
    DictionarySpec spec;
    spec.value_type = std::make_shared<ColumnType>(value_type);
    const size_t piece = entries.size() / static_cast<size_t>(deltas) + 1;
    for (size_t begin = 0; begin < entries.size(); begin += piece) {
        std::vector<std::vector<Value>> part(1);
        for (size_t i = begin; i < std::min(entries.size(), begin + piece); ++i) part[0].push_back(entries[i]);
        const auto rows = static_cast<int64_t>(part[0].size());
        spec.batches.push_back(batch({value_type}, part, rows, file, file_index));
    }
    dictionaries_.push_back(std::move(spec));
}

}  // namespace spillway::test
