// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "link/link_copy.hpp"

namespace spillway::cuda { inline namespace stream {

// Pieces of memory that are copied together, as cudaMemcpyBatchAsync wants them.
struct CopyPieces {
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<size_t> bytes;
    uint64_t total_bytes = 0;
    bool from_host = true;  // all of it pinned memory of the host

    size_t count() const { return bytes.size(); }
    void add(void* piece_to, const void* piece_from, uint64_t piece_bytes, bool piece_from_host);
    // Small ones in the mean, of which a kernel reads more at a time than copy engines do.
    bool are_small() const;
};

// Whether gather_pieces() can take them: from the host, side by side where they go, whole words of 16 bytes, and no
// more than kSmallPiecesTogether.
bool can_gather(const CopyPieces& pieces);

// Enqueues a kernel that reads pieces of pinned host memory over the link and writes them to device memory. Each block
// looks the piece of a word up, so that it is as fast for pieces of 128 bytes as for any.
void gather_pieces(const CopyPieces& pieces, cudaStream_t stream);

// Room for chunks in device memory that copy engines, or a kernel, fill while kernels work on earlier ones: slots in a
// circle, filled on a stream of their own, emptied on the device's.
class CopyRing {
  public:
    CopyRing(Device& device, uint32_t slots, uint64_t slot_bytes);
    // Waits for the copies: their sources may go, and the memory.
    ~CopyRing();
    CopyRing(const CopyRing&) = delete;
    CopyRing& operator=(const CopyRing&) = delete;

    uint64_t slot_bytes() const { return slot_bytes_; }
    uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
    cudaStream_t stream() const { return stream_.get(); }

    // The next slot to be filled: later copies wait for whoever reads what it has now. Every slot must have been
    // emptied on the host's side, by a call of emptied().
    uint32_t take();
    uint8_t* data(uint32_t slot) const { return slots_[slot].memory.as<uint8_t>(); }
    void copy(uint32_t slot, uint64_t offset, const void* from, uint64_t bytes);
    // Values that a kernel unpacks, together with others: `bytes` of them, `width` each.
    void copy_packed(uint32_t slot, uint64_t offset, const void* from, const PackedBlock* blocks, uint64_t bytes,
                     uint32_t width);
    // Copies from memory that stays as it is until the slot has been copied. The copy is enqueued together with others
    // as soon as these are many, or when the slot is filled. Small ones are left to a kernel. from_host says that the
    // memory is that of the device's staging pool.
    void copy_together(uint32_t slot, uint64_t offset, const void* from, uint64_t bytes, bool from_host);
    // Says whether copies are enqueued together, however large. If not, each one that no kernel takes is a call of its
    // own, and many calls keep the link waiting.
    bool copies_together() const { return can_batch_; }
    // Bytes of a slot, all of one value.
    void set(uint32_t slot, uint64_t offset, uint8_t value, uint64_t bytes);
    void enqueue();  // what is left of the copies so far
    // All copies of the slot have been enqueued.
    void filled(uint32_t slot);
    // Later work on the device's stream waits for the slot's copies, and has read them all when emptied() is called.
    void wait_on_device(uint32_t slot);
    void emptied(uint32_t slot);

    bool is_copied(uint32_t slot) const { return slots_[slot].copied.done(); }
    void wait_copied(uint32_t slot) const { slots_[slot].copied.synchronize(); }
    void wait_for(const Event& event) { stream_.wait(event); }
    uint64_t copied_bytes() const { return copied_bytes_; }  // over the link
    // What packed values did not take of it.
    uint64_t saved_bytes() const { return unpacked_bytes_ - std::min(unpacked_bytes_, copied_bytes_); }

  private:
    struct Slot {
        Allocation memory;
        Event copied;
        Event emptied;
        bool used = false;
    };

    void count(uint64_t offset, uint64_t bytes);
    void enqueue_together();

    Device& device_;
    const uint64_t slot_bytes_;
    Stream stream_;
    CopyPieces together_;
    const bool pinned_;
    bool can_batch_;
    std::vector<Slot> slots_;
    uint32_t next_ = 0;
    uint64_t copied_bytes_ = 0;
    uint64_t unpacked_bytes_ = 0;
    std::vector<LinkCopy> packed_;  // not enqueued yet
};

}}  // namespace spillway::cuda::stream
