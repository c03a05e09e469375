// SPDX-License-Identifier: Apache-2.0
#include "executor/device/upload_column.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bit_range.hpp"
#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "executor/arrow_buffers.hpp"

namespace spillway {

namespace {

void store_offset(uint8_t* offsets, int64_t row, uint64_t offset) {
    std::memcpy(offsets + row * static_cast<int64_t>(sizeof offset), &offset, sizeof offset);
}

struct Bytes {
    const uint8_t* data = nullptr;
    uint64_t length = 0;
};

constexpr int32_t kViewBytes = 16;
constexpr int32_t kInlineMax = 12;

Bytes view_value(const ColumnView& view, int64_t row) {
    if (!view.is_valid(row)) return {};
    const uint8_t* const at = view.data + row * kViewBytes;
    int32_t words[4];  // length, prefix, buffer, offset
    std::memcpy(words, at, sizeof words);
    const auto length = static_cast<uint64_t>(words[0]);
    if (words[0] <= kInlineMax) return {at + 4, length};
    return {view.view_buffers[static_cast<size_t>(words[2])] + words[3], length};
}

int32_t code_of(const ColumnView& view, int64_t row) {
    int32_t code;
    std::memcpy(&code, view.data + row * static_cast<int64_t>(sizeof code), sizeof code);
    return code;
}

const ColumnView& values_of(const ColumnView& view) {
    return view.type->dictionary->values;
}

Bytes decoded_value(const ColumnView& view, int64_t row) {
    if (!view.is_valid(row)) return {};
    const ColumnView& values = values_of(view);
    const int32_t code = code_of(view, row);
    const int64_t begin = load_offset(values.offsets, code, values.type->byte_width);
    const int64_t end = load_offset(values.offsets, code + 1, values.type->byte_width);
    return {values.data + (begin - values.offset_base), static_cast<uint64_t>(end - begin)};
}

template <class Value>
bool stage_values(int64_t rows, const ChunkPlace& place, int64_t at, Value value_at) {
    for (int64_t i = 0; i < rows; ++i) {
        store_offset(place.values, at + i, place.text->position());
        const Bytes value = value_at(i);
        if (!place.text->append(value.data, value.length)) return false;
    }
    return true;
}

// The bytes of consecutive values lie together, those of NULLs too: one copy.
bool stage_binary(const ColumnView& view, int64_t rows, const ChunkPlace& place, int64_t at) {
    const int32_t width = view.type->byte_width;
    const int64_t first = load_offset(view.offsets, 0, width);
    const uint64_t base = place.text->position() - static_cast<uint64_t>(first);
    for (int64_t i = 0; i < rows; ++i) {
        store_offset(place.values, at + i, base + static_cast<uint64_t>(load_offset(view.offsets, i, width)));
    }
    const int64_t last = load_offset(view.offsets, rows, width);
    return place.text->append(view.data + (first - view.offset_base), static_cast<uint64_t>(last - first));
}

void stage_decoded(const UploadPlan& plan, const ColumnView& view, int64_t rows, uint8_t* out) {
    const ColumnView& values = values_of(view);
    const size_t width = plan.column.width;
    for (int64_t i = 0; i < rows; ++i, out += width) {
        if (!view.is_valid(i)) {
            std::memset(out, 0, width);
        } else if (plan.form == UploadForm::kDecodedBits) {
            *out = get_bit(values.data, values.data_bit + code_of(view, i)) ? 1 : 0;
        } else {
            std::memcpy(out, values.data + static_cast<size_t>(code_of(view, i)) * width, width);
        }
    }
}

void stage_validity(const ColumnView& view, int64_t rows, uint8_t* validity, int64_t at) {
    if (view.validity == nullptr) {
        fill_bits(validity, at, rows, true);
    } else {
        copy_bits(view.validity, view.validity_bit, rows, validity, at);
    }
}

UploadForm form_of(const ColumnType& type) {
    switch (type.layout) {
        case Layout::kNull:
            return UploadForm::kNothing;
        case Layout::kBool:
            return UploadForm::kBits;
        case Layout::kBinary:
            return UploadForm::kBinary;
        case Layout::kView:
            return UploadForm::kViews;
        default:
            return UploadForm::kFixed;
    }
}

UploadForm decoded(UploadForm form) {
    switch (form) {
        case UploadForm::kBits:
            return UploadForm::kDecodedBits;
        case UploadForm::kBinary:
        case UploadForm::kViews:
            return UploadForm::kDecodedBytes;
        default:
            return UploadForm::kDecodedFixed;
    }
}

}  // namespace

UploadPlan upload_plan(const ColumnType& type, bool decode) {
    UploadPlan plan;
    const bool dictionary = type.layout == Layout::kDictionary;
    const ColumnType& values = dictionary && decode ? type.children[0] : type;
    plan.form = form_of(values);
    plan.column.nullable = type.nullable || values.layout == Layout::kNull;
    if (values.is_bytes()) {
        plan.column.kind = cuda::ColumnKind::kBytes;
    } else {
        const bool byte = values.layout == Layout::kBool || values.layout == Layout::kNull;
        plan.column.width = byte                    ? 1
                            : dictionary && !decode ? sizeof(int32_t)
                                                    : static_cast<uint32_t>(values.byte_width);
    }
    if (dictionary && decode) plan.form = decoded(plan.form);
    return plan;
}

void TextStream::start(uint64_t at, uint8_t* area, uint64_t area_bytes) {
    at_ = at;
    area_ = area;
    area_bytes_ = area_bytes;
    run_ = nullptr;
    run_bytes_ = 0;
}

bool TextStream::append(const uint8_t* from, uint64_t bytes) {
    if (bytes == 0) return true;
    if (area_ != nullptr) {
        if (bytes > area_bytes_ - run_bytes_) return false;
        std::memcpy(area_ + run_bytes_, from, bytes);
        run_bytes_ += bytes;
        return true;
    }
    while (bytes > 0) {
        if (run_ == nullptr && staging_.left() < 2 * LaneStaging::kAlignBytes) staging_.turn();
        const uint64_t most = run_ == nullptr ? staging_.left() - LaneStaging::kAlignBytes : staging_.left();
        const uint64_t part = std::min(bytes, most);
        uint8_t* const room = part == 0 ? nullptr : staging_.take(part, run_ == nullptr ? at_ : position());
        if (room == nullptr) {  // the half is full
            flush();
            staging_.turn();
            continue;
        }
        std::memcpy(room, from, part);
        if (run_ == nullptr) run_ = room;
        run_bytes_ += part;
        from += part;
        bytes -= part;
    }
    return true;
}

void TextStream::flush() {
    if (area_ != nullptr || run_bytes_ == 0) return;
    const cuda::TableCopy run = copy();
    device_call(control_, [&] { lane_.send(staging_.slot(), table_, {run}); });
    at_ += run_bytes_;
    run_ = nullptr;
    run_bytes_ = 0;
}

cuda::TableCopy TextStream::copy() const {
    cuda::TableCopy made;
    made.column = static_cast<uint32_t>(column_);
    made.offset_bytes = at_;
    made.bytes = run_bytes_;
    made.host = area_ != nullptr ? area_ : run_;
    return made;
}

bool stage_rows(const UploadPlan& plan, const ColumnView& view, int64_t rows, const ChunkPlace& place, int64_t at) {
    if (plan.column.nullable) stage_validity(view, rows, place.validity, at);
    if (place.packer != nullptr) {
        place.packer->append(view.data, static_cast<uint64_t>(rows));
        return true;
    }
    uint8_t* const out = place.values + at * static_cast<int64_t>(plan.row_bytes());
    const size_t bytes = static_cast<size_t>(rows) * plan.row_bytes();
    bool fits = true;
    switch (plan.form) {
        case UploadForm::kFixed:
            std::memcpy(out, view.data, bytes);
            break;
        case UploadForm::kNothing:
            std::memset(out, 0, bytes);
            break;
        case UploadForm::kBits:
            for (int64_t i = 0; i < rows; ++i) out[i] = get_bit(view.data, view.data_bit + i) ? 1 : 0;
            break;
        case UploadForm::kBinary:
            fits = stage_binary(view, rows, place, at);
            break;
        case UploadForm::kViews:
            fits = stage_values(rows, place, at, [&](int64_t row) { return view_value(view, row); });
            break;
        case UploadForm::kDecodedBytes:
            fits = stage_values(rows, place, at, [&](int64_t row) { return decoded_value(view, row); });
            break;
        case UploadForm::kDecodedFixed:
        case UploadForm::kDecodedBits:
            stage_decoded(plan, view, rows, out);
            break;
    }
    if (place.text != nullptr) place.text->flush();
    return fits;
}

uint64_t decoded_bytes(const ColumnView& view, int64_t rows) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < rows; ++i) bytes = add_or_max(bytes, decoded_value(view, i).length);
    return bytes;
}

}  // namespace spillway
