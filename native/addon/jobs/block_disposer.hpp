// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "addon/jobs/engine.hpp"
#include "memory/buffer.hpp"

namespace spillway::addon {

// Frees blocks that JS has dropped, on a thread of its own. V8 drops them by the hundred in one turn of the event loop,
// and unmapping takes 80 us per MiB: a delay of milliseconds each time. The blocks have left the budget of their
// engine, which may be gone by now; while it lives it gets them back for its next results, because fresh memory costs
// the system's clearing of it (a third of the time of a join into a table). One per environment and joined at its end,
// since the code of the addon may be unloaded with the environment.
class BlockDisposer {
  public:
    BlockDisposer() = default;
    BlockDisposer(const BlockDisposer&) = delete;
    ~BlockDisposer() { shutdown(); }

    // Freed here and now after the shutdown, and when there is no thread to be had.
    void free(Buffer::Block block, std::weak_ptr<Engine> engine) noexcept;
    // Closes a descriptor of a file without a name (nothing for -1): the system frees its pages, 50 ms for 160 MB.
    void close_file(int descriptor) noexcept;
    // Returns when all that was queued is freed and the thread has ended. Idempotent; on the thread of the environment.
    void shutdown() noexcept;

  private:
    struct Dropped {
        Buffer::Block block;
        std::weak_ptr<Engine> engine;
        int descriptor = -1;
    };
    static void dispose(const Dropped& dropped) noexcept;
    void queue_or_dispose(Dropped dropped) noexcept;
    bool enqueue(Dropped dropped);
    void run() noexcept;

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<Dropped> queue_;
    bool ended_ = false;
    std::thread thread_;  // started by the first block
};

}  // namespace spillway::addon
