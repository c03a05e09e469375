// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <type_traits>

#include "base/bit_range.hpp"
#include "transfer/slice_reader.hpp"

namespace spillway {

template <class Code>
void SliceReader::remap_codes(const Slice& slice, uint64_t values, const int32_t* table, const uint8_t* codes,
                              NodeScratch& scratch, ColumnView& view) {
    auto* out = reinterpret_cast<int32_t*>(reserve(scratch.data, static_cast<uint64_t>(slice.rows) * 4));
    bool found_null = false;
    for (int64_t i = 0; i < slice.rows; ++i) {
        if (!view.is_valid(i)) {  // what lies under a NULL is arbitrary
            out[i] = 0;
            continue;
        }
        Code code;
        std::memcpy(&code, codes + i * static_cast<int64_t>(sizeof code), sizeof code);
        const auto index = static_cast<uint64_t>(code);  // negative: wraps above any size
        if (index >= values) {
            throw slice.corrupt("has dictionary index " + std::to_string(code) + " in row " +
                                std::to_string(slice.row + i) + ", its dictionary has " + std::to_string(values) +
                                " values");
        }
        out[i] = table == nullptr ? static_cast<int32_t>(index) : table[index];
        found_null |= out[i] < 0;
    }
    view.data = reinterpret_cast<const uint8_t*>(out);
    if (!found_null) return;
    // Rows that point to a NULL value are NULL as well: a bitmap of our own.
    uint8_t* bits = reserve(scratch.bytes, static_cast<uint64_t>(bitmap_bytes(slice.rows)));
    if (view.validity == nullptr) {
        fill_bits(bits, 0, slice.rows, true);
    } else {
        copy_bits_aligned(view.validity, view.validity_bit, slice.rows, bits);
    }
    for (int64_t i = 0; i < slice.rows; ++i) {
        if (out[i] >= 0) continue;
        clear_bit(bits, i);
        out[i] = 0;
    }
    view.validity = bits;
    view.validity_bit = 0;
}

void SliceReader::read_dictionary(const Slice& slice, NodeScratch& scratch, ColumnView& view) {
    const DictionaryGroup& group = *parts_.groups[static_cast<size_t>(slice.plan.group)];
    const DictionaryRef ref = slice.batch.dictionaries[slice.plan.dictionary];
    uint64_t values = 0;
    const int32_t* table = nullptr;
    if (ref.source >= 0) {
        values = static_cast<uint64_t>(parts_.values[static_cast<size_t>(ref.source)].rows_of(ref.version).rows);
        const DictionaryRemap& remap = group.remaps.at(ref.source);
        const int64_t start = remap.starts[static_cast<size_t>(ref.version)];
        SPILLWAY_CHECK(start != DictionaryRemap::kUnused);
        if (start >= 0) table = remap.entries.data() + start;
    }
    const int32_t width = slice.plan.type->byte_width;
    const uint8_t* codes =
        fetch_structure(slice, slice.buffer(1), slice.row * width, slice.rows * width, scratch.codes);
    const bool is_unsigned = slice.plan.type->order == Order::kUnsigned;
    switch (width) {
        case 1:
            return is_unsigned ? remap_codes<uint8_t>(slice, values, table, codes, scratch, view)
                               : remap_codes<int8_t>(slice, values, table, codes, scratch, view);
        case 2:
            return is_unsigned ? remap_codes<uint16_t>(slice, values, table, codes, scratch, view)
                               : remap_codes<int16_t>(slice, values, table, codes, scratch, view);
        case 4:
            return is_unsigned ? remap_codes<uint32_t>(slice, values, table, codes, scratch, view)
                               : remap_codes<int32_t>(slice, values, table, codes, scratch, view);
        default:
            return is_unsigned ? remap_codes<uint64_t>(slice, values, table, codes, scratch, view)
                               : remap_codes<int64_t>(slice, values, table, codes, scratch, view);
    }
}

}  // namespace spillway
