// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/parallel.hpp"
#include "executor/cpu/join_memory.hpp"
#include "support/test.hpp"

using namespace spillway;

TEST(table_gate_lets_in_what_fits) {
    constexpr uint64_t kBytes = 100;
    JobControl control;
    TableGate gate(kBytes, control);
    std::atomic<uint64_t> inside{0};
    std::atomic<uint64_t> most{0};
    std::atomic<int> passes{0};
    constexpr int kPasses = test::fewer_if_sanitized(300);
    parallel_run(8, [&](int worker) {
        for (int i = 0; i < kPasses; ++i) {
            // From next to nothing to more than there is: then it enters alone.
            const uint64_t bytes = static_cast<uint64_t>(worker * 31 + i * 17) % 150;
            const TableGate::Pass pass(gate, bytes);
            const uint64_t held = std::min(bytes, kBytes);
            const uint64_t now = inside.fetch_add(held) + held;
            for (uint64_t seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            std::this_thread::yield();
            inside.fetch_sub(held);
            ++passes;
        }
    });
    EXPECT_EQ(passes.load(), 8 * kPasses);
    EXPECT(most.load() <= kBytes);
    EXPECT(most.load() > kBytes / 2);
}

TEST(table_gate_lets_go_of_cancelled_waiters) {
    JobControl control;
    TableGate gate(100, control);
    const TableGate::Pass all(gate, 1000);
    std::atomic<bool> waiting{false};
    bool aborted = false;
    std::thread waiter([&] {
        waiting = true;
        try {
            const TableGate::Pass none(gate, 1);
        } catch (const Error& error) {
            aborted = error.code() == ErrorCode::kAborted;
        }
    });
    while (!waiting) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    control.cancelled = true;
    waiter.join();
    EXPECT(aborted);
}
