// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "base/parallel.hpp"
#include "base/system_file.hpp"
#include "base/thread_cache.hpp"
#include "support/failing_new.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

size_t threads_of_process() {
    return folder_names("/proc/self/task").size();
}

// A thread that has done its task takes a moment to wait again, a long one on a busy machine; the system lists a thread
// for a moment after it was joined.
bool trims_to(ThreadCache& cache, size_t threads) {
    for (int i = 0; i < 5000 && threads_of_process() > threads; ++i) {
        cache.trim();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return threads_of_process() <= threads;
}

// Threads when those that earlier tests left are gone: none went for a while.
size_t least_threads(ThreadCache& cache) {
    size_t least = SIZE_MAX;
    for (int quiet = 0; quiet < 50; ++quiet) {
        cache.trim();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const size_t now = threads_of_process();
        if (now < least) quiet = 0;
        least = std::min(least, now);
    }
    return least;
}

}  // namespace

TEST(thread_cache_uses_a_thread_again) {
    ThreadCache& cache = ThreadCache::instance();
    cache.trim();
    std::mutex mutex;
    std::set<std::thread::id> seen;
    constexpr size_t kTasks = 200;
    for (size_t i = 0; i < kTasks; ++i) {
        cache
            .run([&] {
                std::lock_guard<std::mutex> lock(mutex);
                seen.insert(std::this_thread::get_id());
            })
            .wait();
    }
    // The future is ready a moment before the thread waits again; a task that comes in between starts another one.
    EXPECT(seen.size() < kTasks / 2);
    EXPECT(seen.count(std::this_thread::get_id()) == 0);
}

TEST(thread_cache_never_puts_a_task_behind_another) {
    ThreadCache& cache = ThreadCache::instance();
    constexpr int kTasks = 40;
    std::atomic<int> arrived{0};
    std::vector<std::future<void>> done;
    for (int i = 0; i < kTasks; ++i) {
        done.push_back(cache.run([&] {
            ++arrived;
            while (arrived < kTasks) std::this_thread::yield();  // for ever, if one of them waited for another
        }));
    }
    for (auto& each : done) each.wait();
    EXPECT_EQ(arrived.load(), kTasks);
}

TEST(thread_cache_trims_threads_that_wait) {
    ThreadCache& cache = ThreadCache::instance();
    const size_t before = least_threads(cache);
    parallel_run(8, [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
    EXPECT(threads_of_process() > before);
    EXPECT(trims_to(cache, before));
    int sum = 0;
    parallel_run(1, [&](int worker) { sum += worker + 1; });
    EXPECT_EQ(sum, 1);
}

TEST(thread_cache_is_trimmed_and_used_at_once) {
    std::atomic<bool> stop{false};
    std::atomic<int64_t> ran{0};
    std::thread trimmer([&] {
        while (!stop) ThreadCache::instance().trim();
    });
    for (int i = 0; i < 200; ++i) parallel_run(6, [&](int) { ++ran; });
    stop = true;
    trimmer.join();
    EXPECT_EQ(ran.load(), 200 * 6);
}

TEST(thread_cache_end_of_a_use_does_not_wait_for_tasks_of_the_next) {
    ThreadCache cache;
    std::promise<void> release_first;
    std::promise<void> release_second;
    auto first_use = std::make_unique<ThreadCache::Use>(cache);
    const auto first = cache.run([released = release_first.get_future().share()] { released.wait(); });
    std::thread ending([&] { first_use.reset(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it waits for the first task now
    auto second_use = std::make_unique<ThreadCache::Use>(cache);
    const auto second = cache.run([released = release_second.get_future().share()] { released.wait(); });
    release_first.set_value();
    ending.join();  // for ever, if it waited for the second task
    EXPECT(second.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
    release_second.set_value();
    second_use.reset();
    EXPECT(first.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
    EXPECT(second.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
}

TEST(parallel_run_leaves_no_worker_behind_when_memory_ends) {
    ThreadCache& cache = ThreadCache::instance();
    bool failed = true;
    for (int64_t allocation = 0; failed; ++allocation) {
        cache.trim();  // so that threads must be made
        std::atomic<int> inside{0};
        std::atomic<bool> stop{false};
        const auto body = [&](int worker) {
            ++inside;
            while (worker > 0 && !stop) std::this_thread::sleep_for(std::chrono::microseconds(100));
            --inside;
        };
        const FailingNew failing(allocation);
        try {
            parallel_run(
                4, [&](int worker) { worker == 0 ? stop.store(true) : body(worker); }, [&] { stop = true; });
        } catch (const Error& error) {
            EXPECT(error.code() == ErrorCode::kOutOfMemory);
        } catch (const std::bad_alloc&) {
            // Before the first worker.
        }
        failed = failing.failed();
        EXPECT_EQ(inside.load(), 0);
    }
}

}  // namespace spillway::test
