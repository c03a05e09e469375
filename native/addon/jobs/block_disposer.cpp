// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/block_disposer.hpp"

#include <unistd.h>

#include <exception>
#include <utility>

#include "base/heap.hpp"
#include "base/parallel.hpp"

namespace spillway::addon {

void BlockDisposer::free(Buffer::Block block, std::weak_ptr<Engine> engine) noexcept {
    queue_or_dispose({block, std::move(engine)});
}

void BlockDisposer::close_file(int descriptor) noexcept {
    if (descriptor >= 0) queue_or_dispose({{}, {}, descriptor});
}

void BlockDisposer::queue_or_dispose(Dropped dropped) noexcept {
    try {
        if (enqueue(dropped)) return;
    } catch (const std::exception&) {
        // The system has no memory for the queue, or no thread.
    }
    dispose(dropped);
}

void BlockDisposer::dispose(const Dropped& dropped) noexcept {
    if (dropped.descriptor >= 0) ::close(dropped.descriptor);
    const auto engine = dropped.engine.lock();
    if (engine && engine->keeps_dropped.load(std::memory_order_relaxed)) {
        Buffer::free_block(dropped.block, engine->budget);
    } else {
        Buffer::free_block(dropped.block);
    }
}

bool BlockDisposer::enqueue(Dropped dropped) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return false;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    queue_.push_back(std::move(dropped));
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
        const std::vector<Dropped> blocks = std::exchange(queue_, {});
        lock.unlock();
        for (const Dropped& dropped : blocks) dispose(dropped);
        // Small ones are malloc's, which keeps them.
        if (const auto engine = blocks.back().engine.lock()) give_back_free_memory_near(engine->budget.limit());
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
