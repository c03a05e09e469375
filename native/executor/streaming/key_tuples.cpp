// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/key_tuples.hpp"

#include <cstring>
#include <utility>

#include "executor/streaming/join_spec.hpp"

namespace spillway {

namespace {

constexpr uint64_t kTextsTogether = 256;

std::vector<KeySpec> specs_of(const std::vector<KeyTuples::Key>& keys) {
    std::vector<KeySpec> specs;
    for (const KeyTuples::Key& key : keys) specs.push_back(key.part.spec);
    return specs;
}

}  // namespace

TuplePlaces::TuplePlaces(const std::vector<KeySpec>& keys) : flag_bytes(static_cast<uint32_t>((keys.size() + 7) / 8)) {
    bytes = flag_bytes;
    for (const KeySpec& key : keys) {
        offsets.push_back(bytes);
        bytes += packed_key_width(key);
    }
}

KeyTuples::KeyTuples(std::vector<Key> keys, TextCodes& codes, bool known_only)
    : keys_(std::move(keys)), places_(specs_of(keys_)), codes_(codes), known_only_(known_only) {}

void KeyTuples::write_texts(const Key& key, const ColumnView& view, const RowSelection& selection, uint8_t* out) const {
    ByteString texts[kTextsTogether];
    int64_t valid_rows[kTextsTogether];
    uint32_t codes[kTextsTogether];
    for (int64_t row = 0; row < selection.count;) {
        uint64_t valid = 0;
        for (; row < selection.count && valid < kTextsTogether; ++row) {
            std::memset(out + static_cast<uint64_t>(row) * bytes(), 0, sizeof(uint32_t));
            if (!view.is_valid(selection[row])) continue;
            texts[valid] = key_byte_string(key.part, view, selection[row]);
            valid_rows[valid++] = row;
        }
        if (known_only_) {
            codes_.find_all(texts, valid, codes);
        } else {
            codes_.add_all(texts, valid, codes);
        }
        for (uint64_t i = 0; i < valid; ++i) {
            std::memcpy(out + static_cast<uint64_t>(valid_rows[i]) * bytes(), codes + i, sizeof(uint32_t));
        }
    }
}

void KeyTuples::write(const std::vector<ColumnView>& views, int64_t begin, int64_t rows, uint8_t* out) const {
    const RowSelection selection{begin, nullptr, rows};
    for (int64_t i = 0; i < rows; ++i) std::memset(out + static_cast<uint64_t>(i) * bytes(), 0, places_.flag_bytes);
    for (size_t k = 0; k < keys_.size(); ++k) {
        const Key& key = keys_[k];
        const ColumnView& view = views[key.view];
        uint8_t* const first = out + places_.offsets[k];
        if (is_text_key(key.part.spec)) {
            write_texts(key, view, selection, first);
        } else {
            normalize_bytes(key.part, view, selection, first, bytes());
        }
        if (view.validity == nullptr) continue;
        for (int64_t i = 0; i < rows; ++i) {
            if (view.is_valid(begin + i)) continue;
            out[static_cast<uint64_t>(i) * bytes() + k / 8] |= static_cast<uint8_t>(1U << (k % 8));
        }
    }
}

}  // namespace spillway
