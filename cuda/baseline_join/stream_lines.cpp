// SPDX-License-Identifier: Apache-2.0
#include "baseline_join/stream_lines.hpp"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace spillway::cuda { inline namespace baseline_join {

// An ordinary store reads a line before it overwrites it, and pushes one out that somebody may need.
void stream_lines(void* to, const void* from, uint64_t bytes) noexcept {
#if defined(__SSE2__)
    auto* const target = static_cast<__m128i*>(to);
    const auto* const source = static_cast<const __m128i*>(from);
    for (uint64_t i = 0; i < bytes / sizeof(__m128i); ++i) _mm_stream_si128(target + i, _mm_load_si128(source + i));
#else
    std::memcpy(to, from, bytes);
#endif
}

void end_streaming() noexcept {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

}}  // namespace spillway::cuda::baseline_join
