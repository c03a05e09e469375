// SPDX-License-Identifier: Apache-2.0
#include "model/row_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "model/type_size.hpp"

namespace spillway {

namespace {

KeyKind stored_kind(const KeySpec& spec) {
    return spec.kind == KeyKind::kDictionaryValue ? spec.kind_of_value : spec.kind;
}

FieldKind field_kind(const ColumnType& type) {
    if (type.layout == Layout::kNull) return FieldKind::kNull;
    if (type.is_bytes()) return FieldKind::kBytes;
    if (type.is_nested()) return FieldKind::kNested;
    return FieldKind::kFixed;
}

uint32_t fixed_width(const ColumnType& type) {
    if (type.layout == Layout::kBool) return 1;
    if (type.layout == Layout::kDictionary) return sizeof(int32_t);
    return static_cast<uint32_t>(type.byte_width);
}

// Are the values themselves in the row?
bool is_held_in_row(FieldKind kind) {
    return kind == FieldKind::kFixed || kind == FieldKind::kInlineBytes;
}

// Offsets are of 32 bits. Those of a row that is too wide wrap, and nobody sees them: check_size() throws.
uint32_t offset_of(uint64_t bytes) {
    return static_cast<uint32_t>(bytes);
}

// Fixed fields with the strictest natural alignment first, so that loads inside 8-byte aligned rows stay aligned.
uint32_t alignment_of(const RowField& field) {
    if (!is_held_in_row(field.kind)) return 8;
    for (uint32_t alignment : {8u, 4u, 2u}) {
        if (field.width % alignment == 0) return alignment;
    }
    return 1;
}

class LayoutMaker {
  public:
    LayoutMaker(const std::vector<TypePtr>& columns, RowLayout& layout) : columns_(columns), layout_(layout) {}

    void place_keys(const std::vector<KeySpec>& keys) {
        uint64_t fixed_bytes = 0;
        uint32_t mask_bits = 0;
        bool var = false;
        for (const KeySpec& spec : keys) {
            KeyPart part{spec, columns_[spec.column], 0, -1, 0};
            if (stored_kind(spec) == KeyKind::kBytes) {
                var = true;
            } else {
                fixed_bytes += static_cast<uint64_t>(spec.width);
            }
            if (layout_.null_keys == NullKeys::kEqual) part.equal_mask_bit = mask_bits++;
            layout_.keys.push_back(std::move(part));
        }
        const uint32_t mask_bytes = (mask_bits + 7) / 8;
        layout_.has_mask = mask_bytes > 0;
        layout_.mode = var ? KeyMode::kVar : fixed_bytes + mask_bytes <= 8 ? KeyMode::kWord : KeyMode::kWide;
        const bool word = layout_.mode == KeyMode::kWord;
        uint64_t at = word ? 0 : 8;
        for (KeyPart& part : layout_.keys) {
            if (stored_kind(part.spec) == KeyKind::kBytes) continue;
            part.offset = offset_of(word ? at * 8 : at);
            at += static_cast<uint64_t>(part.spec.width);
        }
        layout_.mask_offset = offset_of(word ? at * 8 : at);
        if (word) {
            end_ = 8;
            layout_.key_begin = layout_.key_end = 8;
            return;
        }
        end_ = round_up_or_max(at + mask_bytes, 8);
        layout_.key_end = offset_of(end_);
        for (KeyPart& part : layout_.keys) {
            if (stored_kind(part.spec) != KeyKind::kBytes) continue;
            part.offset = offset_of(end_);
            layout_.var_keys.push_back(part.offset);
            end_ += sizeof(VarRef);
        }
    }

    void place_fields(const std::vector<int32_t>& carry, const std::vector<int32_t>& carry_bytes) {
        SPILLWAY_CHECK(carry_bytes.empty() || carry_bytes.size() == carry.size());
        for (size_t i = 0; i < carry.size(); ++i) {
            layout_.fields.push_back(make_field(carry[i], carry_bytes.empty() ? 0 : carry_bytes[i]));
        }
        layout_.var_offsets = layout_.var_keys;
        std::vector<size_t> order(layout_.fields.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return alignment_of(layout_.fields[a]) > alignment_of(layout_.fields[b]);
        });
        for (size_t i : order) {
            RowField& field = layout_.fields[i];
            if (stored_in_key_[i] || field.kind == FieldKind::kNull) continue;
            field.offset = offset_of(end_);
            end_ += is_held_in_row(field.kind) ? field.width : sizeof(VarRef);
            if (!is_held_in_row(field.kind)) layout_.var_offsets.push_back(field.offset);
        }
        layout_.has_var = !layout_.var_offsets.empty();
        layout_.null_offset = offset_of(end_);
        layout_.null_bytes = static_cast<uint32_t>((null_bits_ + 7) / 8);
        end_ = round_up_or_max(end_ + layout_.null_bytes, 8);
        layout_.row_bytes = offset_of(end_);
    }

    void check_size() const {
        if (end_ <= kRowBytesMax) return;
        throw Error(ErrorCode::kUnsupportedType,
                    "a row of this query takes " + std::to_string(end_) +
                        " bytes beside its values of variable length (" + std::to_string(layout_.keys.size()) +
                        " key and " + std::to_string(layout_.fields.size()) + " carried columns, the widest '" +
                        widest_column() + "'), more than the " + std::to_string(kRowBytesMax) +
                        " that a row may take; name the columns you need with 'select'",
                    {{"column", widest_column()},
                     {"rowBytes", std::to_string(end_)},
                     {"largestRowBytes", std::to_string(kRowBytesMax)}});
    }

  private:
    std::string widest_column() const {
        uint32_t width = 0;
        const std::string* name = nullptr;
        const auto look = [&](uint32_t of, const TypePtr& type) {
            if (name != nullptr && of <= width) return;
            width = of;
            name = &type->name;
        };
        for (const KeyPart& part : layout_.keys) look(static_cast<uint32_t>(part.spec.width), part.type);
        for (const RowField& field : layout_.fields) look(field.width, field.type);
        return name == nullptr ? std::string() : *name;
    }

    RowField make_field(int32_t column, int32_t inline_bytes) {
        RowField field;
        field.column = column;
        stored_in_key_.push_back(false);
        if (column == kRowNumberColumn) {
            auto type = std::make_shared<ColumnType>();
            type->order = Order::kUnsigned;
            type->nullable = false;
            field.type = type;
            field.width = 8;
            return field;
        }
        field.type = columns_[column];
        field.kind = field_kind(*field.type);
        if (field.kind == FieldKind::kFixed) field.width = fixed_width(*field.type);
        KeyPart* part = find_key(column);
        if (part != nullptr) {
            use_key_storage(field, *part);
        } else if (field.kind == FieldKind::kBytes && inline_bytes > 0) {
            field.kind = FieldKind::kInlineBytes;
            field.width = static_cast<uint32_t>(inline_bytes);
        }
        const bool never_null = !field.type->nullable || field.kind == FieldKind::kNull ||
                                (layout_.null_keys == NullKeys::kDrop && key_column(column));
        if (!never_null) {
            field.null_bit = null_bit_of(column);
            for (KeyPart& key : layout_.keys) {
                if (key.spec.column == column) key.null_bit = field.null_bit;
            }
        }
        return field;
    }

    void use_key_storage(RowField& field, const KeyPart& part) {
        stored_in_key_.back() = true;
        if (part.spec.kind == KeyKind::kInlineBytes) {
            field.kind = FieldKind::kInlineBytes;
            field.width = static_cast<uint32_t>(part.spec.width);
        }
        if (layout_.mode == KeyMode::kWord) {
            field.in_key_word = true;
            field.key_shift = part.offset;
        } else {
            field.offset = part.offset;
        }
    }

    // A key part whose normalization can be undone: little-endian widening keeps the value in the low bytes.
    KeyPart* find_key(int32_t column) {
        for (KeyPart& part : layout_.keys) {
            const KeyKind kind = part.spec.kind;
            if (part.spec.column == column && kind != KeyKind::kFloat && kind != KeyKind::kDictionaryValue)
                return &part;
        }
        return nullptr;
    }

    bool key_column(int32_t column) const {
        return std::any_of(layout_.keys.begin(), layout_.keys.end(),
                           [&](const KeyPart& part) { return part.spec.column == column; });
    }

    int32_t null_bit_of(int32_t column) {
        auto [place, added] = null_bit_of_column_.try_emplace(column, null_bits_);
        if (added) ++null_bits_;
        return place->second;
    }

    const std::vector<TypePtr>& columns_;
    RowLayout& layout_;
    uint64_t end_ = 8;
    int32_t null_bits_ = 0;
    std::vector<bool> stored_in_key_;
    std::map<int32_t, int32_t> null_bit_of_column_;
};

}  // namespace

RowLayout RowLayout::make(const std::vector<TypePtr>& columns, const std::vector<KeySpec>& keys,
                          const std::vector<int32_t>& carry, NullKeys null_keys,
                          const std::vector<int32_t>& carry_bytes) {
    RowLayout layout;
    layout.null_keys = null_keys;
    LayoutMaker maker(columns, layout);
    maker.place_keys(keys);
    maker.place_fields(carry, carry_bytes);
    maker.check_size();
    return layout;
}

}  // namespace spillway
