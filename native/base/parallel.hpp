// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace spillway {

// Runs body(0) .. body(workers - 1), each on a thread of its own (worker 0 on the caller), and returns when all have
// ended. The first exception is rethrown after that; `on_error` (may be empty) is called once as soon as one is
// caught, so that the other workers can be cancelled. Threads come from the ThreadCache.
void parallel_run(int workers, const std::function<void(int worker)>& body, const std::function<void()>& on_error = {});

// Lowers the scheduling weight of the calling thread, so that the event loop's thread, when it wakes, need not wait for
// the end of a worker's time slice (3 ms and more) although all cores are busy with workers.
void yield_to_event_loop();

}  // namespace spillway
