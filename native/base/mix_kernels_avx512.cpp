// SPDX-License-Identifier: Apache-2.0
// Compiled with -mavx512f -mavx512dq on x86-64 (CMakeLists.txt): include nothing here that defines inline functions.
#include "base/mix_kernels.hpp"

#if defined(__AVX512DQ__)

#include <immintrin.h>

namespace spillway {

namespace {

// Constants and steps of mix64 and unmix64 in base/hash.hpp.
inline __m512i eight_times(uint64_t word) {
    return _mm512_set1_epi64(static_cast<int64_t>(word));
}

inline __m512i fold(__m512i x, unsigned shift) {
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, shift));
}

inline __m512i unfold(__m512i x, unsigned shift) {
    return _mm512_xor_si512(x, _mm512_xor_si512(_mm512_srli_epi64(x, shift), _mm512_srli_epi64(x, 2 * shift)));
}

void mix(const uint64_t* from, uint64_t count, uint64_t* to) {
    const __m512i first = eight_times(0xbf58476d1ce4e5b9ULL);
    const __m512i second = eight_times(0x94d049bb133111ebULL);
    for (uint64_t i = 0; i < count; i += 8) {
        __m512i x = _mm512_loadu_si512(from + i);
        x = _mm512_mullo_epi64(fold(x, 30), first);
        x = _mm512_mullo_epi64(fold(x, 27), second);
        _mm512_storeu_si512(to + i, fold(x, 31));
    }
}

void unmix(const uint64_t* from, uint64_t count, uint64_t* to) {
    const __m512i second = eight_times(0x319642b2d24d8ec3ULL);
    const __m512i first = eight_times(0x96de1b173f119089ULL);
    for (uint64_t i = 0; i < count; i += 8) {
        __m512i x = _mm512_loadu_si512(from + i);
        x = _mm512_mullo_epi64(unfold(x, 31), second);
        x = _mm512_mullo_epi64(unfold(x, 27), first);
        _mm512_storeu_si512(to + i, unfold(x, 30));
    }
}

constexpr MixKernels kKernels{mix, unmix};

}  // namespace

const MixKernels* avx512_mix_kernels() {
    return &kKernels;
}

}  // namespace spillway

#else

namespace spillway {

const MixKernels* avx512_mix_kernels() {
    return nullptr;
}

}  // namespace spillway

#endif
