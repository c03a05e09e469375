// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// Sum of words modulo 2^64, and an upper bound of what they add up to: |sum of any of them| <= count * (magnitude + 1).
struct WordSum {
    uint64_t sum;
    uint64_t magnitude;
};
struct WordExtremes {
    uint64_t min;
    uint64_t max;
};
struct CompensatedSum {
    double sum;
    double compensation;
};
// Decimals of 128 bits: `wide` is not 0 where one of them does not fit 64 bits; the sum says nothing then.
struct DecimalSum64 {
    uint64_t sum;
    uint64_t magnitude;
    uint64_t wide;
};

// Passes over values that lie side by side, not necessarily aligned. They read 8 or 16 bytes a value and do a few
// operations on each, so that they run at the speed of the memory or of the cache that the values are in.
struct ColumnKernels {
    WordSum (*sum_signed)(const uint8_t* words, int64_t count);
    WordSum (*sum_unsigned)(const uint8_t* words, int64_t count);
    WordExtremes (*extremes_signed)(const uint8_t* words, int64_t count);  // count > 0
    WordExtremes (*extremes_unsigned)(const uint8_t* words, int64_t count);
    CompensatedSum (*sum_doubles)(const uint8_t* doubles, int64_t count);
    DecimalSum64 (*sum_decimals)(const uint8_t* decimals, int64_t count);
    // As sum_decimals(), and the low words of the decimals to `low`.
    DecimalSum64 (*narrow_decimals)(const uint8_t* decimals, int64_t count, uint64_t* low);
    // Rows of four columns of words into places of four words each, lane by lane: into[4 * places[i] + lane].
    void (*add_quads)(const uint8_t* const* columns, const uint32_t* places, int64_t count, uint64_t* into);
    // The greater one, as signed words, of what is there and the value with the bits of `flips` inverted.
    void (*choose_quads)(const uint8_t* const* columns, const uint64_t* flips, const uint32_t* places, int64_t count,
                         uint64_t* into);
    // Compensated sums of doubles: a place has four sums and then their compensations.
    void (*add_double_quads)(const uint8_t* const* columns, const uint32_t* places, int64_t count, double* into);
    // `words` where the bit is set, `otherwise` where it is not. Returns how many bits are set.
    int64_t (*choose_words)(const uint8_t* words, const uint8_t* bits, int64_t first_bit, int64_t count,
                            uint64_t otherwise, uint64_t* chosen);
};

// The best that the processor has.
const ColumnKernels& column_kernels();
// By instruction set; nullptr where the processor or the compiler lacks it. For tests and comparisons.
const ColumnKernels& portable_column_kernels();
const ColumnKernels* avx2_column_kernels();
const ColumnKernels* avx512_column_kernels();

}  // namespace spillway
