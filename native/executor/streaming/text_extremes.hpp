// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "executor/streaming/text_codes.hpp"
#include "memory/buffer.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

// The least or the largest text of each group so far. The GPU has numbers for texts, which are in no order: a text that
// takes the place of another one gets a word that is larger than any before in its group, so that the largest word of
// a group has the number of the text that is left. Threads may call at once. Groups count in the budget, and stay until
// the end.
class TextExtremes {
  public:
    // texts: of the numbers that are offered; it must outlive this.
    TextExtremes(const TextCodes& texts, MemoryBudget& budget);
    TextExtremes(const TextExtremes&) = delete;

    // Returns the word of the text with this number, or 0 where it takes the place of none. group: keys, and what tells
    // one column of texts from another. Throws kBudgetTooSmall.
    uint64_t offer(ByteString group, uint32_t code, bool is_least);

  private:
    static constexpr uint64_t kGroupsPerPart = 1 << 16;

    // How often the text was replaced, and its number in the low bits; 0: there is none yet.
    std::atomic<uint64_t>& best_of(uint32_t group);
    void add_part(std::atomic<uint64_t*>& part);

    const TextCodes& texts_;
    MemoryBudget& budget_;
    TextCodes groups_;
    std::mutex parts_mutex_;
    std::vector<std::atomic<uint64_t*>> parts_;
    std::vector<Buffer> parts_memory_;
};

}  // namespace spillway
