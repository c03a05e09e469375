// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// mix64 / unmix64 (base/hash.hpp) of `count` words that lie side by side; `to` may be `from`.
void mix_words(const uint64_t* from, uint64_t count, uint64_t* to);
void unmix_words(const uint64_t* from, uint64_t count, uint64_t* to);

// The same for the first word of rows of row_bytes (a multiple of 8), in place.
void mix_first_words(uint8_t* rows, uint64_t count, uint32_t row_bytes);
void unmix_first_words(uint8_t* rows, uint64_t count, uint32_t row_bytes);

// Compiled for AVX-512: eight 64-bit multiplications at once, which earlier instruction sets lack.
struct MixKernels {
    void (*mix)(const uint64_t* from, uint64_t count, uint64_t* to);  // count: a multiple of 8
    void (*unmix)(const uint64_t* from, uint64_t count, uint64_t* to);
};
// Whether the processor has it or not; nullptr on other architectures.
const MixKernels* avx512_mix_kernels();

}  // namespace spillway
