// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cpu/hash_join/build_rows.hpp"
#include "memory/buffer.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Probe rows are looked up in blocks of at most this many, so that the virtual call, the prefetch distance and the
// scratch arrays (8 KiB of pointers) all fit the L1 cache.
constexpr int64_t kProbeBlockRows = 1024;

// What a table is asked for. A table for kCount need not remember rows: less memory, fewer cache misses.
enum class TableUse : uint8_t {
    kFind,          // find() and next_equal()
    kCount,         // count_matches()
    kFindAndCount,  // all of them
};
inline bool finds(TableUse use) {
    return use != TableUse::kCount;
}
inline bool counts(TableUse use) {
    return use != TableUse::kFind;
}

// Which memory does a table get?
struct TableRoom {
    // For rows of equal keys (chains, counts), which most build sides, being primary keys, have none of. Without it a
    // table gives up at the first two that are equal.
    bool equal_keys = true;
    // Slots that are hardly enough: probes take longer, but more workers join at a time.
    bool tight = false;
};

// Calls back with the rows of a co-partition, span by span, until the callback returns false. Spans live for the call;
// every time the same rows come.
using EachSpan = std::function<void(const std::function<bool(const RowSpan&)>&)>;

// Hash table over the build rows of one co-partition. Read-only after construction, so several workers may probe it.
class JoinTable {
  public:
    virtual ~JoinTable() = default;

    // For each probe row: number of one build row with an equal key, or kNoRow. Only if finds(use).
    virtual void find(const uint8_t* const* probe_rows, int64_t count, uint32_t* first) const = 0;
    // Number of matches of all probe rows together; never enumerates equal keys. Only if counts(use).
    virtual uint64_t count_matches(const uint8_t* const* probe_rows, int64_t count) const = 0;
    // The next build row with the same key as `number`, or kNoRow.
    virtual uint32_t next_equal(uint32_t number) const = 0;
    // True when no key occurs twice: next_equal always answers kNoRow.
    virtual bool unique() const = 0;

    // Bytes a table of `rows` build rows takes of the budget at most, in whole blocks; for those who enter a
    // co-partition and the split into chunks.
    static uint64_t bytes_for(HashingScheme scheme, TableUse use, const RowLayout& build, uint64_t rows,
                              uint64_t numbers, TableRoom room = {});
    // Builds the table; kPerfect falls back to linear probing when the keys of these rows are not one integer or
    // spread over more than range_max values. nullptr: equal keys, but no room for them.
    static std::unique_ptr<JoinTable> build(HashingScheme scheme, TableUse use, const BuildRows& rows,
                                            const RowLayout& probe_layout, uint64_t range_max, uint64_t hash_mask,
                                            MemoryBudget& budget, TableRoom room = {});
    // Can a table for kCount be filled from rows that do not stay in memory?
    static bool counts_streamed(HashingScheme scheme, TableUse use, const RowLayout& build);
    // Builds such a table. nullptr: equal keys, but no room for them.
    static std::unique_ptr<JoinTable> build_counter(uint64_t rows, uint32_t row_bytes, const EachSpan& each,
                                                    uint64_t hash_mask, MemoryBudget& budget, TableRoom room);
};

}  // namespace spillway
