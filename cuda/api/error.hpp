// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace spillway::cuda { inline namespace api {

enum class ErrorCode {
    kOutOfMemory,
    kCuda,       // a call or a kernel failed; see cuda_error
    kCancelled,  // somebody set Device::set_cancelled()
    kInvalid,    // an argument that no caller may give
    kInternal,   // a defect of this plugin
    kOverflow,   // a sum does not fit its type
};

enum class Tier { kDevice, kHost };

// The one exception of the plugin; it ends at the C interface (guard.hpp), where it becomes a status.
class Error : public std::exception {
  public:
    Error(ErrorCode code, std::string text) : code_(code), text_(std::move(text)) {}

    ErrorCode code() const { return code_; }
    const char* what() const noexcept override { return text_.c_str(); }

    // The fields down to limit_bytes describe kOutOfMemory. free_bytes is what could have been had: within the limit,
    // and from the driver.
    Tier tier = Tier::kDevice;
    bool limit_reached = false;  // the pool's own limit is in the way; false: the driver or the system refused
    uint64_t wanted_bytes = 0;
    uint64_t free_bytes = 0;
    uint64_t limit_bytes = 0;
    bool device_lost = false;  // a sticky error: the process must be restarted to use the device again
    int cuda_error = 0;        // number of the cudaError_t behind it, 0 = none

  private:
    ErrorCode code_;
    std::string text_;
};

// What no caller may ask for.
[[noreturn]] inline void refuse(const std::string& text) {
    throw Error(ErrorCode::kInvalid, text);
}

}}  // namespace spillway::cuda::api
