// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/local_dictionary.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash.hpp"
#include "base/load.hpp"
#include "cpu/group_by/row_block.hpp"
#include "cpu/row/inline_text.hpp"

namespace spillway {

namespace {

constexpr uint32_t kNoCode = ~0U;
constexpr uint32_t kNoLength = ~0U;
constexpr uint64_t kFirstTextSlots = 1024;
constexpr uint64_t kFirstTextBytes = 16 << 10;
constexpr uint64_t kProbesMax = 64;  // only texts that were made for it need more
// Rows whose copies of texts are waited for together.
constexpr int64_t kTogether = 64;

// Texts of 60 bytes, 5, 300 and 10,000 of them: 8.7, 11.0 and 14.9 ns a row; 10.1, 14.8 and 18.5 without; as much or
// more with 1024 or 4096.
constexpr uint64_t kBytesAhead = 2048;

uint64_t fold_product(uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint32_t upper_half(uint64_t word) {
    return static_cast<uint32_t>(word >> 32);
}

constexpr uint64_t kFirstFactor = 0xe7037ed1a0b428dbULL;
constexpr uint64_t kSecondFactor = 0x8ebc6af09c88c6e3ULL;
constexpr uint64_t kLengthFactor = 0xa0761d6478bd642fULL;

// A hash of all bytes, whose steps are the same for all lengths of a class: loads of the end overlap those before.
[[gnu::always_inline]] inline uint32_t hash_of(ByteString text) {
    const uint8_t* p = text.bytes;
    uint64_t left = text.length;
    uint64_t a = left * kLengthFactor;
    uint64_t b = kSecondFactor;
    if (left < 8) return upper_half(fold_product(a ^ load_below_8(p, left), kFirstFactor));
    const uint8_t* const end = p + left;
    if (left < 16) return upper_half(fold_product(a ^ load_word(p), kFirstFactor ^ load_word(end - 8)));
    const auto step = [&](const uint8_t* at) {
        a = fold_product(a ^ load_word(at), kFirstFactor ^ load_word(at + 8));
        b = fold_product(b ^ load_word(at + 16), kSecondFactor ^ load_word(at + 24));
    };
    if (left < 32) {
        a = fold_product(a ^ load_word(p), kFirstFactor ^ load_word(p + 8));
        b = fold_product(b ^ load_word(end - 16), kSecondFactor ^ load_word(end - 8));
    } else {
        for (; left > 64; p += 32, left -= 32) step(p);
        step(p);
        step(end - 32);
    }
    return upper_half(fold_product(a, b ^ kLengthFactor));
}

bool differ_16(const uint8_t* a, const uint8_t* b) {
    return ((load_word(a) ^ load_word(b)) | (load_word(a + 8) ^ load_word(b + 8))) != 0;
}

// Of `length` bytes both.
[[gnu::always_inline]] inline bool same_bytes(const uint8_t* a, const uint8_t* b, uint64_t length) {
    if (length > 64) return std::memcmp(a, b, length) == 0;
    const uint64_t last = length - 16;
    if (length >= 32) {
        return !(differ_16(a, b) | differ_16(a + 16, b + 16) | differ_16(a + last - 16, b + last - 16) |
                 differ_16(a + last, b + last));
    }
    if (length >= 16) return !(differ_16(a, b) | differ_16(a + last, b + last));
    if (length >= 8) {
        return ((load_word(a) ^ load_word(b)) | (load_word(a + length - 8) ^ load_word(b + length - 8))) == 0;
    }
    return load_below_8(a, length) == load_below_8(b, length);
}

struct TextsOfAnyLength {
    static constexpr bool kOfNulls = false;  // what lies there may be anything
    static uint32_t hash(ByteString text) { return hash_of(text); }
    static bool equal(const uint8_t* known, ByteString text) { return same_bytes(known, text.bytes, text.length); }
};

template <class Offset>
struct OffsetTexts : TextsOfAnyLength {
    explicit OffsetTexts(const ColumnView& view) : view(view) {}
    ByteString operator[](int64_t row) const {
        const auto begin = load<Offset>(view.offsets, row);
        return {view.data + (begin - view.offset_base),
                static_cast<uint64_t>(load<Offset>(view.offsets, row + 1) - begin)};
    }
    // The processor's own prefetching ends while the copies of texts are compared, and at the end of each page.
    static void prefetch(ByteString text) {
        __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(text.bytes) + kBytesAhead));
    }

    const ColumnView& view;
};

struct ViewTexts : TextsOfAnyLength {
    explicit ViewTexts(const ColumnView& view) : view(view) {}
    ByteString operator[](int64_t row) const { return byte_string(view, row); }
    static void prefetch(ByteString) {}

    const ColumnView& view;
};

// Short texts as inline_bytes() writes them, padded to words: of one length, so that no branch depends on it.
template <uint32_t kWords>
struct InlineTexts {
    static constexpr bool kOfNulls = true;
    ByteString operator[](int64_t row) const {
        return {reinterpret_cast<const uint8_t*>(values + (row - begin) * kWords), kWords * 8};
    }
    static void prefetch(ByteString) {}
    static uint32_t hash(ByteString text) {
        const uint64_t first = load_word(text.bytes);
        if constexpr (kWords == 1) return upper_half(fold_product(first ^ kLengthFactor, kFirstFactor));
        const uint64_t hash =
            fold_product(first ^ kLengthFactor, kFirstFactor ^ load_word(text.bytes + (kWords > 1 ? 8 : 0)));
        if constexpr (kWords == 2) return upper_half(hash);
        return upper_half(fold_product(hash ^ load_word(text.bytes + (kWords - 1) * 8), kSecondFactor));
    }
    static bool equal(const uint8_t* known, ByteString text) {
        uint64_t differ = 0;
        for (uint32_t at = 0; at < kWords * 8; at += 8) differ |= load_word(known + at) ^ load_word(text.bytes + at);
        return differ == 0;
    }

    const uint64_t* values;
    int64_t begin;
};

}  // namespace

bool LocalDictionary::encode(const ColumnView& view, int64_t begin, int64_t count) {
    if (slots_.bytes() == 0 && (!grow_slots() || !grow_texts(kFirstTextBytes))) return false;
    codes_.resize(std::max(codes_.size(), static_cast<size_t>(count)));
    if (inline_width_ > 0 && inline_width_ <= 8) return encode_inline<1>(view, begin, count);
    if (inline_width_ > 0 && inline_width_ <= 16) return encode_inline<2>(view, begin, count);
    if (inline_width_ > 0 && inline_width_ <= 24) return encode_inline<3>(view, begin, count);
    if (view.type->layout == Layout::kView) return encode_texts(ViewTexts(view), view, begin, count);
    if (view.type->byte_width == 8) return encode_texts(OffsetTexts<int64_t>(view), view, begin, count);
    return encode_texts(OffsetTexts<int32_t>(view), view, begin, count);
}

template <uint32_t kWords>
bool LocalDictionary::encode_inline(const ColumnView& view, int64_t begin, int64_t count) {
    values_.resize(std::max(values_.size(), static_cast<size_t>(count) * kWords));  // zeros, as padding stays
    inline_bytes(view, {begin, nullptr, count}, inline_width_, reinterpret_cast<uint8_t*>(values_.data()), kWords * 8);
    return encode_texts(InlineTexts<kWords>{values_.data(), begin}, view, begin, count);
}

template <class Texts>
bool LocalDictionary::encode_texts(const Texts& texts, const ColumnView& view, int64_t begin, int64_t count) {
    ByteString some[kTogether];
    uint32_t hashes[kTogether];
    const bool has_nulls = view.validity != nullptr;
    const bool texts_of_nulls = Texts::kOfNulls || !has_nulls;
    for (int64_t done = 0; done < count; done += kTogether) {
        const int64_t together = std::min(kTogether, count - done);
        const int64_t first = begin + done;
        uint32_t* codes = codes_.data() + done;
        for (int64_t i = 0; i < together; ++i) {
            some[i] = texts_of_nulls || view.is_valid(first + i) ? texts[first + i] : ByteString{nullptr, 0};
            texts.prefetch(some[i]);
            hashes[i] = Texts::hash(some[i]);
        }
        for (int64_t i = 0; i < together; ++i) __builtin_prefetch(entry(slots()[hashes[i] & slot_mask_]));
        for (int64_t i = 0; i < together; ++i) {
            const Entry* known = entry(slots()[hashes[i] & slot_mask_]);
            if (known->length == some[i].length && known->code != 0 && Texts::equal(known->bytes(), some[i])) {
                codes[i] = known->code;
                continue;
            }
            codes[i] = find_or_add(some[i], hashes[i]);
            if (codes[i] == kNoCode) return false;
        }
        for (int64_t i = 0; has_nulls && i < together; ++i) {
            if (!view.is_valid(first + i)) codes[i] = 0;
        }
    }
    return true;
}

uint32_t LocalDictionary::find_or_add(ByteString text, uint32_t hash) {
    uint64_t at = hash & slot_mask_;
    for (uint64_t probes = 0; slots()[at].place != 0; at = (at + 1) & slot_mask_) {
        if (++probes > kProbesMax) return kNoCode;
        if (slots()[at].hash != hash) continue;
        const Entry* known = entry(slots()[at]);
        if (known->length == text.length && same_bytes(known->bytes(), text.bytes, text.length)) return known->code;
    }
    return add(text, hash, at);
}

uint32_t LocalDictionary::add(ByteString text, uint32_t hash, uint64_t slot) {
    if (count_ == kTextsMax || text.length >= kNoLength) return kNoCode;
    const uint64_t bytes = sizeof(Entry) + (text.length + 7) / 8 * 8;
    if (texts_end_ + bytes > texts_.bytes() && !grow_texts(bytes)) return kNoCode;
    const Entry added{++count_, static_cast<uint32_t>(text.length)};
    uint8_t* place = texts_.data() + texts_end_;
    std::memcpy(place, &added, sizeof added);
    if (text.length > 0) std::memcpy(place + sizeof added, text.bytes, text.length);
    slots()[slot] = {hash, static_cast<uint32_t>(texts_end_ / 8)};
    texts_end_ += bytes;
    return count_ * 4 <= slot_mask_ || grow_slots() ? count_ : kNoCode;
}

bool LocalDictionary::make(uint64_t bytes, TableBlock& block) {
    // The rest is for the numbers and the arrays of the groups, without which codes are of no use.
    if (bytes > memory_.left_for_arrays() / 2) return false;
    try {
        block = TableBlock(memory_, bytes);
    } catch (const TableFull&) {
        return false;
    }
    return true;
}

// At most a quarter full, so that most texts are found at the first slot.
bool LocalDictionary::grow_slots() {
    const uint64_t capacity = std::max(kFirstTextSlots, slots_.bytes() / sizeof(Slot) * 4);
    TableBlock grown;
    if (!make(capacity * sizeof(Slot), grown)) return false;
    std::swap(slots_, grown);
    std::memset(slots_.data(), 0, slots_.bytes());
    slot_mask_ = capacity - 1;
    for (uint64_t i = 0; i < grown.bytes() / sizeof(Slot); ++i) {
        const auto known = load<Slot>(grown.data(), static_cast<int64_t>(i));
        if (known.place == 0) continue;
        uint64_t slot = known.hash & slot_mask_;
        while (slots()[slot].place != 0) slot = (slot + 1) & slot_mask_;
        slots()[slot] = known;
    }
    return true;
}

bool LocalDictionary::grow_texts(uint64_t bytes) {
    const uint64_t wanted = std::max(texts_.bytes() * 2, std::bit_ceil(texts_end_ + bytes));
    TableBlock grown;
    if (!make(wanted, grown)) return false;
    if (texts_end_ > 0) {
        std::memcpy(grown.data(), texts_.data(), texts_end_);
    } else {
        const Entry none{0, kNoLength};
        std::memcpy(grown.data(), &none, sizeof none);
        texts_end_ = sizeof none;
    }
    texts_ = std::move(grown);
    return true;
}

}  // namespace spillway
