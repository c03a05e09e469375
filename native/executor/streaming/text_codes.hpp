// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/row/key_normalizer.hpp"
#include "memory/buffer.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

// Numbers for byte strings, texts or the keys of a row, so that the GPU compares 4 bytes in their place: equal strings
// have the same number, others have others. Threads may call at once. A string that is known costs a hash of it, a look
// into a table and a comparison, without a lock; a new one takes a lock of a shard. Strings, their places and the
// tables count in the budget, and stay until the end.
class TextCodes {
  public:
    // Neither this nor the number below is anybody's.
    static constexpr uint32_t kNone = ~0U;

    explicit TextCodes(MemoryBudget& budget);
    TextCodes(const TextCodes&) = delete;

    // The number of the string, which is the next one if it has none yet; is_new: whether that is so. Throws
    // kBudgetTooSmall, and kUnsupportedType for more than 2^32 - 2 strings.
    uint32_t add(ByteString text, bool* is_new = nullptr);
    // The same of `count` strings, or of so many of `length` bytes each, one behind the other. Waits for memory once
    // for many of them where each would wait for its own places in a table that no cache holds. is_new: [count] bytes,
    // or nullptr.
    void add_all(const ByteString* texts, uint64_t count, uint32_t* codes);
    void add_all(const uint8_t* strings, uint64_t length, uint64_t count, uint32_t* codes, uint8_t* is_new = nullptr);
    // kNone: it has none.
    uint32_t find(ByteString text) const;
    // The same of strings as add_all() has them.
    void find_all(const ByteString* texts, uint64_t count, uint32_t* codes) const;
    void find_all(const uint8_t* strings, uint64_t length, uint64_t count, uint32_t* codes) const;
    // Returns the string of a number that add() gave; it is valid until the end.
    ByteString text(uint32_t code) const;
    // Numbers that were given; after a failure one may be nobody's.
    uint64_t size() const { return next_.load(std::memory_order_acquire); }

  private:
    // A table of open addressing. A slot is 0, or the number + 1 below and 32 bits of the hash above.
    struct Table {
        Buffer memory;
        uint64_t mask = 0;

        std::atomic<uint64_t>* slots() const;
    };
    struct Shard {
        std::mutex mutex;
        std::atomic<const Table*> table{nullptr};
        std::vector<std::unique_ptr<Table>> tables;  // readers may still be in an old one
        uint64_t used = 0;
        Buffer bytes;                // of the strings that come next
        std::vector<Buffer> filled;  // of those before
    };
    static constexpr uint64_t kShards = 64;
    static constexpr uint64_t kEntriesPerPart = 1 << 16;

    Shard& shard_of(uint64_t hash) const { return shards_[hash >> 58]; }
    uint32_t find_in(const Table* table, uint64_t hash, ByteString text) const;
    template <class TextAt>
    void find_at(const TextAt& text_at, uint64_t count, uint32_t* codes) const;
    uint32_t add_hashed(uint64_t hash, ByteString text, bool* is_new);
    void bring_near(const uint64_t* hashes, uint64_t count) const;
    uint32_t enter(Shard& shard, ByteString text);
    void add_part(std::atomic<ByteString*>& part);
    const uint8_t* keep(Shard& shard, ByteString text);
    void grow(Shard& shard);

    MemoryBudget& budget_;
    const std::unique_ptr<Shard[]> shards_ = std::make_unique<Shard[]>(kShards);
    std::mutex parts_mutex_;
    std::vector<std::atomic<ByteString*>> parts_;  // of the strings by their numbers
    std::vector<Buffer> parts_memory_;
    std::atomic<uint64_t> next_{0};
};

}  // namespace spillway
