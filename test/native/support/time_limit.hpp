// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "support/test.hpp"

namespace spillway::test {

// The slowest tests take some seconds, under a sanitizer and on a busy machine up to a minute.
constexpr std::chrono::seconds kTimeLimit{kSanitized ? 600 : 120};

// Watches the tests from a thread of its own: one that waits for ever would otherwise keep the whole run, and nobody
// would see which it was.
class TimeLimit {
  public:
    // overdue(name of the test): called on the watching thread, once at most. It should end the process, since the test
    // cannot be stopped.
    TimeLimit(std::chrono::duration<double> limit, std::function<void(const char*)> overdue);
    ~TimeLimit();
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;

    void begin(const char* test);
    void end();

  private:
    void watch();

    const std::chrono::duration<double> limit_;
    const std::function<void(const char*)> overdue_;
    std::mutex mutex_;
    std::condition_variable changed_;
    const char* test_ = nullptr;  // nullptr: none runs
    std::chrono::steady_clock::time_point deadline_;
    bool closed_ = false;
    std::thread thread_;
};

// "90", "0.5": seconds. Nothing where the text is no positive number.
std::optional<std::chrono::duration<double>> time_limit_of(const std::string& text);

}  // namespace spillway::test
