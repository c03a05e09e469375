// SPDX-License-Identifier: Apache-2.0
#include "base/thread_cache.hpp"

#include <algorithm>
#include <utility>

#include "base/parallel.hpp"

namespace spillway {

ThreadCache& ThreadCache::instance() {
    static auto* const cache = new ThreadCache;
    return *cache;
}

std::future<void> ThreadCache::run(std::function<void()> task) {
    std::packaged_task<void()> packaged(std::move(task));
    std::future<void> done = packaged.get_future();
    std::unique_lock<std::mutex> lock(mutex_);
    running_.reserve(running_.size() + waiting_.size() + 1);  // what follows must not fail half-way
    waiting_.reserve(running_.size() + waiting_.size() + 1);
    if (!waiting_.empty()) {
        const std::shared_ptr<Thread> thread = waiting_.back();  // it may end before it is told to wake
        running_.push_back(std::move(waiting_.back()));
        waiting_.pop_back();
        thread->task = std::move(packaged);
        // Under the lock it would wake to wait for that, and this thread would have to wake it a second time.
        lock.unlock();
        thread->wake.notify_one();
        return done;
    }
    auto thread = std::make_shared<Thread>();
    thread->task = std::move(packaged);
    thread->handle = std::thread([this, self = thread.get()] { serve(*self); });
    running_.push_back(std::move(thread));
    return done;
}

void ThreadCache::serve(Thread& self) noexcept {
    yield_to_event_loop();
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        std::packaged_task<void()> task = std::move(self.task);
        lock.unlock();
        task();
        task = {};
        lock.lock();
        const auto mine = std::find_if(running_.begin(), running_.end(),
                                       [&self](const std::shared_ptr<Thread>& each) { return each.get() == &self; });
        waiting_.push_back(std::move(*mine));
        running_.erase(mine);
        if (running_.empty()) ended_.notify_all();
        self.wake.wait(lock, [&self] { return self.task.valid() || self.ends; });
        if (self.ends) return;
    }
}

void ThreadCache::trim() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!waiting_.empty()) {
        const std::shared_ptr<Thread> thread = std::move(waiting_.back());
        waiting_.pop_back();
        thread->ends = true;
        thread->wake.notify_one();
        lock.unlock();
        thread->handle.join();
        lock.lock();
    }
}

void ThreadCache::begin_use() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++users_;
    ended_.notify_all();
}

void ThreadCache::end_use() noexcept {
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (--users_ > 0) return;
        // A use that begins meanwhile may keep threads running for ever; its own end waits for them.
        ended_.wait(lock, [this] { return running_.empty() || users_ > 0; });
        if (users_ > 0) return;
    }
    trim();
}

ThreadCache::Use::Use(ThreadCache& cache) : cache_(cache) {
    cache_.begin_use();
}

ThreadCache::Use::~Use() {
    cache_.end_use();
}

}  // namespace spillway
