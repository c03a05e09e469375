// SPDX-License-Identifier: Apache-2.0
#include "generate/relation_generator.hpp"

#include <algorithm>
#include <cstring>

#include "generate/generated_batch.hpp"
#include "generate/key_generator.hpp"
#include "generate/ordered_delivery.hpp"
#include "generate/payload.hpp"

namespace spillway {

namespace {

// What a row's payload depends on: its number, or the value of its key column.
struct RowNumbers {
    uint64_t first;
    uint64_t operator()(int64_t i) const { return first + static_cast<uint64_t>(i); }
};
template <class Key>
struct KeyValues {
    const uint8_t* keys;
    uint64_t operator()(int64_t i) const {
        Key key;
        std::memcpy(&key, keys + i * static_cast<int64_t>(sizeof key), sizeof key);
        return static_cast<uint64_t>(static_cast<int64_t>(key));
    }
};

template <class Value, class Identity, class ValueOfWord>
void fill_values(uint8_t* out, int64_t rows, int32_t column, Identity identity, ValueOfWord value_of_word) {
    for (int64_t i = 0; i < rows; ++i) {
        const auto value = static_cast<Value>(value_of_word(payload_word(identity(i), column)));
        std::memcpy(out + i * static_cast<int64_t>(sizeof value), &value, sizeof value);
    }
}

template <class Identity>
void fill_ints(uint8_t* out, int64_t rows, int32_t column, int32_t width, Identity identity) {
    switch (width) {
        case 1:
            return fill_values<int8_t>(out, rows, column, identity, [](uint64_t w) { return payload_int(w, 1); });
        case 2:
            return fill_values<int16_t>(out, rows, column, identity, [](uint64_t w) { return payload_int(w, 2); });
        case 4:
            return fill_values<int32_t>(out, rows, column, identity, [](uint64_t w) { return payload_int(w, 4); });
        default:
            return fill_values<int64_t>(out, rows, column, identity, [](uint64_t w) { return payload_int(w, 8); });
    }
}

template <class Identity>
void fill_payload(const GeneratedColumn& spec, int32_t column, OutputColumn& out, Identity identity) {
    uint8_t* data = out.data.data();
    switch (spec.kind) {
        case GeneratedKind::kInt:
            return fill_ints(data, out.length, column, spec.width, identity);
        case GeneratedKind::kFloat:
            if (spec.width == 8) return fill_values<double>(data, out.length, column, identity, payload_float);
            return fill_values<float>(data, out.length, column, identity, payload_float);
        case GeneratedKind::kUtf8: {
            TextWriter text(out);
            for (int64_t i = 0; i < out.length; ++i) {
                text.append(payload_text(payload_word(identity(i), column), spec.width));
            }
            text.finish();
        }
    }
}

void fill_batch(const GenerateSpec& spec, const KeyGenerator& keys, int64_t batch, OutputBatch& out) {
    const int64_t first_row = batch * spec.batch_rows;
    uint8_t* key_column = out.columns[0].data.data();
    keys.fill(first_row, out.rows, key_column);
    for (size_t i = 0; i < spec.payload.size(); ++i) {
        OutputColumn& column = out.columns[i + 1];
        const auto number = static_cast<int32_t>(i);
        if (spec.key.role == KeyRole::kForeign) {
            fill_payload(spec.payload[i], number, column, RowNumbers{static_cast<uint64_t>(first_row)});
        } else if (spec.key.width == 8) {
            fill_payload(spec.payload[i], number, column, KeyValues<int64_t>{key_column});
        } else {
            fill_payload(spec.payload[i], number, column, KeyValues<int32_t>{key_column});
        }
    }
}

}  // namespace

int64_t generate_relation(const GenerateSpec& spec, MemoryBudget& budget, JobControl& control, BatchSink& sink) {
    check_spec(spec);
    const KeyGenerator keys(spec);
    BatchRecipe recipe;
    recipe.columns = generated_columns(spec);
    recipe.text_bytes_max = {0};
    for (const auto& column : spec.payload) {
        recipe.text_bytes_max.push_back(column.kind == GeneratedKind::kUtf8 ? payload_text_length_max(column.width)
                                                                            : 0);
    }
    recipe.batches = (spec.rows + spec.batch_rows - 1) / spec.batch_rows;
    recipe.workers = spec.workers;
    recipe.rows = [&](int64_t batch) { return std::min(spec.batch_rows, spec.rows - batch * spec.batch_rows); };
    recipe.fill = [&](int64_t batch, OutputBatch& out) { fill_batch(spec, keys, batch, out); };
    return deliver_in_order(recipe, budget, control, sink);
}

}  // namespace spillway
