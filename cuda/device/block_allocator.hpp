// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "device/device_policy.hpp"

// The bookkeeping of the memory pools without any CUDA, so that it is tested on machines without a GPU.

namespace spillway::cuda { inline namespace device {

// Where a BlockAllocator gets its segments from.
class BlockBacking {
  public:
    virtual void* acquire(uint64_t bytes) = 0;  // nullptr: there is no memory; throws for anything else
    // Before one or more releases of memory that may have been in use.
    virtual void settle() noexcept {}
    virtual void release(void* data, uint64_t bytes) noexcept = 0;

  protected:
    ~BlockBacking() = default;
};

// Blocks cut from segments that stay when they are free: best fit, split, coalesced with free neighbours. Large blocks
// get a segment of their own, which later blocks may share; small ones have segments apart.
//
// The limit is hard for the blocks handed out. Segments stay within it too, unless the free parts of segments in use
// are all too small for a block that fits the limit: then the block is granted, for a plan relies on the limit, and
// segments exceed it by at most what those parts hold. What reserve() gives is such a grant too.
//
// Not thread-safe; the owner guards it.
class BlockAllocator {
  public:
    enum class Refusal { kNone, kLimit, kBacking };
    struct Grant {
        void* data = nullptr;
        uint64_t bytes = 0;  // counted: `bytes` rounded up
        Refusal refusal = Refusal::kNone;
    };

    BlockAllocator(BlockBacking& backing, const BlockSizes& sizes, uint64_t limit_bytes);
    ~BlockAllocator();  // releases all segments, also those in use
    BlockAllocator(const BlockAllocator&) = delete;
    BlockAllocator& operator=(const BlockAllocator&) = delete;

    // bytes > 0. When the backing refuses, all free segments are released and it is asked again. withheld_bytes: of
    // what is free, not to be granted.
    Grant take(uint64_t bytes, uint64_t withheld_bytes = 0);
    uint64_t give_back(void* data) noexcept;  // of take(); returns the bytes that were counted
    void trim() noexcept;                     // releases segments without blocks

    // Bytes of the limit for memory that comes from elsewhere, not rounded; free segments make room for it. False: the
    // blocks and what is reserved already leave less.
    bool reserve(uint64_t bytes, uint64_t withheld_bytes = 0) noexcept;
    void unreserve(uint64_t bytes) noexcept;

    uint64_t used_bytes() const { return used_bytes_; }  // blocks, and what reserve() has given
    uint64_t peak_bytes() const { return peak_bytes_; }  // of used_bytes()
    void reset_peak() { peak_bytes_ = used_bytes_; }
    uint64_t limit_bytes() const { return limit_bytes_; }
    uint64_t reserved_bytes() const { return reserved_bytes_; }  // all segments, and what reserve() has given
    uint64_t segments() const { return segments_.size(); }
    uint64_t blocks() const { return blocks_in_use_; }
    bool holds(const void* data, uint64_t bytes) const;  // all of it lies in one segment

  private:
    using Address = std::uintptr_t;
    using FreeBlocks = std::set<std::pair<uint64_t, Address>>;  // by size, then address
    struct Segment {
        uint64_t bytes;
        bool shared;
    };
    struct Block {
        uint64_t bytes;
        Address segment;
        bool free;
        // The entry of the free list while the block is in use, so that giving it back allocates nothing.
        FreeBlocks::node_type entry;
    };
    using Blocks = std::map<Address, Block>;

    uint64_t rounded(uint64_t bytes, uint64_t granularity) const;
    Address find_free(uint64_t bytes, bool shared) const;
    Address new_segment(uint64_t bytes, bool shared);
    Address place_segment(uint64_t bytes, bool shared);
    uint64_t segment_bytes(uint64_t bytes, bool shared);
    void cut(Address address, uint64_t bytes);
    FreeBlocks& free_list(const Block& block) { return free_[segments_.at(block.segment).shared ? 1 : 0]; }
    void absorb_next(Blocks::iterator block) noexcept;
    uint64_t release_free(uint64_t wanted_bytes) noexcept;

    BlockBacking& backing_;
    const BlockSizes sizes_;
    const uint64_t limit_bytes_;
    std::map<Address, Segment> segments_;
    Blocks blocks_;       // in use and free; they cover the segments without a gap
    FreeBlocks free_[2];  // [1]: of shared segments
    uint64_t used_bytes_ = 0;
    uint64_t peak_bytes_ = 0;
    uint64_t reserved_bytes_ = 0;
    uint64_t blocks_in_use_ = 0;
};

}}  // namespace spillway::cuda::device
