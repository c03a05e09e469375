// SPDX-License-Identifier: Apache-2.0
// Compiled with -mavx2 on x86-64 (CMakeLists.txt): include nothing here that defines inline functions.
#include "cpu/hash_join/vector_probing_kernels.hpp"

#if defined(__AVX2__)

#include <immintrin.h>

namespace spillway {

namespace {

// AVX-512 compares the line with one instruction instead of four, and was no faster: the line's way from the cache is
// what takes the time.
inline uint32_t equal_words(const uint64_t* bucket, __m256i word) {
    const __m256i low = _mm256_cmpeq_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(bucket)), word);
    const __m256i high = _mm256_cmpeq_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(bucket + 4)), word);
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(low))) |
           static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(high))) << 4;
}

inline __m256i four_times(uint64_t word) {
    return _mm256_set1_epi64x(static_cast<int64_t>(word));
}

inline uint64_t word_of(const uint8_t* row) {
    uint64_t word;
    __builtin_memcpy(&word, row, 8);
    return word;
}

inline uint64_t bucket_of(const WordBuckets& buckets, uint64_t word) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(word & buckets.hash_mask)) * buckets.count) >> 32;
}

inline uint64_t after(const WordBuckets& buckets, uint64_t bucket) {
    return bucket + 1 == buckets.count ? 0 : bucket + 1;
}

uint32_t insert(const WordBuckets& buckets, const uint8_t* rows, uint32_t row_bytes, uint32_t count, uint64_t* slots,
                uint64_t* equal_slot) {
    constexpr uint32_t kAhead = 16;
    const __m256i free_word = four_times(buckets.free_word);
    for (uint32_t i = 0; i < count; ++i, rows += row_bytes) {
        if (buckets.prefetch && i + kAhead < count) {
            const uint64_t word = word_of(rows + kAhead * row_bytes);
            __builtin_prefetch(buckets.words + bucket_of(buckets, word) * kBucketWords, 1);
        }
        const uint64_t word = word_of(rows);
        const __m256i words = four_times(word);
        for (uint64_t bucket = bucket_of(buckets, word);; bucket = after(buckets, bucket)) {
            uint64_t* const line = buckets.words + bucket * kBucketWords;
            const uint32_t equal = equal_words(line, words);
            const uint32_t open = equal_words(line, free_word);
            if (__builtin_expect(equal != 0, 0)) {
                *equal_slot = bucket * kBucketWords + static_cast<uint32_t>(__builtin_ctz(equal));
                return i;
            }
            if (__builtin_expect(open == 0, 0)) continue;
            const auto at = static_cast<uint32_t>(__builtin_ctz(open));
            line[at] = word;
            if (slots != nullptr) slots[i] = bucket * kBucketWords + at;
            break;
        }
    }
    return count;
}

inline void prefetch_lines(const WordBuckets& buckets, const uint8_t* const* rows, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        __builtin_prefetch(buckets.words + bucket_of(buckets, word_of(rows[i])) * kBucketWords);
    }
}

// Prefetches in groups: a core tracks some tens of outstanding misses, more would only evict each other.
constexpr uint32_t kGroup = 64;

void find(const WordBuckets& buckets, const uint8_t* const* rows, uint32_t count, uint64_t* slots) {
    for (uint32_t i = 0; i < count; ++i) {
        if (buckets.prefetch && i % kGroup == 0) {
            prefetch_lines(buckets, rows + i, count - i < kGroup ? count - i : kGroup);
        }
        const uint64_t word = word_of(rows[i]);
        if (__builtin_expect(word == buckets.free_word, 0)) {  // no build row has it, but free slots do
            slots[i] = kNoSlot;
            continue;
        }
        const __m256i words = four_times(word);
        for (uint64_t bucket = bucket_of(buckets, word);; bucket = after(buckets, bucket)) {
            const uint64_t* const line = buckets.words + bucket * kBucketWords;
            const uint32_t equal = equal_words(line, words);
            const uint64_t at = bucket * kBucketWords + static_cast<uint32_t>(__builtin_ctz(equal | 0x100));
            slots[i] = equal != 0 ? at : kNoSlot;
            // Buckets fill from the front: only a full one sends its words on.
            const bool last = (line[kBucketWords - 1] == buckets.free_word) | (equal != 0);
            if (__builtin_expect(last, 1)) break;
        }
    }
}

uint64_t count_rows(const WordBuckets& buckets, const uint8_t* const* rows, uint32_t count) {
    uint64_t matches = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (buckets.prefetch && i % kGroup == 0) {
            prefetch_lines(buckets, rows + i, count - i < kGroup ? count - i : kGroup);
        }
        const uint64_t word = word_of(rows[i]);
        if (__builtin_expect(word == buckets.free_word, 0)) continue;
        const __m256i words = four_times(word);
        for (uint64_t bucket = bucket_of(buckets, word);; bucket = after(buckets, bucket)) {
            const uint64_t* const line = buckets.words + bucket * kBucketWords;
            const bool found = equal_words(line, words) != 0;
            matches += found;
            const bool last = (line[kBucketWords - 1] == buckets.free_word) | found;
            if (__builtin_expect(last, 1)) break;
        }
    }
    return matches;
}

constexpr VectorProbingKernels kKernels{insert, find, count_rows};

}  // namespace

const VectorProbingKernels* avx2_probing_kernels() {
    return &kKernels;
}

}  // namespace spillway

#else

namespace spillway {

const VectorProbingKernels* avx2_probing_kernels() {
    return nullptr;
}

}  // namespace spillway

#endif
