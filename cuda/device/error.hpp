// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "api/error.hpp"

namespace spillway::cuda { inline namespace device {

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

}}  // namespace spillway::cuda::device

#define SPILLWAY_CUDA_CHECK(expression) ::spillway::cuda::check((expression), #expression)
