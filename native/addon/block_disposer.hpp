// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "memory/buffer.hpp"

namespace spillway::addon {

// Frees blocks that JS has dropped, on a thread of its own. V8 drops them by the hundred in one turn of the event loop,
// and unmapping takes 80 us per MiB: a delay of milliseconds each time. The blocks have left the budget of their
// engine, which may be gone by now, so nothing here refers to an engine. One per environment and joined at its end,
// since the code of the addon may be unloaded with the environment.
class BlockDisposer {
  public:
    BlockDisposer() = default;
    BlockDisposer(const BlockDisposer&) = delete;
    ~BlockDisposer() { shutdown(); }

    // Freed here and now after the shutdown, and when there is no thread to be had.
    void free(Buffer::Block block) noexcept;
    // Returns when all that was queued is freed and the thread has ended. Idempotent; on the thread of the environment.
    void shutdown() noexcept;

  private:
    bool enqueue(Buffer::Block block);
    void run() noexcept;

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<Buffer::Block> queue_;
    bool ended_ = false;
    std::thread thread_;  // started by the first block
};

}  // namespace spillway::addon
