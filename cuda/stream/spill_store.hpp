// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/stream_spec.hpp"
#include "device/device.hpp"
#include "stream/copy_ring.hpp"
#include "stream/disk_tier.hpp"
#include "stream/pack_rows.hpp"

namespace spillway::cuda { inline namespace stream {

// Fragments of one run that follow each other there.
struct FragmentRange {
    size_t run = 0;
    size_t first = 0;
    size_t last = 0;  // exclusive
    uint64_t rows = 0;
    uint64_t bytes = 0;
};

// Packed rows outside of device memory: runs of fragments, one per chunk, in blocks of pinned host memory, or of a
// peer's memory, that are taken as they are needed, up to a limit. Copies go at the speed of the link whatever the
// fragments are, for those that leave or come back together lie side by side. Runs that the blocks have no room for go
// to disk, if there is one: each is on one tier as a whole.
class SpillStore {
  public:
    // peer: whose memory takes the rows; nullptr: host memory. It must be one that the device reaches. disk: nullptr:
    // there is none.
    SpillStore(Device& device, Device* peer, uint64_t block_bytes, uint64_t limit_bytes,
               std::unique_ptr<DiskTier> disk = nullptr);
    // Waits for the copies.
    ~SpillStore();
    SpillStore(const SpillStore&) = delete;
    SpillStore& operator=(const SpillStore&) = delete;

    cudaStream_t stream() const { return stream_.get(); }
    // Enqueues the copy of a packed run behind what stream() has. Throws kOutOfMemory of the host tier.
    void append(int side, FragmentSet set, const uint32_t* packed);
    // Later copies of the ring start after all that left. Waits for the disk to have its part.
    void precede(CopyRing& ring);
    // Ranges that load() will be given, in the same order and before its first call, or after it was given all that
    // were announced before: what lies on disk is read ahead.
    void announce(int side, const std::vector<FragmentRange>& ranges);
    // Rows of the side that come back together at least, so that what is read from disk at once is long enough; 0: any.
    uint64_t group_rows_min(int side) const;

    const FragmentSet& set(int side, size_t run) const { return runs_[side][run].set; }
    // What is spilled of partitions [first, last), in the order in which it came.
    std::vector<FragmentRange> find(int side, uint64_t first, uint64_t last) const;
    // Enqueues the copy of a range into a slot. May wait for the disk.
    void load(int side, const FragmentRange& range, CopyRing& ring, uint32_t slot, uint64_t offset);

    uint64_t rows(int side) const { return side_rows_[side]; }
    // Rows and bytes that were spilled, and what went to disk.
    void tell(StreamReport& report) const;

  private:
    struct Run {
        FragmentSet set;
        uint64_t at;  // first byte among all blocks, or on disk
        bool on_disk;
    };
    bool fits(uint64_t bytes) const;
    void grow(uint64_t bytes);
    void append_to_blocks(uint64_t bytes, const uint32_t* packed);
    DiskRange disk_range(const Run& run, const FragmentRange& range) const;

    Device& device_;
    Device* const peer_;
    const uint64_t block_bytes_;
    const uint64_t limit_bytes_;
    const std::unique_ptr<DiskTier> disk_;
    Stream stream_;
    Event joint_;
    std::vector<Allocation> blocks_;
    uint64_t used_bytes_ = 0;
    uint64_t disk_runs_ = 0;  // of several partitions
    uint64_t disk_runs_bytes_ = 0;
    std::vector<Run> runs_[2];
    uint64_t side_bytes_[2] = {};
    uint64_t side_rows_[2] = {};
};

}}  // namespace spillway::cuda::stream
