// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/key_match.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "cpu/row/key_normalizer.hpp"

namespace spillway {

namespace {

KeyKind value_kind(const KeySpec& spec) {
    return spec.kind == KeyKind::kDictionaryValue ? spec.kind_of_value : spec.kind;
}

// Fixed-size bytes are compared where they lie.
bool is_wide(const KeyPart& part) {
    return value_kind(part.spec) == KeyKind::kFixedBytes && part.spec.width > 8;
}

}  // namespace

KeyMatch::KeyMatch(std::vector<KeyPart> left, std::vector<KeyPart> right)
    : left_(std::move(left)), right_(std::move(right)) {
    SPILLWAY_CHECK(left_.size() == right_.size());
    size_t widest = 0;
    for (size_t p = 0; p < left_.size(); ++p) {
        SPILLWAY_CHECK(value_kind(left_[p].spec) == value_kind(right_[p].spec));
        SPILLWAY_CHECK(left_[p].spec.width == right_[p].spec.width);
        if (!is_wide(left_[p])) widest = std::max(widest, static_cast<size_t>(left_[p].spec.width));
    }
    for (auto& values : values_) values.resize(widest);
}

bool KeyMatch::equal(size_t p, const ValuePlace& left, const ValuePlace& right) {
    const bool valid = left.view->is_valid(left.row);
    if (valid != right.view->is_valid(right.row)) return false;
    if (!valid) return true;
    if (value_kind(left_[p].spec) == KeyKind::kBytes) {
        const ByteString a = key_byte_string(left_[p], *left.view, left.row);
        const ByteString b = key_byte_string(right_[p], *right.view, right.row);
        return a.length == b.length && (a.length == 0 || std::memcmp(a.bytes, b.bytes, a.length) == 0);
    }
    const auto width = static_cast<uint32_t>(left_[p].spec.width);
    if (is_wide(left_[p])) {
        return std::memcmp(fixed_key(left_[p], *left.view, left.row), fixed_key(right_[p], *right.view, right.row),
                           width) == 0;
    }
    normalize_bytes(left_[p], *left.view, {left.row, nullptr, 1}, values_[0].data(), width);
    normalize_bytes(right_[p], *right.view, {right.row, nullptr, 1}, values_[1].data(), width);
    return std::memcmp(values_[0].data(), values_[1].data(), width) == 0;
}

}  // namespace spillway
