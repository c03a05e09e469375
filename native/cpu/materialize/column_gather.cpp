// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/column_gather.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "cpu/row/nested_codec.hpp"
#include "cpu/row/strided_copy.hpp"

namespace spillway {

namespace {

uint32_t fixed_width(const ColumnType& type) {
    if (type.layout == Layout::kBool) return 1;
    if (type.layout == Layout::kDictionary) return sizeof(int32_t);
    return type.layout == Layout::kFixed ? static_cast<uint32_t>(type.byte_width) : 0;
}

constexpr const char* kPurpose = "gathered values";
constexpr int64_t kCopiedBytesMax = 64 << 10;  // unless a single value has more

// Values that are copied at a time: all of a block, fewer of wide ones.
int64_t copied_rows(uint32_t width) {
    return std::clamp<int64_t>(kCopiedBytesMax / std::max<uint32_t>(width, 1), 1, ColumnGather::kRowsMax);
}

}  // namespace

ColumnGather::Kind ColumnGather::kind_of(const ColumnType& type) {
    if (type.layout == Layout::kNull) return Kind::kNull;
    if (type.layout == Layout::kBool) return Kind::kBool;
    if (type.is_bytes()) return Kind::kBytes;
    return type.is_nested() ? Kind::kNested : Kind::kFixed;
}

ColumnGather::ColumnGather(TypePtr type, MemoryBudget& budget)
    : kind_(kind_of(*type)),
      width_(fixed_width(*type)),
      copied_rows_(copied_rows(width_)),
      budget_(budget),
      builder_(std::move(type), budget, 0) {
    if (kind_ == Kind::kNull) return;
    if (is_variable()) {
        lengths_.resize(kRowsMax);
    } else {
        values_ = Buffer::allocate(budget_, static_cast<uint64_t>(copied_rows_) * width_, kPurpose);
        valid_.resize(static_cast<size_t>(copied_rows_));
    }
    if (kind_ != Kind::kNested) addresses_.resize(kRowsMax);
}

void ColumnGather::find(const ValuePlace* places, int64_t count) {
    SPILLWAY_CHECK(count <= kRowsMax);
    places_ = places;
    if (kind_ == Kind::kBytes) return find_bytes(count);
    if (kind_ == Kind::kNested) {
        for (int64_t i = 0; i < count; ++i) {
            lengths_[i] = is_null(i) ? 0 : encoded_bytes(*places_[i].view, places_[i].row, budget_);
        }
    } else if (kind_ == Kind::kFixed) {
        for (int64_t i = 0; i < count; ++i) {
            const ColumnView* const view = places_[i].view;
            addresses_[i] = view == nullptr ? nullptr : view->data + places_[i].row * width_;
            __builtin_prefetch(addresses_[i]);
        }
    }
}

void ColumnGather::find_bytes(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const ColumnView* const view = places_[i].view;
        if (view == nullptr) continue;
        const bool entries = view->type->layout == Layout::kView;
        __builtin_prefetch(entries ? view->data + places_[i].row * 16
                                   : view->offsets + places_[i].row * view->type->byte_width);
    }
    for (int64_t i = 0; i < count; ++i) {
        ByteString value{nullptr, 0};
        if (!is_null(i)) value = byte_string(*places_[i].view, places_[i].row);
        addresses_[i] = value.bytes;
        lengths_[i] = value.length;
        __builtin_prefetch(value.bytes);
    }
}

void ColumnGather::reserve(int64_t begin, int64_t count) {
    uint64_t bytes = 0;
    for (int64_t i = begin; is_variable() && i < begin + count; ++i) bytes += lengths_[i];
    builder_.reserve(count, bytes);
}

void ColumnGather::append(int64_t begin, int64_t count) {
    if (!is_variable() && kind_ != Kind::kNull) {
        for (int64_t done = 0; done < count; done += copied_rows_) {
            append_fixed(begin + done, std::min(copied_rows_, count - done));
        }
        return;
    }
    for (int64_t i = begin; i < begin + count; ++i) {
        if (kind_ == Kind::kNull || is_null(i)) {
            builder_.append_null();
        } else if (kind_ == Kind::kBytes) {
            builder_.append_bytes(addresses_[i], lengths_[i]);
        } else {
            append_nested(i);
        }
    }
}

void ColumnGather::append_nested(int64_t i) {
    const ValuePlace& place = places_[i];
    const std::string purpose = "nested values of column '" + place.view->type->name + "'";
    values_.renew(budget_, lengths_[i], purpose.c_str());
    encode_value(*place.view, place.row, values_.data());
    builder_.append_bytes(values_.data(), lengths_[i]);
}

void ColumnGather::append_fixed(int64_t begin, int64_t count) {
    bool all_valid = true;
    for (int64_t i = 0; i < count; ++i) {
        const bool null = is_null(begin + i);
        valid_[i] = null ? 0 : 1;
        all_valid = all_valid && !null;
    }
    if (kind_ == Kind::kBool) {
        for (int64_t i = 0; i < count; ++i) {
            const ValuePlace& place = places_[begin + i];
            values_.data()[i] = valid_[i] != 0 && get_bit(place.view->data, place.view->data_bit + place.row) ? 1 : 0;
        }
    } else {
        const uint8_t* const* const from = addresses_.data() + begin;
        const auto copy = [&](auto width) {
            uint8_t* out = values_.data();
            for (int64_t i = 0; i < count; ++i, out += width()) {
                if (valid_[i] == 0) {
                    std::memset(out, 0, width());
                } else {
                    std::memcpy(out, from[i], width());
                }
            }
        };
        const bool known = with_width(width_, [&]<uint32_t W>() { copy([] { return W; }); });
        if (!known) copy([this] { return width_; });
    }
    builder_.append_fixed(values_.data(), all_valid ? nullptr : valid_.data(), count);
}

}  // namespace spillway
