// SPDX-License-Identifier: Apache-2.0
#include "addon/block_disposer.hpp"

#include <exception>
#include <utility>

#include "base/parallel.hpp"

namespace spillway::addon {

void BlockDisposer::free(Buffer::Block block) noexcept {
    try {
        if (enqueue(block)) return;
    } catch (const std::exception&) {
        // The system has no memory for the queue, or no thread.
    }
    Buffer::free_block(block);
}

bool BlockDisposer::enqueue(Buffer::Block block) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return false;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    queue_.push_back(block);
    // Waking is a system call; a thread that still has work looks again by itself.
    if (queue_.size() == 1) wake_.notify_one();
    return true;
}

void BlockDisposer::run() noexcept {
    yield_to_event_loop();
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        wake_.wait(lock, [this] { return ended_ || !queue_.empty(); });
        if (queue_.empty()) return;
        const std::vector<Buffer::Block> blocks = std::exchange(queue_, {});
        lock.unlock();
        for (const Buffer::Block block : blocks) Buffer::free_block(block);
        lock.lock();
    }
}

void BlockDisposer::shutdown() noexcept {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ended_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
}

}  // namespace spillway::addon
