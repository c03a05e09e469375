// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "device/block_allocator.hpp"
#include "device/error.hpp"

namespace spillway::cuda { inline namespace device {

class BlockPool;

// Counts of a PoolClaim, which its blocks may outlive. Guarded by the lock of the pool.
struct ClaimCounts {
    uint64_t bytes = 0;
    uint64_t used_bytes = 0;  // may be more, of what others leave
    uint64_t peak_bytes = 0;  // of used_bytes
    uint64_t unused_bytes() const { return bytes > used_bytes ? bytes - used_bytes : 0; }
};

// A block of a pool, given back when it goes. The pool must outlive it.
class Allocation {
  public:
    Allocation() = default;
    Allocation(Allocation&& other) noexcept;
    Allocation& operator=(Allocation&& other) noexcept;
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;
    ~Allocation() { reset(); }

    template <class T = void>
    T* as() const {
        return static_cast<T*>(data_);
    }
    uint64_t bytes() const { return bytes_; }  // as asked for; the block may be a little larger
    explicit operator bool() const { return data_ != nullptr; }
    void reset() noexcept;

  private:
    friend class BlockPool;
    Allocation(BlockPool* pool, void* data, uint64_t bytes, std::shared_ptr<ClaimCounts> claim)
        : pool_(pool), data_(data), bytes_(bytes), claim_(std::move(claim)) {}

    BlockPool* pool_ = nullptr;
    void* data_ = nullptr;
    uint64_t bytes_ = 0;
    std::shared_ptr<ClaimCounts> claim_;
};

// A part of a pool's limit that stays with one operation, whether it has taken that memory or not: blocks that a thread
// takes as the claim's user come from it, and go back to it. Others get what no claim holds. The pool must outlive it;
// its blocks may stay longer and are then as any other.
class PoolClaim {
  public:
    PoolClaim() = default;
    PoolClaim(PoolClaim&& other) noexcept;
    PoolClaim& operator=(PoolClaim&& other) noexcept;
    PoolClaim(const PoolClaim&) = delete;
    PoolClaim& operator=(const PoolClaim&) = delete;
    ~PoolClaim() { reset(); }

    void reset() noexcept;
    // Forgets what was in use before.
    void reset_peak() noexcept;
    // For its user: from now on it is the most that has been in use at a time, if that is more.
    void keep_peak() noexcept;

    // What this thread takes of the pool meanwhile is of the claim.
    class User {
      public:
        explicit User(const PoolClaim& claim);
        ~User();
        User(const User&) = delete;
        User& operator=(const User&) = delete;

      private:
        friend class BlockPool;
        BlockPool* const pool_;
        const std::shared_ptr<ClaimCounts> counts_;
        const User* const before_;
    };

  private:
    friend class BlockPool;
    PoolClaim(BlockPool* pool, std::shared_ptr<ClaimCounts> counts) : pool_(pool), counts_(std::move(counts)) {}

    BlockPool* pool_ = nullptr;
    std::shared_ptr<ClaimCounts> counts_;
};

// A part of a pool's limit for memory that does not come from the pool, given back when it goes. The pool must outlive
// it.
class PoolReservation {
  public:
    PoolReservation() = default;
    PoolReservation(PoolReservation&& other) noexcept;
    PoolReservation& operator=(PoolReservation&& other) noexcept;
    PoolReservation(const PoolReservation&) = delete;
    PoolReservation& operator=(const PoolReservation&) = delete;
    ~PoolReservation() { reset(); }

    uint64_t bytes() const { return bytes_; }
    void reset() noexcept;

  private:
    friend class BlockPool;
    PoolReservation(BlockPool* pool, uint64_t bytes, std::shared_ptr<ClaimCounts> claim)
        : pool_(pool), bytes_(bytes), claim_(std::move(claim)) {}

    BlockPool* pool_ = nullptr;
    uint64_t bytes_ = 0;
    std::shared_ptr<ClaimCounts> claim_;
};

// What pools of device and of pinned memory share: a BlockAllocator behind a lock, errors, injected faults. The limit
// is hard: it counts every block handed out, rounded up to the granularity. Thread-safe.
class BlockPool {
  public:
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;

    // Contents are whatever the last owner left. Throws kOutOfMemory with wanted, free and limit; `what` names the
    // purpose. 0 bytes: an empty Allocation.
    Allocation allocate(uint64_t bytes, const char* what);
    // Counts against the limit as a block does, and refuses as allocate() does. Cached segments make room for it.
    PoolReservation reserve(uint64_t bytes, const char* what);
    // Throws as allocate() does where the limit, what is in use and other claims leave less. 0 bytes: one that grows.
    PoolClaim claim(uint64_t bytes, const char* what);

    uint64_t used_bytes() const;
    uint64_t peak_bytes() const;
    void reset_peak();
    uint64_t limit_bytes() const;
    uint64_t reserved_bytes() const;  // taken from the driver: blocks in use and cached ones
    uint64_t free_bytes() const;      // within the limit and what claims leave this thread, and what the driver has now
    uint64_t blocks() const;          // handed out
    bool holds(const void* data, uint64_t bytes) const;  // all of it lies in one segment of the pool

    // Gives cached segments back to the driver. Waits for all work of the device, as cudaFree does.
    void trim();

    // For tests: the n-th allocation or reservation from now (1 = the next) throws kOutOfMemory, once. 0 = none.
    void fail_after(uint64_t n);

  protected:
    BlockPool(BlockBacking& backing, const BlockSizes& sizes, uint64_t limit_bytes, Tier tier);
    ~BlockPool() = default;

    virtual uint64_t backing_free_bytes() const = 0;

  private:
    friend class Allocation;
    friend class PoolClaim;
    friend class PoolReservation;
    void give_back(void* data, ClaimCounts* claim) noexcept;
    void count(ClaimCounts* claim, const ClaimCounts& now) noexcept;
    void count_taken(ClaimCounts* claim, uint64_t bytes) noexcept;
    void count_given_back(ClaimCounts* claim, uint64_t bytes) noexcept;
    std::shared_ptr<ClaimCounts> users_claim() const;
    uint64_t withheld_locked() const;
    uint64_t left_locked() const;
    void unreserve(uint64_t bytes, ClaimCounts* claim) noexcept;
    void fail_if_injected(uint64_t bytes, const char* what);
    Error limit_error(uint64_t bytes, const char* what) const;
    uint64_t free_locked() const;
    Error refuse(uint64_t bytes, const char* what, const char* why) const;

    mutable std::mutex mutex_;
    BlockAllocator allocator_;
    uint64_t claimed_bytes_ = 0;  // by all claims, of what is free
    const Tier tier_;
    uint64_t fails_in_ = 0;
};

// Segments of cudaMalloc, on one device.
class DeviceBacking : public BlockBacking {
  public:
    explicit DeviceBacking(int ordinal) : ordinal_(ordinal) {}
    void* acquire(uint64_t bytes) override;
    void settle() noexcept override;  // waits for the device
    void release(void* data, uint64_t bytes) noexcept override;

  private:
    const int ordinal_;
};

// GPU memory of one device, up to a hard limit, which emulates smaller GPUs.
//
// Hazard: a block can be handed out again as soon as its Allocation goes, while kernels that use it may still be
// waiting in a stream. That is safe as long as old and new users are ordered: all on Device::stream(), or joined with
// it by events. So
// - before an Allocation that another stream (a copy, a second pipeline) has used goes, Device::stream() must wait for
//   that stream, or the host must have waited for it;
// - before another stream uses a new Allocation, it must wait for what was in Device::stream() when the block was
//   allocated (Uploader::follow()).
// trim() and a refused cudaMalloc release segments after waiting for the whole device, so they need no care.
class MemoryPool final : private DeviceBacking, public BlockPool {
  public:
    MemoryPool(int ordinal, uint64_t limit_bytes);

  private:
    uint64_t backing_free_bytes() const override;

    const int ordinal_;
};

}}  // namespace spillway::cuda::device
