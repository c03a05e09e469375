// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "stream/disk_tier.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// How long a cancelled join may go unnoticed while its thread waits for the disk.
constexpr std::chrono::milliseconds kPoll{20};

// One is written or filled while copies use the other.
constexpr size_t kBlocksMin = 2;

}  // namespace

std::unique_ptr<DiskTier> DiskTier::make(Device& device, SpillDisk* disk, uint64_t block_bytes, uint32_t blocks) {
    if (disk == nullptr || blocks == 0) return nullptr;
    return std::make_unique<DiskTier>(device, *disk, block_bytes, blocks);
}

DiskTier::DiskTier(Device& device, SpillDisk& disk, uint64_t block_bytes, uint32_t blocks)
    : device_(device), disk_(disk), block_bytes_(block_bytes), blocks_(blocks) {
    if (block_bytes == 0 || blocks < kBlocksMin)
        throw Error(ErrorCode::kInvalid, "a disk has two blocks of memory at least");
}

DiskTier::~DiskTier() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
}

// The host waits for copies from and to plain memory, which take several times as long.
void DiskTier::take_blocks() {
    size_t taken = 0;
    try {
        for (; taken < blocks_.size(); ++taken) {
            blocks_[taken].memory = device_.staging().allocate(block_bytes_, "rows on their way to disk");
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
        for (; taken < kBlocksMin; ++taken) {
            blocks_[taken].plain.reset(new (std::nothrow) uint8_t[block_bytes_]);
            if (!blocks_[taken].plain) throw;
        }
        blocks_.resize(taken);
    }
}

void DiskTier::begin() {
    if (!threads_.empty()) return;
    take_blocks();
    try {
        const uint64_t wanted = std::min<uint64_t>(blocks_.size(), kDiskThreads);
        while (threads_.size() < wanted) threads_.emplace_back([this] { run_tasks(); });
    } catch (const std::system_error&) {
        if (threads_.empty()) throw Error(ErrorCode::kOutOfMemory, "the system gave no thread that writes to disk");
    }
}

void DiskTier::push(const Task& task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    block_of(task.number).waiting = true;
    if (task.write) written_at_.resize(std::max<size_t>(written_at_.size(), task.number + 1));
    tasks_.push_back(task);
    changed_.notify_all();
}

// Until the threads have done with the block.
void DiskTier::wait_for(Block& block) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        if (failed_) std::rethrow_exception(failed_);
        device_.check_cancelled();
        if (!block.waiting) return;
        changed_.wait_for(lock, kPoll);
    }
}

uint64_t DiskTier::append(const uint8_t* from, uint64_t bytes, cudaStream_t stream) {
    begin();
    device_.make_current();
    const uint64_t at = appended_bytes_;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t number = appended_bytes_ / block_bytes_;
        const uint64_t in_block = appended_bytes_ % block_bytes_;
        const uint64_t some = std::min(bytes - done, block_bytes_ - in_block);
        Block& block = block_of(number);
        if (in_block == 0) wait_for(block);
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(block.data() + in_block, from + done, some, cudaMemcpyDeviceToHost, stream));
        done += some;
        appended_bytes_ += some;
        if (in_block + some < block_bytes_) continue;
        block.copied.record(stream);
        push({true, number, block_bytes_});
    }
    return at;
}

void DiskTier::finish(cudaStream_t stream) {
    const uint64_t rest_bytes = appended_bytes_ % block_bytes_;
    if (rest_bytes > 0) {
        const uint64_t number = appended_bytes_ / block_bytes_;
        block_of(number).copied.record(stream);
        push({true, number, rest_bytes});
    }
    for (Block& block : blocks_) wait_for(block);
}

void DiskTier::announce(const DiskRange& range) {
    if (range.bytes == 0) return;
    if (next_range_ > 0) begin_round();
    announced_.push_back(range);
    announced_before_.push_back(announced_bytes_);
    announced_bytes_ += range.bytes;
}

// Threads look at the list from the first load on, until the last block of the round is there, which the last load has
// waited for.
void DiskTier::begin_round() {
    if (next_range_ < announced_.size()) {
        throw Error(ErrorCode::kInternal, "bytes on disk are announced while others are read");
    }
    read_before_bytes_ += loaded_bytes_;
    announced_.clear();
    announced_before_.clear();
    announced_bytes_ = 0;
    loaded_bytes_ = 0;
    next_range_ = 0;
}

void DiskTier::push_fill(uint64_t number) {
    const uint64_t begin_bytes = number * block_bytes_;
    if (begin_bytes >= announced_bytes_) return;
    push({false, number, std::min(block_bytes_, announced_bytes_ - begin_bytes)});
}

void DiskTier::load(const DiskRange& range, CopyRing& ring, uint32_t slot, uint64_t offset) {
    if (range.bytes == 0) return;
    const bool expected = next_range_ < announced_.size() && announced_[next_range_].at == range.at &&
                          announced_[next_range_].bytes == range.bytes;
    if (!expected) throw Error(ErrorCode::kInternal, "bytes are wanted from disk that were not announced");
    if (next_range_++ == 0) {
        for (uint64_t number = 0; number < blocks_.size(); ++number) push_fill(number);
    }
    for (uint64_t done = 0; done < range.bytes;) {
        const uint64_t number = loaded_bytes_ / block_bytes_;
        const uint64_t in_block = loaded_bytes_ % block_bytes_;
        const uint64_t some = std::min(range.bytes - done, block_bytes_ - in_block);
        Block& block = block_of(number);
        wait_for(block);
        ring.copy(slot, offset + done, block.data() + in_block, some);
        done += some;
        loaded_bytes_ += some;
        // The last block of a round is filled again in the next one, behind this copy.
        if (in_block + some < block_bytes_ && loaded_bytes_ < announced_bytes_) continue;
        block.copied.record(ring.stream());
        push_fill(number + blocks_.size());
    }
}

// One thread, until the tier goes. After a failure tasks are dropped: whoever waits for one is told of the failure.
void DiskTier::run_tasks() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
        if (ended_) return;
        const Task task = tasks_.front();
        tasks_.pop_front();
        if (failed_) continue;
        lock.unlock();
        std::exception_ptr thrown;
        try {
            run(task);
        } catch (...) {
            thrown = std::current_exception();
        }
        lock.lock();
        if (thrown && !failed_) failed_ = thrown;
        block_of(task.number).waiting = false;
        changed_.notify_all();
    }
}

// The block is this thread's alone until it is no longer waited for.
void DiskTier::run(const Task& task) {
    set_device(device_.ordinal());
    Block& block = block_of(task.number);
    block.copied.synchronize();
    if (!task.write) return fill(task);
    const uint64_t at = disk_.write(block.data(), task.bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    written_at_[task.number] = at;
}

// Announced bytes [number * block_bytes, ... + task.bytes), range by range, each cut where blocks were written apart.
void DiskTier::fill(const Task& task) {
    uint8_t* const to = block_of(task.number).data();
    const uint64_t first = task.number * block_bytes_;
    const auto after = std::upper_bound(announced_before_.begin(), announced_before_.end(), first);
    auto range = static_cast<size_t>(after - announced_before_.begin()) - 1;
    for (uint64_t done = 0; done < task.bytes; ++range) {
        uint64_t skipped = first + done - announced_before_[range];
        while (skipped < announced_[range].bytes && done < task.bytes) {
            const uint64_t at = announced_[range].at + skipped;
            const uint64_t in_block = at % block_bytes_;
            const uint64_t some =
                std::min({announced_[range].bytes - skipped, task.bytes - done, block_bytes_ - in_block});
            disk_.read(written_at_[at / block_bytes_], in_block, to + done, some);
            skipped += some;
            done += some;
        }
    }
}

}}  // namespace spillway::cuda::stream
