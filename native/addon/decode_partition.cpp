// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "addon/decode.hpp"

namespace spillway::addon {

namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr uint64_t kPageBytesMin = 1024;  // limits of PagePool
constexpr uint64_t kPageBytesMax = 2 << 20;

KeyKind decode_key_kind(const Field& field, bool of_value) {
    const KeyKind kind = field.one_of<KeyKind>({{"integer", KeyKind::kInteger},
                                                {"float", KeyKind::kFloat},
                                                {"fixedBytes", KeyKind::kFixedBytes},
                                                {"bytes", KeyKind::kBytes},
                                                {"dictionaryIndex", KeyKind::kDictionaryIndex},
                                                {"dictionaryValue", KeyKind::kDictionaryValue}});
    const bool dictionary = kind == KeyKind::kDictionaryIndex || kind == KeyKind::kDictionaryValue;
    if (of_value && dictionary) throw field.error("one of 'integer', 'float', 'fixedBytes', 'bytes'");
    return kind;
}

// Widths that the normalizer knows. Integers and floats are widened, never narrowed.
void check_key_width(const KeySpec& key, KeyKind kind, const ColumnType& type, const Field& field) {
    if (kind == KeyKind::kInteger) {
        const bool known = key.width == 1 || key.width == 2 || key.width == 4 || key.width == 8;
        const int32_t own = type.layout == Layout::kBool ? 1 : type.byte_width;
        if (!known || key.width < own) throw field.error("1, 2, 4 or 8 and no less than the width of the column");
    } else if (kind == KeyKind::kFloat) {
        const bool known = key.width == 4 || key.width == 8;
        if (!known || key.width < type.byte_width) throw field.error("4 or 8 and no less than the width of the column");
    } else if (kind == KeyKind::kFixedBytes) {
        if (key.width != type.byte_width) throw field.error(std::to_string(type.byte_width) + ", the column's width");
    }
}

// Which layouts a kind of key can read.
void check_key_layout(KeyKind kind, const ColumnType& type, const Field& field) {
    bool fits = false;
    switch (kind) {
        case KeyKind::kInteger:
            fits = type.layout == Layout::kFixed || type.layout == Layout::kBool;
            break;
        case KeyKind::kFloat:
            fits = type.layout == Layout::kFixed && type.order == Order::kFloat;
            break;
        case KeyKind::kFixedBytes:
            fits = type.layout == Layout::kFixed;
            break;
        case KeyKind::kBytes:
            fits = type.is_bytes();
            break;
        case KeyKind::kDictionaryIndex:
        case KeyKind::kDictionaryValue:
            fits = type.layout == Layout::kDictionary;
            break;
    }
    if (!fits) throw field.error("a kind that fits the layout of column '" + type.name + "'");
}

KeySpec decode_key(const Field& field, const std::vector<TypePtr>& columns) {
    Fields fields(field);
    KeySpec key;
    key.column = fields["column"].int32(0, static_cast<int32_t>(columns.size()) - 1);
    const Field kind = fields["kind"];
    const Field kind_of_value = fields["kindOfValue"];
    const Field width = fields["width"];
    key.kind = decode_key_kind(kind, false);
    key.kind_of_value = decode_key_kind(kind_of_value, true);
    key.width = width.int32(0, kInt32Max);
    fields.finish();
    const ColumnType& type = *columns[key.column];
    check_key_layout(key.kind, type, kind);
    if (key.kind == KeyKind::kDictionaryValue) {
        check_key_layout(key.kind_of_value, type.children[0], kind_of_value);
        check_key_width(key, key.kind_of_value, type.children[0], width);
    } else {
        check_key_width(key, key.kind, type, width);
    }
    return key;
}

uint64_t decode_page_bytes(const Field& field) {
    const auto bytes = static_cast<uint64_t>(field.integer(0, kSafeInteger));
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    if (!power_of_two || bytes < kPageBytesMin || bytes > kPageBytesMax) {
        throw field.error("a power of two from 1024 to 2097152");
    }
    return bytes;
}

}  // namespace

std::vector<KeySpec> decode_keys(const Field& field, const std::vector<TypePtr>& columns) {
    std::vector<KeySpec> keys;
    for (const Field& key : field.array()) keys.push_back(decode_key(key, columns));
    return keys;
}

PartitionPlan decode_partition(const Napi::Value& value, const std::string& name) {
    Fields fields(value, name);
    PartitionPlan plan;
    plan.columns = decode_columns(fields["columns"]);
    PartitionSpec& spec = plan.spec;
    spec.keys = decode_keys(fields["keys"], plan.columns);
    for (const Field& column : fields["carry"].array()) {
        spec.carry.push_back(column.int32(kRowNumberColumn, static_cast<int32_t>(plan.columns.size()) - 1));
    }
    spec.null_keys = fields["nullKeys"].one_of<NullKeys>(
        {{"drop", NullKeys::kDrop}, {"keep", NullKeys::kKeep}, {"equal", NullKeys::kEqual}});
    spec.radix_bits = fields["radixBits"].int32(0, kRadixBitsMax);
    spec.page_bytes = decode_page_bytes(fields["pageBytes"]);
    spec.pool_bytes = static_cast<uint64_t>(fields["poolBytes"].integer(0, kSafeInteger));
    spec.spill_run_bytes = static_cast<uint64_t>(fields["spillRunBytes"].integer(0, kPageBytesMax));
    spec.spill_write_bytes = static_cast<uint64_t>(fields["spillWriteBytes"].integer(0, kPageBytesMax));
    spec.spill = fields["spill"].boolean();
    spec.pack_spilled = fields["packSpilled"].boolean();
    spec.force_spill = fields["forceSpill"].boolean();
    spec.morsel_rows = fields["morselRows"].integer(1, kSafeInteger);
    spec.workers = fields["workers"].int32(1, kWorkersMax);
    spec.hash_mask = fields["hashMask"].bigint();
    fields.finish();
    return plan;
}

}  // namespace spillway::addon
