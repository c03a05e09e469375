// SPDX-License-Identifier: Apache-2.0
#include "support/time_limit.hpp"

#include <cmath>
#include <cstdlib>
#include <utility>

namespace spillway::test {

TimeLimit::TimeLimit(std::chrono::duration<double> limit, std::function<void(const char*)> overdue)
    : limit_(limit), overdue_(std::move(overdue)), thread_([this] { watch(); }) {}

TimeLimit::~TimeLimit() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void TimeLimit::begin(const char* test) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        test_ = test;
        deadline_ =
            std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit_);
    }
    changed_.notify_one();
}

void TimeLimit::end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    test_ = nullptr;
}

void TimeLimit::watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!closed_) {
        if (test_ == nullptr) {
            changed_.wait(lock);
        } else if (std::chrono::steady_clock::now() < deadline_) {
            // Woken when the next test begins, or looks again when this one should have ended.
            changed_.wait_until(lock, deadline_);
        } else {
            return overdue_(test_);
        }
    }
}

std::optional<std::chrono::duration<double>> time_limit_of(const std::string& text) {
    constexpr double kSecondsMax = 1e6;  // far below what the clock's 64 bits of nanoseconds hold
    char* end = nullptr;
    const double seconds = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(seconds > 0) || seconds > kSecondsMax) return std::nullopt;
    return std::chrono::duration<double>(seconds);
}

}  // namespace spillway::test
