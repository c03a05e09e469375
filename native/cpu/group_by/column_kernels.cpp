// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/column_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/group_by/aggregate_state.hpp"

// The loops are written once, over vectors as wide as the registers of the function they are inlined into; the target
// attributes below say which these may be. Nothing else in this file may have them. (As plain loops over lanes
// compilers left half of them scalar.)
#define SPILLWAY_INLINE [[gnu::always_inline]] inline

namespace spillway {

namespace {

constexpr int64_t kLanes = 16;  // of a step of a loop: 128 bytes, two lines of the cache

template <uint32_t kBytes>
struct Vectors {
    // GCC takes the attribute for a type that depends on a parameter in a typedef only.
    typedef uint64_t Words __attribute__((vector_size(kBytes)));
    typedef int64_t Signed __attribute__((vector_size(kBytes)));
    static constexpr int64_t kWords = kBytes / 8;

    SPILLWAY_INLINE static void load(Words& words, const uint8_t* from) { std::memcpy(&words, from, kBytes); }
    // All bits of a word are its sign.
    SPILLWAY_INLINE static void signs(const Words& words, Words& result) {
        result = reinterpret_cast<Words>(reinterpret_cast<Signed>(words) >> 63);
    }
};
using Pair = Vectors<16>::Words;
using Quad = Vectors<32>::Words;
using Octet = Vectors<64>::Words;

// The first of every two words, and the second. (GCC 12 has no shuffles of types that depend on a parameter.)
SPILLWAY_INLINE void split(const Pair& a, const Pair& b, Pair& first, Pair& second) {
    first = __builtin_shufflevector(a, b, 0, 2);
    second = __builtin_shufflevector(a, b, 1, 3);
}
SPILLWAY_INLINE void split(const Quad& a, const Quad& b, Quad& first, Quad& second) {
    first = __builtin_shufflevector(a, b, 0, 2, 4, 6);
    second = __builtin_shufflevector(a, b, 1, 3, 5, 7);
}
SPILLWAY_INLINE void split(const Octet& a, const Octet& b, Octet& first, Octet& second) {
    first = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
    second = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

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

template <uint32_t kBytes, bool kSigned>
SPILLWAY_INLINE WordSum sum_words(const uint8_t* words, int64_t count) {
    using V = Vectors<kBytes>;
    typename V::Words sums = {};
    typename V::Words magnitudes = {};
    typename V::Words word;
    typename V::Words sign;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        fetch_ahead(words + i * 8);
        for (int64_t lane = 0; lane < kLanes; lane += V::kWords) {
            V::load(word, words + (i + lane) * 8);
            sums += word;
            if constexpr (kSigned) {
                V::signs(word, sign);
                magnitudes |= word ^ sign;
            } else {
                magnitudes |= word;
            }
        }
    }
    WordSum result{0, 0};
    for (; i < count; ++i) {
        result.sum += word_at(words, i);
        result.magnitude |= magnitude_of<kSigned>(word_at(words, i));
    }
    for (int64_t lane = 0; lane < V::kWords; ++lane) {
        result.sum += sums[lane];
        result.magnitude |= magnitudes[lane];
    }
    return result;
}

template <uint32_t kBytes, class T>
SPILLWAY_INLINE WordExtremes extremes(const uint8_t* words, int64_t count) {
    constexpr int64_t kWords = Vectors<kBytes>::kWords;
    typedef T Values __attribute__((vector_size(kBytes)));
    const T first = static_cast<T>(word_at(words, 0));
    Values least = first - Values{};
    Values most = least;
    Values value;
    int64_t i = 0;
    for (; i + kWords <= count; i += kWords) {
        std::memcpy(&value, words + i * 8, kBytes);
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    T min = first;
    T max = first;
    for (; i < count; ++i) {
        const T single = static_cast<T>(word_at(words, i));
        min = std::min(min, single);
        max = std::max(max, single);
    }
    for (int64_t lane = 0; lane < kWords; ++lane) {
        min = std::min<T>(min, least[lane]);
        max = std::max<T>(max, most[lane]);
    }
    return {static_cast<uint64_t>(min), static_cast<uint64_t>(max)};
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

template <uint32_t kBytes, bool kKeep>
SPILLWAY_INLINE DecimalSum64 sum_low_words(const uint8_t* decimals, int64_t count, uint64_t* low_words) {
    using V = Vectors<kBytes>;
    constexpr int64_t kDecimals = kLanes / 2;
    typename V::Words sums = {};
    typename V::Words magnitudes = {};
    typename V::Words wide = {};
    typename V::Words a;
    typename V::Words b;
    typename V::Words low;
    typename V::Words high;
    int64_t i = 0;
    for (; i + kDecimals <= count; i += kDecimals) {
        fetch_ahead(decimals + i * 16);
        for (int64_t lane = 0; lane < kDecimals; lane += V::kWords) {
            V::load(a, decimals + (i + lane) * 16);
            V::load(b, decimals + (i + lane) * 16 + kBytes);
            split(a, b, low, high);
            V::signs(low, a);
            sums += low;
            magnitudes |= low ^ a;
            wide |= high ^ a;
            if constexpr (kKeep) std::memcpy(low_words + i + lane, &low, kBytes);
        }
    }
    DecimalSum64 result{0, 0, 0};
    for (; i < count; ++i) {
        const uint64_t word = word_at(decimals, i * 2);
        const uint64_t sign = static_cast<uint64_t>(static_cast<int64_t>(word) >> 63);
        result.sum += word;
        result.magnitude |= word ^ sign;
        result.wide |= word_at(decimals, i * 2 + 1) ^ sign;
        if constexpr (kKeep) low_words[i] = word;
    }
    for (int64_t lane = 0; lane < V::kWords; ++lane) {
        result.sum += sums[lane];
        result.magnitude |= magnitudes[lane];
        result.wide |= wide[lane];
    }
    return result;
}

template <uint32_t kBytes>
SPILLWAY_INLINE int64_t chosen_words(const uint8_t* words, const uint8_t* bits, int64_t first_bit, int64_t count,
                                     uint64_t otherwise, uint64_t* chosen) {
    using V = Vectors<kBytes>;
    typename V::Words shifts;
    for (int64_t lane = 0; lane < V::kWords; ++lane) shifts[lane] = static_cast<uint64_t>(lane);
    const typename V::Words others = otherwise - typename V::Words{};
    typename V::Words word;
    int64_t set = 0;
    int64_t i = 0;
    const uint8_t* byte = bits + first_bit / 8;
    const auto shift = static_cast<unsigned>(first_bit % 8);
    // Eight rows have their bits in one byte, or in two where the first bit is not the first of a byte.
    for (; i + 8 <= count; i += 8, ++byte) {
        const unsigned pair = byte[0] | (shift == 0 ? 0u : static_cast<unsigned>(byte[1]) << 8);
        const uint64_t mask = (pair >> shift) & 0xff;
        set += std::popcount(mask);
        for (int64_t lane = 0; lane < 8; lane += V::kWords) {
            const typename V::Words keep = -((((mask >> lane) - typename V::Words{}) >> shifts) & 1);
            V::load(word, words + (i + lane) * 8);
            word = (word & keep) | (others & ~keep);
            std::memcpy(chosen + i + lane, &word, kBytes);
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

using SignedQuad = Vectors<32>::Signed;
using DoubleQuad = double __attribute__((vector_size(32)));

// fold(i, row of four words) for every row of four columns.
template <bool kVectors, class Fold>
SPILLWAY_INLINE void for_each_quad(const uint8_t* const* columns, int64_t count, const Fold& fold) {
    int64_t i = 0;
    if constexpr (kVectors) {
        Quad a;
        Quad b;
        Quad c;
        Quad d;
        for (; i + 4 <= count; i += 4) {
            Vectors<32>::load(a, columns[0] + i * 8);
            Vectors<32>::load(b, columns[1] + i * 8);
            Vectors<32>::load(c, columns[2] + i * 8);
            Vectors<32>::load(d, columns[3] + i * 8);
            const Quad ab02 = __builtin_shufflevector(a, b, 0, 4, 2, 6);
            const Quad ab13 = __builtin_shufflevector(a, b, 1, 5, 3, 7);
            const Quad cd02 = __builtin_shufflevector(c, d, 0, 4, 2, 6);
            const Quad cd13 = __builtin_shufflevector(c, d, 1, 5, 3, 7);
            fold(i, __builtin_shufflevector(ab02, cd02, 0, 1, 4, 5));
            fold(i + 1, __builtin_shufflevector(ab13, cd13, 0, 1, 4, 5));
            fold(i + 2, __builtin_shufflevector(ab02, cd02, 2, 3, 6, 7));
            fold(i + 3, __builtin_shufflevector(ab13, cd13, 2, 3, 6, 7));
        }
    }
    for (; i < count; ++i) {
        fold(i, Quad{word_at(columns[0], i), word_at(columns[1], i), word_at(columns[2], i), word_at(columns[3], i)});
    }
}

template <bool kVectors>
SPILLWAY_INLINE void add_each_quad(const uint8_t* const* columns, const uint32_t* places, int64_t count,
                                   uint64_t* into) {
    for_each_quad<kVectors>(columns, count, [=] [[gnu::always_inline]] (int64_t i, const Quad& words) {
        uint64_t* at = into + uint64_t{places[i]} * 4;
        Quad sums;
        std::memcpy(&sums, at, sizeof sums);
        sums += words;
        std::memcpy(at, &sums, sizeof sums);
    });
}

template <bool kVectors>
SPILLWAY_INLINE void choose_each_quad(const uint8_t* const* columns, const uint64_t* flips, const uint32_t* places,
                                      int64_t count, uint64_t* into) {
    Quad flip;
    std::memcpy(&flip, flips, sizeof flip);
    for_each_quad<kVectors>(columns, count, [=] [[gnu::always_inline]] (int64_t i, const Quad& words) {
        uint64_t* at = into + uint64_t{places[i]} * 4;
        const auto values = reinterpret_cast<SignedQuad>(words ^ flip);
        SignedQuad best;
        std::memcpy(&best, at, sizeof best);
        best = values > best ? values : best;
        std::memcpy(at, &best, sizeof best);
    });
}

template <bool kVectors>
SPILLWAY_INLINE void add_each_double_quad(const uint8_t* const* columns, const uint32_t* places, int64_t count,
                                          double* into) {
    for_each_quad<kVectors>(columns, count, [=] [[gnu::always_inline]] (int64_t i, const Quad& words) {
        double* at = into + uint64_t{places[i]} * 8;
        const auto values = reinterpret_cast<DoubleQuad>(words);
        DoubleQuad sums;
        DoubleQuad compensations;
        std::memcpy(&sums, at, sizeof sums);
        std::memcpy(&compensations, at + 4, sizeof compensations);
        add_exactly(values, sums, compensations);
        std::memcpy(at, &sums, sizeof sums);
        std::memcpy(at + 4, &compensations, sizeof compensations);
    });
}

// One set of functions for each instruction set. Registers of kBytes; quads take 32 of them.
#define SPILLWAY_COLUMN_KERNELS(NAME, TARGET, kBytes)                                                                  \
    namespace NAME {                                                                                                   \
    TARGET WordSum sum_signed(const uint8_t* words, int64_t count) {                                                   \
        return sum_words<kBytes, true>(words, count);                                                                  \
    }                                                                                                                  \
    TARGET WordSum sum_unsigned(const uint8_t* words, int64_t count) {                                                 \
        return sum_words<kBytes, false>(words, count);                                                                 \
    }                                                                                                                  \
    TARGET WordExtremes extremes_signed(const uint8_t* words, int64_t count) {                                         \
        return extremes<kBytes, int64_t>(words, count);                                                                \
    }                                                                                                                  \
    TARGET WordExtremes extremes_unsigned(const uint8_t* words, int64_t count) {                                       \
        return extremes<kBytes, uint64_t>(words, count);                                                               \
    }                                                                                                                  \
    TARGET CompensatedSum sum_doubles(const uint8_t* doubles, int64_t count) {                                         \
        return sum_of_doubles(doubles, count);                                                                         \
    }                                                                                                                  \
    TARGET DecimalSum64 sum_decimals(const uint8_t* decimals, int64_t count) {                                         \
        return sum_low_words<kBytes, false>(decimals, count, nullptr);                                                 \
    }                                                                                                                  \
    TARGET DecimalSum64 narrow_decimals(const uint8_t* decimals, int64_t count, uint64_t* low) {                       \
        return sum_low_words<kBytes, true>(decimals, count, low);                                                      \
    }                                                                                                                  \
    TARGET void add_quads(const uint8_t* const* columns, const uint32_t* places, int64_t count, uint64_t* into) {      \
        add_each_quad<(kBytes >= 32)>(columns, places, count, into);                                                   \
    }                                                                                                                  \
    TARGET void choose_quads(const uint8_t* const* columns, const uint64_t* flips, const uint32_t* places,             \
                             int64_t count, uint64_t* into) {                                                          \
        choose_each_quad<(kBytes >= 32)>(columns, flips, places, count, into);                                         \
    }                                                                                                                  \
    TARGET void add_double_quads(const uint8_t* const* columns, const uint32_t* places, int64_t count, double* into) { \
        add_each_double_quad<(kBytes >= 32)>(columns, places, count, into);                                            \
    }                                                                                                                  \
    TARGET int64_t choose_words(const uint8_t* words, const uint8_t* bits, int64_t first_bit, int64_t count,           \
                                uint64_t otherwise, uint64_t* chosen) {                                                \
        return chosen_words<kBytes>(words, bits, first_bit, count, otherwise, chosen);                                 \
    }                                                                                                                  \
    constexpr ColumnKernels kKernels{sum_signed,   sum_unsigned,     extremes_signed, extremes_unsigned,               \
                                     sum_doubles,  sum_decimals,     narrow_decimals, add_quads,                       \
                                     choose_quads, add_double_quads, choose_words};                                    \
    }

SPILLWAY_COLUMN_KERNELS(portable, , 16)
#if defined(__x86_64__)
SPILLWAY_COLUMN_KERNELS(avx2, [[gnu::target("avx2")]], 32)
SPILLWAY_COLUMN_KERNELS(avx512, [[gnu::target("avx512f,avx512dq,avx512vl,avx512bw")]], 64)
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
