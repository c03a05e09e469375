// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/key_tuples.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "executor/streaming/join_spec.hpp"

namespace spillway {

namespace {

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
        bytes += is_text_key(key) ? kTextCodeBytes : static_cast<uint32_t>(key.width);
    }
}

KeyTuples::KeyTuples(std::vector<Key> keys, bool known_only)
    : keys_(std::move(keys)), places_(specs_of(keys_)), known_only_(known_only) {}

void KeyTuples::write_texts(const ColumnView& view, int64_t begin, int64_t rows, TextNumbers& texts,
                            uint8_t* out) const {
    for (int64_t i = 0; i < rows; ++i) std::memset(out + static_cast<uint64_t>(i) * bytes(), 0, sizeof(uint32_t));
    texts.number(view, begin, rows, known_only_, [&](int64_t row, uint32_t number) {
        std::memcpy(out + static_cast<uint64_t>(row) * bytes(), &number, sizeof number);
    });
}

void KeyTuples::write(const std::vector<ColumnView>& views, int64_t begin, int64_t rows, TextNumbers* texts,
                      uint8_t* out) const {
    const RowSelection selection{begin, nullptr, rows};
    for (int64_t i = 0; i < rows; ++i) std::memset(out + static_cast<uint64_t>(i) * bytes(), 0, places_.flag_bytes);
    for (size_t k = 0; k < keys_.size(); ++k) {
        const Key& key = keys_[k];
        const ColumnView& view = views[key.view];
        uint8_t* const first = out + places_.offsets[k];
        if (is_text_key(key.part.spec)) {
            SPILLWAY_CHECK(texts != nullptr);
            write_texts(view, begin, rows, *texts, first);
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
