// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Stores that leave the caches alone, of processors that have them. Without any CUDA.
namespace spillway::cuda { inline namespace baseline_join {

constexpr uint64_t kCacheLineBytes = 64;

// Copies whole cache lines; both addresses are multiples of one. Others see them after end_streaming() of the thread
// that wrote them.
void stream_lines(void* to, const void* from, uint64_t bytes) noexcept;
void end_streaming() noexcept;

}}  // namespace spillway::cuda::baseline_join
