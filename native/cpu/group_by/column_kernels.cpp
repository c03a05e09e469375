// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/column_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/group_by/aggregate_state.hpp"

// The loops are written once, in lanes that a compiler turns into the vector instructions of the function they are
// inlined into; the target attributes below say which these may be. Nothing else in this file may have them.
#define SPILLWAY_INLINE [[gnu::always_inline]] inline

namespace spillway {

namespace {

constexpr int64_t kLanes = 16;  // two registers of 512 bits, four of 256: hides the latency of an addition

SPILLWAY_INLINE uint64_t word_at(const uint8_t* words, int64_t i) {
    uint64_t word;
    std::memcpy(&word, words + i * 8, 8);
    return word;
}

// A step of a group-by reads 8 KiB of each column, too little for the processor to run ahead in all of them: the next
// step's part is fetched meanwhile. (Addresses behind the end do no harm.)
SPILLWAY_INLINE void fetch_ahead(const uint8_t* values) {
    __builtin_prefetch(values + 8192, 0, 2);
    __builtin_prefetch(values + 8192 + 64, 0, 2);
}

// |value| <= magnitude + 1, for signed values as for those of unsigned types.
template <bool kSigned>
SPILLWAY_INLINE uint64_t magnitude_of(uint64_t word) {
    return kSigned ? word ^ static_cast<uint64_t>(static_cast<int64_t>(word) >> 63) : word;
}

template <bool kSigned>
SPILLWAY_INLINE WordSum sum_words(const uint8_t* words, int64_t count) {
    uint64_t sums[kLanes] = {};
    uint64_t magnitudes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        fetch_ahead(words + i * 8);
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            const uint64_t word = word_at(words, i + lane);
            sums[lane] += word;
            magnitudes[lane] |= magnitude_of<kSigned>(word);
        }
    }
    WordSum result{0, 0};
    for (; i < count; ++i) {
        result.sum += word_at(words, i);
        result.magnitude |= magnitude_of<kSigned>(word_at(words, i));
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) {
        result.sum += sums[lane];
        result.magnitude |= magnitudes[lane];
    }
    return result;
}

template <class T>
SPILLWAY_INLINE WordExtremes extremes(const uint8_t* words, int64_t count) {
    T least[kLanes];
    T most[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) least[lane] = most[lane] = static_cast<T>(word_at(words, 0));
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            const T value = static_cast<T>(word_at(words, i + lane));
            least[lane] = value < least[lane] ? value : least[lane];
            most[lane] = value > most[lane] ? value : most[lane];
        }
    }
    for (; i < count; ++i) {
        const T value = static_cast<T>(word_at(words, i));
        least[0] = value < least[0] ? value : least[0];
        most[0] = value > most[0] ? value : most[0];
    }
    for (int64_t lane = 1; lane < kLanes; ++lane) {
        least[0] = least[lane] < least[0] ? least[lane] : least[0];
        most[0] = most[lane] > most[0] ? most[lane] : most[0];
    }
    return {static_cast<uint64_t>(least[0]), static_cast<uint64_t>(most[0])};
}

SPILLWAY_INLINE CompensatedSum sum_of_doubles(const uint8_t* doubles, int64_t count) {
    double sums[kLanes] = {};
    double compensations[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            add_exactly(std::bit_cast<double>(word_at(doubles, i + lane)), sums[lane], compensations[lane]);
        }
    }
    CompensatedSum result{0, 0};
    for (; i < count; ++i) {
        add_exactly(std::bit_cast<double>(word_at(doubles, i)), result.sum, result.compensation);
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) {
        add_exactly(sums[lane], result.sum, result.compensation);
        result.compensation += compensations[lane];
    }
    return result;
}

template <bool kKeep>
SPILLWAY_INLINE DecimalSum64 sum_low_words(const uint8_t* decimals, int64_t count, uint64_t* low_words) {
    constexpr int64_t kDecimals = kLanes / 2;
    uint64_t sums[kDecimals] = {};
    uint64_t magnitudes[kDecimals] = {};
    uint64_t wide[kDecimals] = {};
    int64_t i = 0;
    for (; i + kDecimals <= count; i += kDecimals) {
        fetch_ahead(decimals + i * 16);
        for (int64_t lane = 0; lane < kDecimals; ++lane) {
            const uint64_t low = word_at(decimals, (i + lane) * 2);
            const uint64_t sign = static_cast<uint64_t>(static_cast<int64_t>(low) >> 63);
            sums[lane] += low;
            magnitudes[lane] |= low ^ sign;
            wide[lane] |= word_at(decimals, (i + lane) * 2 + 1) ^ sign;
            if constexpr (kKeep) low_words[i + lane] = low;
        }
    }
    DecimalSum64 result{0, 0, 0};
    for (; i < count; ++i) {
        const uint64_t low = word_at(decimals, i * 2);
        const uint64_t sign = static_cast<uint64_t>(static_cast<int64_t>(low) >> 63);
        result.sum += low;
        result.magnitude |= low ^ sign;
        result.wide |= word_at(decimals, i * 2 + 1) ^ sign;
        if constexpr (kKeep) low_words[i] = low;
    }
    for (int64_t lane = 0; lane < kDecimals; ++lane) {
        result.sum += sums[lane];
        result.magnitude |= magnitudes[lane];
        result.wide |= wide[lane];
    }
    return result;
}

SPILLWAY_INLINE int64_t chosen_words(const uint8_t* words, const uint8_t* bits, int64_t first_bit, int64_t count,
                                     uint64_t otherwise, uint64_t* chosen) {
    int64_t set = 0;
    int64_t i = 0;
    const uint8_t* byte = bits + first_bit / 8;
    const auto shift = static_cast<unsigned>(first_bit % 8);
    // Eight rows have their bits in one byte, or in two where the first bit is not the first of a byte.
    for (; i + 8 <= count; i += 8, ++byte) {
        const unsigned pair = byte[0] | (shift == 0 ? 0u : static_cast<unsigned>(byte[1]) << 8);
        const uint64_t mask = (pair >> shift) & 0xff;
        set += std::popcount(mask);
        for (int64_t lane = 0; lane < 8; ++lane) {
            const uint64_t keep = uint64_t{0} - ((mask >> lane) & 1);
            chosen[i + lane] = (word_at(words, i + lane) & keep) | (otherwise & ~keep);
        }
    }
    for (; i < count; ++i) {
        const int64_t at = first_bit + i;
        const bool valid = ((bits[at / 8] >> (at % 8)) & 1) != 0;
        set += valid ? 1 : 0;
        chosen[i] = valid ? word_at(words, i) : otherwise;
    }
    return set;
}

// One set of functions for each instruction set.
#define SPILLWAY_COLUMN_KERNELS(NAME, TARGET)                                                                \
    namespace NAME {                                                                                         \
    TARGET WordSum sum_signed(const uint8_t* words, int64_t count) {                                         \
        return sum_words<true>(words, count);                                                                \
    }                                                                                                        \
    TARGET WordSum sum_unsigned(const uint8_t* words, int64_t count) {                                       \
        return sum_words<false>(words, count);                                                               \
    }                                                                                                        \
    TARGET WordExtremes extremes_signed(const uint8_t* words, int64_t count) {                               \
        return extremes<int64_t>(words, count);                                                              \
    }                                                                                                        \
    TARGET WordExtremes extremes_unsigned(const uint8_t* words, int64_t count) {                             \
        return extremes<uint64_t>(words, count);                                                             \
    }                                                                                                        \
    TARGET CompensatedSum sum_doubles(const uint8_t* doubles, int64_t count) {                               \
        return sum_of_doubles(doubles, count);                                                               \
    }                                                                                                        \
    TARGET DecimalSum64 sum_decimals(const uint8_t* decimals, int64_t count) {                               \
        return sum_low_words<false>(decimals, count, nullptr);                                               \
    }                                                                                                        \
    TARGET DecimalSum64 narrow_decimals(const uint8_t* decimals, int64_t count, uint64_t* low) {             \
        return sum_low_words<true>(decimals, count, low);                                                    \
    }                                                                                                        \
    TARGET int64_t choose_words(const uint8_t* words, const uint8_t* bits, int64_t first_bit, int64_t count, \
                                uint64_t otherwise, uint64_t* chosen) {                                      \
        return chosen_words(words, bits, first_bit, count, otherwise, chosen);                               \
    }                                                                                                        \
    constexpr ColumnKernels kKernels{sum_signed,  sum_unsigned, extremes_signed, extremes_unsigned,          \
                                     sum_doubles, sum_decimals, narrow_decimals, choose_words};              \
    }

SPILLWAY_COLUMN_KERNELS(portable, )
#if defined(__x86_64__)
SPILLWAY_COLUMN_KERNELS(avx2, [[gnu::target("avx2")]])
SPILLWAY_COLUMN_KERNELS(avx512, [[gnu::target("avx512f,avx512dq,avx512vl,avx512bw")]])
#endif

}  // namespace

const ColumnKernels& portable_column_kernels() {
    return portable::kKernels;
}

#if defined(__x86_64__)

const ColumnKernels* avx2_column_kernels() {
    return __builtin_cpu_supports("avx2") ? &avx2::kKernels : nullptr;
}

const ColumnKernels* avx512_column_kernels() {
    static const bool has_it = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    return has_it ? &avx512::kKernels : nullptr;
}

#else

const ColumnKernels* avx2_column_kernels() {
    return nullptr;
}

const ColumnKernels* avx512_column_kernels() {
    return nullptr;
}

#endif

const ColumnKernels& column_kernels() {
    static const ColumnKernels& best = avx512_column_kernels() != nullptr ? *avx512_column_kernels()
                                       : avx2_column_kernels() != nullptr ? *avx2_column_kernels()
                                                                          : portable_column_kernels();
    return best;
}

}  // namespace spillway
