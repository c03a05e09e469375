// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/group_by/table_memory.hpp"
#include "cpu/row/key_normalizer.hpp"

namespace spillway {

// Encodes a text column on the fly, for one worker and while few texts differ: a text that is known costs a hash of it
// and a comparison with the copy of it that lies in the cache.
class LocalDictionary {
  public:
    // inline_width: of KeyKind::kInlineBytes; 0: texts of any length.
    LocalDictionary(TableMemory& memory, uint32_t inline_width) : memory_(memory), inline_width_(inline_width) {}

    // codes(): of rows [begin, begin + count) of a kBinary or kView column. NULL has code 0, and texts have numbers
    // from 1 on as they are met. Returns false where there are too many texts, or no memory for more: it is of no use
    // from then on.
    bool encode(const ColumnView& view, int64_t begin, int64_t count);
    const uint32_t* codes() const { return codes_.data(); }

    static constexpr uint32_t kTextsMax = 16384;

  private:
    struct Slot {
        uint32_t hash;
        uint32_t place;  // of the text's Entry in texts_, in units of 8 bytes; 0: empty
    };
    // Behind it, the bytes of the text.
    struct Entry {
        uint32_t code;
        uint32_t length;
        const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(this + 1); }
    };

    template <uint32_t kWords>
    bool encode_inline(const ColumnView& view, int64_t begin, int64_t count);
    template <class Texts>
    bool encode_texts(const Texts& texts, const ColumnView& view, int64_t begin, int64_t count);
    uint32_t find_or_add(ByteString text, uint32_t hash);
    uint32_t add(ByteString text, uint32_t hash, uint64_t slot);
    bool grow_slots();
    bool grow_texts(uint64_t bytes);
    bool make(uint64_t bytes, TableBlock& block);
    Slot* slots() { return reinterpret_cast<Slot*>(slots_.data()); }
    const Entry* entry(const Slot& slot) const {
        return reinterpret_cast<const Entry*>(texts_.data() + uint64_t{slot.place} * 8);
    }

    TableMemory& memory_;
    const uint32_t inline_width_;
    TableBlock slots_;
    TableBlock texts_;  // entries; the first one is nobody's
    uint64_t slot_mask_ = 0;
    uint64_t texts_end_ = 0;
    uint32_t count_ = 0;
    std::vector<uint32_t> codes_;
    std::vector<uint64_t> values_;  // of inline texts
};

}  // namespace spillway
