// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "device/gpu_error.hpp"

namespace spillway {

// Runs an operation of the GPU when it is this job's turn.
using DeviceTurn = std::function<void(const std::function<void()>&)>;

// Lets others use the GPU while `wait` runs.
using DevicePause = std::function<void(const std::function<void()>& wait)>;

// For the handler of an error, which may have added to it: what found too little memory or values that are not for the
// GPU, or lost it, before it gave rows can be done in another way, by whoever asked for it.
[[noreturn]] inline void rethrow_undelivered(const Error& error, bool gave_rows) {
    const bool memory = error.code() == ErrorCode::kBudgetTooSmall || error.code() == ErrorCode::kOutOfMemory;
    auto details = error.details();
    const bool refused = std::find(details.begin(), details.end(), refused_by_device()) != details.end();
    if (gave_rows || !(memory || refused || error.code() == ErrorCode::kNoDevice)) throw Error(error);
    details.emplace_back("delivered", "nothing");
    throw Error(error.code(), error.message(), std::move(details));
}

}  // namespace spillway
