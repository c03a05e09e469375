// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace spillway::cuda {

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

    // Of kOutOfMemory. free_bytes is what could have been had: within the limit, and from the driver.
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

// Errors after which the context is unusable: every later call fails with the same one until the process ends.
bool is_sticky(cudaError_t status);

// Throws Error unless `status` is cudaSuccess; cudaErrorMemoryAllocation becomes kOutOfMemory. The runtime remembers
// the last error per host thread: one that is not sticky is cleared, so that the check of a later launch cannot find
// it. A sticky one marks the device as lost, for every Device of this process.
void check(cudaError_t status, const char* what);

// The same for paths that must not throw: clears or marks, and forgets.
void discard(cudaError_t status) noexcept;

// Makes the device current for this host thread, and remembers it for what check() has to blame. Throws when the
// device is lost.
void set_device(int ordinal);
// The same for destructors; false: the device cannot be used.
bool try_set_device(int ordinal) noexcept;

// Empty, or why the device can no longer be used by this process.
std::string lost_reason(int ordinal);
bool is_lost(int ordinal) noexcept;

}  // namespace spillway::cuda

#define SPILLWAY_CUDA_CHECK(expression) ::spillway::cuda::check((expression), #expression)
