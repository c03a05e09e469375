// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/error.hpp"
#include "api/stream_spec.hpp"
#include "device/device.hpp"
#include "stream/copy_ring.hpp"
#include "stream/disk_tier.hpp"
#include "stream/pack_rows.hpp"
#include "stream/partition_groups.hpp"

namespace spillway::cuda { inline namespace stream {

// Fragments of one run that follow each other there.
struct FragmentRange {
    size_t run = 0;
    size_t first = 0;
    size_t last = 0;  // exclusive
    uint64_t rows = 0;
    uint64_t bytes = 0;
};

// Packed rows outside of device memory: runs of fragments, one per chunk, in blocks of a peer's memory, if there is
// one, and of pinned host memory that are taken as they are needed, up to a limit of each. Copies go at the speed of
// the link whatever the fragments are, for those that leave or come back together lie side by side. Runs that the
// blocks of a tier have no room for, because of the limit or because there is no more such memory, go to the next one,
// and to disk at last, if there is one: each is on one tier as a whole.
class SpillStore {
  public:
    // peer: one that the device reaches, or more of the same device; disk: both nullptr where there is none.
    SpillStore(Device& device, Device* peer, SpillDisk* disk, const StreamSizes& sizes);
    // Waits for the copies.
    ~SpillStore();
    SpillStore(const SpillStore&) = delete;
    SpillStore& operator=(const SpillStore&) = delete;

    cudaStream_t stream() const { return stream_.get(); }
    // Enqueues the copy of a packed run behind what stream() has. Throws kOutOfMemory of the host tier where there is
    // no disk.
    void append(int side, FragmentSet set, const uint32_t* packed);
    // Later copies of the ring start after all that left. Waits for the disk to have its part.
    void precede(CopyRing& ring);
    // Ranges that load() will be given, in the same order and before its first call, or after it was given all that
    // were announced before: what lies on disk is read ahead.
    void announce(int side, const std::vector<FragmentRange>& ranges);
    // Rows of the side that come back together at least, so that what is read from disk at once is long enough; 0: any.
    uint64_t group_rows_min(int side) const;

    const FragmentSet& set(int side, size_t run) const { return runs_[side][run].set; }
    // Rows of each of so many partitions.
    std::vector<uint64_t> partition_rows(int side, uint64_t partitions) const;
    // What is spilled of each group of neighbouring partitions, from its first to its last one, in the order in which
    // it came. Goes over all fragments once: thousands of runs have some of each of thousands of partitions.
    std::vector<std::vector<FragmentRange>> find(int side, const std::vector<PartitionGroup>& groups) const;
    // Enqueues the copy of a range into a slot. May wait for the disk.
    void load(int side, const FragmentRange& range, CopyRing& ring, uint32_t slot, uint64_t offset);

    uint64_t rows(int side) const { return side_rows_[side]; }
    // Rows and bytes that were spilled, and what of them went to a peer and to disk.
    void tell(StreamReport& report) const;

  private:
    // Blocks of one tier.
    struct Blocks {
        Device* peer;                    // nullptr: host memory
        uint64_t limit_bytes;            // less than was asked for, once there was no more memory
        std::vector<Allocation> memory;  // block_bytes_ each
        uint64_t used_bytes = 0;
        std::optional<Error> refusal = {};  // why there was no more
    };
    struct Run {
        FragmentSet set;
        uint64_t at;           // first byte among the blocks, or on disk
        const Blocks* blocks;  // nullptr: on disk
    };
    bool grow(Blocks& blocks, uint64_t bytes);
    Blocks* blocks_for(uint64_t bytes);
    Error no_room(uint64_t bytes) const;
    uint64_t append_to_blocks(Blocks& blocks, uint64_t bytes, const uint32_t* packed);
    uint64_t append_to_disk(const FragmentSet& set, uint64_t bytes, const uint32_t* packed);
    DiskRange disk_range(const Run& run, const FragmentRange& range) const;

    Device& device_;
    const uint64_t block_bytes_;
    Blocks peer_;  // none of them where there is no peer
    Blocks host_;
    const std::unique_ptr<DiskTier> disk_;
    Stream stream_;
    Event joint_;
    uint64_t disk_runs_ = 0;  // of several partitions
    uint64_t disk_runs_bytes_ = 0;
    std::vector<Run> runs_[2];
    uint64_t side_bytes_[2] = {};
    uint64_t side_rows_[2] = {};
};

}}  // namespace spillway::cuda::stream
