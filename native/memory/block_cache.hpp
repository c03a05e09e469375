// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "memory/mapped_block.hpp"

namespace spillway {

// Blocks taken out of the cache under pressure: unmapped when this goes, that is after the lock of the budget.
struct EvictedBlocks {
    EvictedBlocks() = default;
    EvictedBlocks(const EvictedBlocks&) = delete;
    EvictedBlocks& operator=(const EvictedBlocks&) = delete;
    ~EvictedBlocks() {
        for (const MappedBlock& block : blocks) unmap_block(block);
    }
    std::vector<MappedBlock> blocks;
};

// Freed blocks kept mapped for the next request, because the first touch of fresh memory costs more than most uses of
// it. Multiples of kHugeBytes are extents that split and coalesce, so blocks of one join serve any size in the next;
// other sizes are kept in lists by exact size (block_capacity makes few of them). A plain container: MemoryBudget
// guards it and counts its bytes.
class BlockCache {
  public:
    BlockCache() = default;
    BlockCache(const BlockCache&) = delete;
    BlockCache& operator=(const BlockCache&) = delete;
    ~BlockCache();

    // May throw std::bad_alloc, changing nothing.
    void put(MappedBlock block);
    // data == nullptr: no block fits. Contents are whatever the last owner left.
    MappedBlock take(uint64_t bytes);
    // Moves blocks of at least `wanted` bytes, or all there are, to `evicted`.
    void evict(uint64_t wanted, EvictedBlocks& evicted);
    uint64_t bytes() const { return bytes_; }

  private:
    using Extents = std::map<uint8_t*, uint64_t>;
    void put_extent(MappedBlock block);
    void resize_extent(Extents::iterator extent, uint8_t* data, uint64_t bytes);
    void erase_extent(Extents::iterator extent);

    Extents extents_;                                  // by address; never two adjacent ones
    std::set<std::pair<uint64_t, uint8_t*>> by_size_;  // the same extents
    std::map<uint64_t, std::vector<uint8_t*>> exact_;  // other sizes
    uint64_t bytes_ = 0;
};

}  // namespace spillway
