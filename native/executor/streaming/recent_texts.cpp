// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/recent_texts.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/load.hpp"
#include "executor/streaming/text_words.hpp"

namespace spillway {

namespace {

constexpr uint64_t kWindow = 8192;            // texts after which it thinks of growing
constexpr uint64_t kPassedBy = 15 * kWindow;  // texts that are looked up in the shared table before it tries again
constexpr uint64_t kSpare = 16;               // of the memory that is free, it takes this part at most
constexpr uint64_t kWholeInWords = 16;

uint64_t mixed(uint64_t hash, uint64_t word) {
    hash ^= word;
    return (hash << 29 | hash >> 35) * 0x9e3779b97f4a7c15ULL;
}

uint64_t hash_of_words(uint64_t length, uint64_t first, uint64_t last) {
    return mixed(mixed(length, first), last);
}

}  // namespace

// With its length, the first 8 bytes and the next 8, of longer ones the last 8, tell strings of up to 16 bytes apart.
inline RecentTexts::Key RecentTexts::key_of(ByteString text, const uint8_t* readable_end) {
    const uint8_t* const p = text.bytes;
    const uint64_t length = text.length;
    Key key;
    if (reinterpret_cast<uintptr_t>(p) + kWholeInWords <= reinterpret_cast<uintptr_t>(readable_end)) {
        // No branches: lengths that change from row to row would be guessed wrong.
        key.first = load<uint64_t>(p) & kLowBytes[std::min<uint64_t>(length, 8)];
        key.last = load<uint64_t>(p + (length > kWholeInWords ? length - 8 : 8)) &
                   kLowBytes[std::min<uint64_t>(std::max<uint64_t>(length, 8) - 8, 8)];
    } else {
        key.first = padded_word(p, std::min<uint64_t>(length, 8));
        key.last = length > kWholeInWords ? load<uint64_t>(p + length - 8)
                   : length > 8           ? padded_word(p + 8, length - 8)
                                          : 0;
    }
    key.hash = hash_of_words(length, key.first, key.last);
    if (length > kWholeInWords) {
        // These words are all that lies between in texts of up to 32 bytes. Longer ones that differ elsewhere share a
        // set.
        key.hash = mixed(mixed(key.hash, load<uint64_t>(p + 8)), load<uint64_t>(p + length - 16));
        key.hash = mixed(key.hash, load<uint64_t>(p + length / 2));
    }
    return key;
}

// 0: the entry is of that string, or of one that has the same words and length.
inline uint64_t RecentTexts::difference(const Entry& entry, const Key& key, uint64_t length) {
    return (entry.first ^ key.first) | (entry.last ^ key.last) | (entry.length_and_one ^ (length + 1));
}

inline bool RecentTexts::has_bytes(const Entry& entry, ByteString text) {
    return text.length <= kWholeInWords || std::memcmp(entry.bytes, text.bytes, text.length) == 0;
}

void RecentTexts::keep(ByteString text, const Key& key, uint32_t code) {
    const bool is_whole = text.length <= kWholeInWords;
    const bool is_known = code != TextCodes::kNone;
    // Nobody keeps the bytes of a string without a number.
    if (text.length >= TextCodes::kNone || (!is_known && !is_whole)) return;
    Set& set = set_of(key.hash);
    // It may come twice among those that were looked up together.
    if (set.entries[0].code == code && (is_known || difference(set.entries[0], key, text.length) == 0)) return;
    set.entries[1] = set.entries[0];
    set.entries[0] = {key.first, key.last, is_whole ? nullptr : codes_.text(code).bytes,
                      static_cast<uint32_t>(text.length + 1), code};
}

// Two to four sets for each string there is: the others in its set are 1/4 to 1/2 on average, so that 3 to 9 strings of
// 100 share one with two or more, and are sometimes not found. Where few are found even with all sets, looking here
// costs more than it saves.
void RecentTexts::count(uint64_t texts, uint64_t missed) {
    seen_ += texts;
    missed_ += missed;
    if (seen_ < kWindow) return;
    const uint64_t sets = sets_.size();
    if (missed_ > seen_ / 16) grow(std::min(std::bit_ceil(2 * (codes_.size() + unknown_)), kSetsMax));
    if (missed_ > seen_ / 4 * 3 && sets_.size() == sets) passing_by_ = kPassedBy;
    seen_ = 0;
    missed_ = 0;
}

void RecentTexts::grow(uint64_t sets) {
    if (sets <= sets_.size() || budget_.free() / kSpare < sets * sizeof(Set)) return;
    std::optional<Reservation> reservation = budget_.try_reserve(sets * sizeof(Set));
    if (!reservation) return;
    reservation_ = std::move(*reservation);
    std::vector<Set> before(sets);
    std::swap(sets_, before);
    shift_ = 64 - static_cast<uint32_t>(std::countr_zero(sets));
    for (const Set& set : before) {
        for (const Entry* entry : {&set.entries[1], &set.entries[0]}) {
            if (entry->length_and_one == 0) continue;
            if (entry->code == TextCodes::kNone) {
                const uint64_t length = entry->length_and_one - 1;
                const uint64_t hash = hash_of_words(length, entry->first, entry->last);
                keep({nullptr, length}, {entry->first, entry->last, hash}, TextCodes::kNone);
                continue;
            }
            const ByteString text = codes_.text(entry->code);
            keep(text, key_of(text, nullptr), entry->code);
        }
    }
}

template <bool kAdds>
inline void RecentTexts::find(ByteString text, const Key& key, uint64_t at, uint32_t* codes, Missing& missing) {
    const Set& set = set_of(key.hash);
    const bool is_first = difference(set.entries[0], key, text.length) == 0;
    const Entry& entry = set.entries[is_first ? 0 : 1];
    const bool counts = !kAdds || entry.code != TextCodes::kNone;
    if ((is_first || difference(entry, key, text.length) == 0) && counts && has_bytes(entry, text)) {
        codes[at] = entry.code;
        return;
    }
    missing.texts[missing.count] = text;
    missing.keys[missing.count] = key;
    missing.at[missing.count++] = at;
}

// Where the sets are more than an L1 cache holds, all of a few texts are on their way before the first is looked into.
template <bool kAdds, class LookUp>
void RecentTexts::numbers_of(const TextBatch& batch, uint32_t* codes, const LookUp& look_up) {
    if (passing_by_ > 0) {
        passing_by_ -= std::min(passing_by_, batch.count);
        return look_up(batch.texts, batch.count, codes);
    }
    const bool is_far = sets_.size() > kSetsMin;
    Key keys[kTogether];
    Missing missing;
    uint64_t missed = 0;
    for (uint64_t done = 0; done < batch.count; done += kTogether) {
        const uint64_t together = std::min(kTogether, batch.count - done);
        const ByteString* const texts = batch.texts + done;
        missing.count = 0;
        if (is_far) {
            for (uint64_t i = 0; i < together; ++i) {
                keys[i] = key_of(texts[i], batch.readable_end);
                __builtin_prefetch(&set_of(keys[i].hash));
            }
            for (uint64_t i = 0; i < together; ++i) find<kAdds>(texts[i], keys[i], done + i, codes, missing);
        } else {
            for (uint64_t i = 0; i < together; ++i) {
                find<kAdds>(texts[i], key_of(texts[i], batch.readable_end), done + i, codes, missing);
            }
        }
        if (missing.count == 0) continue;
        missed += missing.count;
        uint32_t found[kTogether];
        look_up(missing.texts, missing.count, found);
        for (uint64_t i = 0; i < missing.count; ++i) {
            codes[missing.at[i]] = found[i];
            keep(missing.texts[i], missing.keys[i], found[i]);
            if (found[i] == TextCodes::kNone) ++unknown_;
        }
    }
    count(batch.count, missed);
}

void RecentTexts::add_all(const TextBatch& texts, uint32_t* codes) {
    numbers_of<true>(texts, codes, [this](const ByteString* missing, uint64_t missed, uint32_t* found) {
        codes_.add_all(missing, missed, found);
    });
}

void RecentTexts::find_all(const TextBatch& texts, uint32_t* codes) {
    numbers_of<false>(texts, codes, [this](const ByteString* missing, uint64_t missed, uint32_t* found) {
        codes_.find_all(missing, missed, found);
    });
}

}  // namespace spillway
