// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "stream/copy_ring.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

// Bytes of the tier: those that were appended are numbered from 0.
struct DiskRange {
    uint64_t at = 0;
    uint64_t bytes = 0;
};

// Bytes on disk, by way of a few blocks of pinned memory. First they are appended: copy engines fill a block, a thread
// writes it. Then they are read: ranges are announced in the order in which they will be wanted, threads read them one
// behind the other into the blocks, some blocks ahead, and copy engines take them from there. The blocks bound both:
// who appends waits for the disk, and threads that read wait for the link.
//
// Bytes that must be moved: each byte over the link, through host memory and to or from the disk, once per direction,
// whatever the ranges are. Reads are as long as the ranges, but for those that cross the end of a block.
//
// When all announced ranges have been loaded, others may be announced: each such round begins to read anew.
//
// One thread appends, announces and loads. It waits for threads of the tier, never for the device.
class DiskTier {
  public:
    // nullptr where there is no disk, or no blocks for it.
    static std::unique_ptr<DiskTier> make(Device& device, SpillDisk* disk, uint64_t block_bytes, uint32_t blocks);
    // Memory is taken and threads begin with the first byte. Where the system pins less than all blocks, fewer do; in
    // place of the last two there is plain memory, so that a lack of pinned memory keeps nothing from the disk.
    DiskTier(Device& device, SpillDisk& disk, uint64_t block_bytes, uint32_t blocks);
    // Ends the threads, after what they do now. All copies from and to the blocks must have ended.
    ~DiskTier();
    DiskTier(const DiskTier&) = delete;
    DiskTier& operator=(const DiskTier&) = delete;

    // Enqueues copies of device memory, and returns where the bytes will be.
    uint64_t append(const uint8_t* from, uint64_t bytes, cudaStream_t stream);
    // Waits until all is written. Nothing is appended afterwards.
    void finish(cudaStream_t stream);

    // Every range that load() will be given in this round, in the same order; before its first call.
    void announce(const DiskRange& range);
    // Enqueues copies of the next announced range into a slot, behind those that the ring has.
    void load(const DiskRange& range, CopyRing& ring, uint32_t slot, uint64_t offset);

    uint64_t written_bytes() const { return appended_bytes_; }
    uint64_t read_bytes() const { return read_before_bytes_ + loaded_bytes_; }

  private:
    struct Block {
        Allocation memory;
        std::unique_ptr<uint8_t[]> plain;  // in its place, where the system pinned no more
        Event copied;                      // the link has written the block, or read it
        bool waiting = false;              // for a thread that writes it or fills it

        uint8_t* data() const { return plain ? plain.get() : memory.as<uint8_t>(); }
    };
    struct Task {
        bool write = false;
        uint64_t number = 0;  // of a block of the appended, or of the announced bytes
        uint64_t bytes = 0;
    };

    Block& block_of(uint64_t number) { return blocks_[number % blocks_.size()]; }
    void begin();
    void take_blocks();
    void begin_round();
    void push(const Task& task);
    void push_fill(uint64_t number);
    void wait_for(Block& block);
    void run_tasks();
    void run(const Task& task);
    void fill(const Task& task);

    Device& device_;
    SpillDisk& disk_;
    const uint64_t block_bytes_;
    std::vector<Block> blocks_;
    std::vector<std::thread> threads_;
    uint64_t appended_bytes_ = 0;
    std::vector<DiskRange> announced_;        // in this round
    std::vector<uint64_t> announced_before_;  // bytes of the ranges before each
    uint64_t announced_bytes_ = 0;
    size_t next_range_ = 0;
    uint64_t loaded_bytes_ = 0;
    uint64_t read_before_bytes_ = 0;  // in the rounds before

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Task> tasks_;
    std::vector<uint64_t> written_at_;  // of each block of the appended bytes, as the disk says
    std::exception_ptr failed_;
    bool ended_ = false;
};

}}  // namespace spillway::cuda::stream
