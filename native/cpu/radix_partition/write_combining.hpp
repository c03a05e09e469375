// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace spillway {

// Copies one full write-combining buffer (`bytes` a multiple of 64, both ends 64-byte aligned) past the caches: the
// lines of a partition are not read again during the pass, and a plain store would first read each line from memory
// (24 bytes moved per 8 written instead of 16). x86-64: non-temporal stores. AArch64: STNP pairs, a hint for the same.
// POWER has no non-temporal vector store; whole-line vector copies are what its store gathering combines.
inline void stream_line_copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
#if defined(__SSE2__)
    for (uint64_t i = 0; i < bytes; i += 64) {
        const __m128i a = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i));
        const __m128i b = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + 16));
        const __m128i c = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + 32));
        const __m128i d = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i + 48));
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), a);
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 16), b);
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 32), c);
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 48), d);
    }
#elif defined(__aarch64__)
    for (uint64_t i = 0; i < bytes; i += 32) {
        uint64_t a, b, c, d;
        std::memcpy(&a, from + i, 8);
        std::memcpy(&b, from + i + 8, 8);
        std::memcpy(&c, from + i + 16, 8);
        std::memcpy(&d, from + i + 24, 8);
        asm volatile("stnp %1, %2, [%0]\n\tstnp %3, %4, [%0, #16]"
                     :
                     : "r"(to + i), "r"(a), "r"(b), "r"(c), "r"(d)
                     : "memory");
    }
#else
    std::memcpy(to, from, bytes);
#endif
}

// Non-temporal stores are weakly ordered: before other workers may read the pages.
inline void stream_fence() {
#if defined(__SSE2__)
    _mm_sfence();
#elif defined(__aarch64__)
    asm volatile("dmb ishst" ::: "memory");
#endif
}

}  // namespace spillway
