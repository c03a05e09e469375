// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// The least and the greatest of signed values, extended to 64 bits.
struct ValueRange {
    int64_t min;
    int64_t max;
};

// The inner loops of packing, compiled for one instruction set and one size of word. A block here is 1,024 values of
// the size of a word, at any address. They use nothing but raw memory, so that no inline function of the rest of the
// engine is ever compiled for a machine that may lack these instructions.
struct BlockKernels {
    ValueRange (*range)(const void* block);
    // Packs a block into `bits` words of each lane, and returns the range of the block at `next`, which thereby comes
    // from memory meanwhile. bits: at least 1 and less than a word has, and no value lies 2^bits or more above the
    // base.
    ValueRange (*pack)(const void* block, uint64_t base, uint32_t bits, void* words, const void* next);
    void (*unpack)(const void* words, uint64_t base, uint32_t bits, void* block);
    // The same past the caches, for blocks that are 64-byte aligned; a fence has to follow.
    void (*unpack_past)(const void* words, uint64_t base, uint32_t bits, void* block);
};

struct ValuePackingKernels {
    BlockKernels words32;
    BlockKernels words64;
};

const ValuePackingKernels* generic_packing_kernels();
// Whether the processor has it or not; nullptr on other architectures.
const ValuePackingKernels* avx2_packing_kernels();
const ValuePackingKernels* avx512_packing_kernels();

#if defined(__x86_64__)
namespace detail {

// What the intrinsics of stores past the caches take.
template <uint32_t kBytes>
struct Quads {
    typedef long long Type __attribute__((vector_size(kBytes)));
};
[[gnu::always_inline]] static inline void store_past(Quads<16>::Type quads, uint8_t* to) {
    __builtin_ia32_movntdq(reinterpret_cast<Quads<16>::Type*>(to), quads);
}
#if defined(__AVX2__)
[[gnu::always_inline]] static inline void store_past(Quads<32>::Type quads, uint8_t* to) {
    __builtin_ia32_movntdq256(reinterpret_cast<Quads<32>::Type*>(to), quads);
}
#endif
#if defined(__AVX512F__)
[[gnu::always_inline]] static inline void store_past(Quads<64>::Type quads, uint8_t* to) {
    __builtin_ia32_movntdq512(reinterpret_cast<Quads<64>::Type*>(to), quads);
}
#endif

}  // namespace detail
#endif

// A row of a block is the words of all lanes, 128 bytes side by side in as many vectors as they fill. No two files may
// take the same kVectorBytes: of equal instances the linker keeps one, whatever instructions it was compiled for.
template <typename Word, typename Signed, uint32_t kVectorBytes>
struct RowKernels {
    // GCC takes the attribute for a type that depends on a parameter in a typedef only.
    typedef Word Words __attribute__((vector_size(kVectorBytes)));
    typedef Signed Values __attribute__((vector_size(kVectorBytes)));

    static constexpr uint32_t kRowBytes = 128;
    static constexpr uint32_t kVectors = kRowBytes / kVectorBytes;
    static constexpr uint32_t kWordBits = 8 * sizeof(Word);
    static constexpr uint32_t kRows = kWordBits;  // 1,024 values in kRowBytes / sizeof(Word) lanes
    // The processor's own prefetching ends with each page. From one to four KiB it matters little how far ahead; beyond
    // the column a prefetch has no effect.
    static constexpr uint32_t kAheadBytes = 3072;

    template <typename Vector>
    [[gnu::always_inline]] static void load(Vector& vector, const uint8_t* row, uint32_t v) {
        __builtin_memcpy(&vector, row + v * kVectorBytes, kVectorBytes);
    }
    [[gnu::always_inline]] static void store(const Words& vector, uint8_t* row, uint32_t v) {
        __builtin_memcpy(row + v * kVectorBytes, &vector, kVectorBytes);
    }
    [[gnu::always_inline]] static void store_past(const Words& vector, uint8_t* row, uint32_t v) {
#if defined(__x86_64__)
        detail::store_past(reinterpret_cast<typename detail::Quads<kVectorBytes>::Type>(vector),
                           row + v * kVectorBytes);
#else
        store(vector, row, v);
#endif
    }
    template <int kToWrite>
    [[gnu::always_inline]] static void prefetch(const uint8_t* row) {
        constexpr int kLevel = kToWrite == 1 ? 3 : 2;  // a row that is read waits in the second-level cache
        __builtin_prefetch(row, kToWrite, kLevel);
        __builtin_prefetch(row + kRowBytes / 2, kToWrite, kLevel);
    }

    struct Ranges {
        Values min[kVectors];
        Values max[kVectors];

        [[gnu::always_inline]] explicit Ranges(const uint8_t* row) {
#pragma GCC unroll 8
            for (uint32_t v = 0; v < kVectors; ++v) {
                load(min[v], row, v);
                max[v] = min[v];
            }
        }
        [[gnu::always_inline]] void add(const uint8_t* row) {
#pragma GCC unroll 8
            for (uint32_t v = 0; v < kVectors; ++v) {
                Values values;
                load(values, row, v);
                min[v] = values < min[v] ? values : min[v];
                max[v] = values > max[v] ? values : max[v];
            }
        }
        [[gnu::always_inline]] ValueRange all() const {
            Values least = min[0];
            Values greatest = max[0];
#pragma GCC unroll 8
            for (uint32_t v = 1; v < kVectors; ++v) {
                least = min[v] < least ? min[v] : least;
                greatest = max[v] > greatest ? max[v] : greatest;
            }
            ValueRange all{least[0], greatest[0]};
            for (uint32_t lane = 1; lane < kVectorBytes / sizeof(Word); ++lane) {
                if (least[lane] < all.min) all.min = least[lane];
                if (greatest[lane] > all.max) all.max = greatest[lane];
            }
            return all;
        }
    };

    static ValueRange range(const void* block) {
        const auto* row = static_cast<const uint8_t*>(block);
        Ranges ranges(row);
        for (uint32_t r = 1; r < kRows; ++r) ranges.add(row + r * kRowBytes);
        return ranges.all();
    }

    static ValueRange pack(const void* block, uint64_t base, uint32_t bits, void* words, const void* next) {
        const auto* row = static_cast<const uint8_t*>(block);
        const auto* next_row = static_cast<const uint8_t*>(next);
        auto* to = static_cast<uint8_t*>(words);
        Ranges ranges(next_row);
        const Words bases = Words{} + static_cast<Word>(base);
        Words gathered[kVectors] = {};
        uint32_t at = 0;  // bits in each word of `gathered`
        for (uint32_t r = 0; r < kRows; ++r, row += kRowBytes, next_row += kRowBytes) {
            Words values[kVectors];
#pragma GCC unroll 8
            for (uint32_t v = 0; v < kVectors; ++v) {
                load(values[v], row, v);
                values[v] -= bases;
                gathered[v] |= values[v] << static_cast<Word>(at);
            }
            ranges.add(next_row);
            prefetch<0>(next_row + kAheadBytes);
            at += bits;
            if (at < kWordBits) continue;
            at -= kWordBits;
            // The next words begin with the bits that did not fit. If all did, none are left of a value below 2^bits.
#pragma GCC unroll 8
            for (uint32_t v = 0; v < kVectors; ++v) {
                store(gathered[v], to, v);
                gathered[v] = values[v] >> static_cast<Word>(bits - at);
            }
            to += kRowBytes;
        }
        return ranges.all();
    }

    static void unpack(const void* words, uint64_t base, uint32_t bits, void* block) {
        unpack_by<false>(words, base, bits, block);
    }
    static void unpack_past(const void* words, uint64_t base, uint32_t bits, void* block) {
        unpack_by<true>(words, base, bits, block);
    }

    template <bool kPast>
    [[gnu::always_inline]] static void unpack_by(const void* words, uint64_t base, uint32_t bits, void* block) {
        const auto* from = static_cast<const uint8_t*>(words);
        auto* row = static_cast<uint8_t*>(block);
        const Words bases = Words{} + static_cast<Word>(base);
        const Words mask = Words{} + static_cast<Word>((uint64_t{1} << bits) - 1);
        Words packed[kVectors];
#pragma GCC unroll 8
        for (uint32_t v = 0; v < kVectors; ++v) load(packed[v], from, v);
        uint32_t at = 0;  // bits of `packed` that are unpacked
        for (uint32_t r = 0; r < kRows; ++r, row += kRowBytes) {
            if (!kPast) prefetch<1>(row + kAheadBytes);
            Words values[kVectors];
#pragma GCC unroll 8
            for (uint32_t v = 0; v < kVectors; ++v) values[v] = packed[v] >> static_cast<Word>(at);
            at += bits;
            // The last row ends with the last words, behind which nothing may be read.
            if (at >= kWordBits && r + 1 < kRows) {
                at -= kWordBits;
                from += kRowBytes;
                // If a value ended with its word, all that this adds to it is masked.
#pragma GCC unroll 8
                for (uint32_t v = 0; v < kVectors; ++v) {
                    load(packed[v], from, v);
                    values[v] |= packed[v] << static_cast<Word>(bits - at);
                }
            }
#pragma GCC unroll 8
            for (uint32_t v = 0; v < kVectors; ++v) {
                const Words value = (values[v] & mask) + bases;
                kPast ? store_past(value, row, v) : store(value, row, v);
            }
        }
    }

    static constexpr BlockKernels kKernels{range, pack, unpack, unpack_past};
};

template <uint32_t kVectorBytes>
constexpr ValuePackingKernels kValuePackingKernels{RowKernels<uint32_t, int32_t, kVectorBytes>::kKernels,
                                                   RowKernels<uint64_t, int64_t, kVectorBytes>::kKernels};

}  // namespace spillway
