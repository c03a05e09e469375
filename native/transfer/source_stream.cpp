// SPDX-License-Identifier: Apache-2.0
#include "transfer/source_stream.hpp"

#include <chrono>

#include "base/error.hpp"

namespace spillway {

namespace {

// How long a cancelled job may go unnoticed: nobody wakes those who wait here.
constexpr std::chrono::milliseconds kPoll{50};

bool is_cancelled(const JobControl& control) {
    return control.cancelled.load(std::memory_order_relaxed);
}

}  // namespace

bool SourceStream::wait_for_reader(const JobControl& control) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!has_reader_ && !closed_ && !is_cancelled(control)) changed_.wait_for(lock, kPoll);
    return has_reader_ && !closed_;
}

bool SourceStream::push(Source& source, const JobControl& control) {
    std::unique_lock<std::mutex> lock(mutex_);
    SPILLWAY_CHECK(offered_ == nullptr && !ended_);
    if (closed_) return false;
    offered_ = &source;
    taken_ = false;
    changed_.notify_all();
    while (offered_ != nullptr) {
        // Those who have taken it give it back in any case, and read it until then.
        if (!taken_ && (closed_ || is_cancelled(control))) {
            offered_ = nullptr;
            return false;
        }
        changed_.wait_for(lock, kPoll);
    }
    return all_read_;
}

void SourceStream::end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

void SourceStream::close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
}

void SourceStream::begin_reading() {
    has_reader_ = true;
    changed_.notify_all();
}

Source* SourceStream::take() {
    if (offered_ == nullptr || taken_) return nullptr;
    taken_ = true;
    return offered_;
}

void SourceStream::give_back(bool all_read) {
    SPILLWAY_CHECK(taken_);
    all_read_ = all_read;
    offered_ = nullptr;
    taken_ = false;
    changed_.notify_all();
}

}  // namespace spillway
