// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "executor/streaming/text_codes.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

// Texts that become numbers together.
struct TextBatch {
    const ByteString* texts = nullptr;
    uint64_t count = 0;
    // Whoever made the texts promises that every byte from the begin of one to here can be read; nullptr: no more than
    // the texts themselves. Texts that lie one behind the other need no loop over their bytes then.
    const uint8_t* readable_end = nullptr;
};

// The numbers of the strings that one thread met last, in front of the table that all threads share: most columns of
// text repeat few strings, and those are found here in one cache line, by their first and last bytes. What is not here
// is looked up in that table many at a time. It grows while that helps, as far as `budget` has memory to spare. A
// string of up to 16 bytes that was looked for and has no number is remembered as such until this thread adds it.
class RecentTexts {
  public:
    RecentTexts(TextCodes& codes, MemoryBudget& budget) : codes_(codes), budget_(budget), sets_(kSetsMin) {}

    // These do what those of TextCodes do.
    void add_all(const TextBatch& texts, uint32_t* codes);
    void find_all(const TextBatch& texts, uint32_t* codes);

  private:
    static constexpr uint64_t kSetsMin = uint64_t{1} << 10;  // 64 KiB
    static constexpr uint64_t kSetsMax = uint64_t{1} << 15;  // 2 MiB, what a core has of L2 cache
    // The words are all of a string of up to 16 bytes; `bytes` are those of the shared table, for longer ones.
    struct Entry {
        uint64_t first = 0;
        uint64_t last = 0;
        const uint8_t* bytes = nullptr;
        uint32_t length_and_one = 0;  // 0: the entry is empty
        uint32_t code = TextCodes::kNone;
    };
    // A set is a cache line, whose first entry is what came last.
    struct alignas(64) Set {
        Entry entries[2];
    };
    // The first and last words of a string, and a hash of these and of what lies between.
    struct Key {
        uint64_t first;
        uint64_t last;
        uint64_t hash;
    };
    static constexpr uint64_t kTogether = 32;  // as many as the shared table looks up at a time
    // Texts of a batch that are not here.
    struct Missing {
        ByteString texts[kTogether];
        Key keys[kTogether];
        uint64_t at[kTogether];
        uint64_t count = 0;
    };
    static Key key_of(ByteString text, const uint8_t* readable_end);
    static uint64_t difference(const Entry& entry, const Key& key, uint64_t length);
    static bool has_bytes(const Entry& entry, ByteString text);

    Set& set_of(uint64_t hash) { return sets_[hash >> shift_]; }
    void keep(ByteString text, const Key& key, uint32_t code);
    void count(uint64_t texts, uint64_t missed);
    void grow(uint64_t sets);
    template <bool kAdds>
    void find(ByteString text, const Key& key, uint64_t at, uint32_t* codes, Missing& missing);
    template <bool kAdds, class LookUp>
    void numbers_of(const TextBatch& texts, uint32_t* codes, const LookUp& look_up);

    TextCodes& codes_;
    MemoryBudget& budget_;
    Reservation reservation_;
    std::vector<Set> sets_;
    uint32_t shift_ = 64 - 10;
    // These count texts since it last thought of growing, and those of them that were not here.
    uint64_t seen_ = 0;
    uint64_t missed_ = 0;
    uint64_t passing_by_ = 0;  // that it does not look for
    uint64_t unknown_ = 0;     // strings without a number that it has remembered
};

}  // namespace spillway
