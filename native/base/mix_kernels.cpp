// SPDX-License-Identifier: Apache-2.0
#include "base/mix_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"

namespace spillway {

namespace {

const MixKernels* kernels() {
#if defined(__x86_64__)
    static const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0;
    return has_avx512 ? avx512_mix_kernels() : nullptr;
#else
    return nullptr;
#endif
}

using Kernel = void (*)(const uint64_t*, uint64_t, uint64_t*);

// Rows of one word are an array of words. Of wider rows the first words are gathered, changed side by side and put
// back, a block in L1 at a time.
void change_first_words(uint8_t* rows, uint64_t count, uint32_t row_bytes, Kernel change) {
    if (row_bytes == 8) {
        auto* words = reinterpret_cast<uint64_t*>(rows);
        return change(words, count, words);
    }
    constexpr uint64_t kBlock = 512;
    uint64_t words[kBlock];
    for (uint64_t done = 0; done < count; done += kBlock, rows += kBlock * row_bytes) {
        const uint64_t block = std::min(kBlock, count - done);
        for (uint64_t i = 0; i < block; ++i) std::memcpy(&words[i], rows + i * row_bytes, 8);
        change(words, block, words);
        for (uint64_t i = 0; i < block; ++i) std::memcpy(rows + i * row_bytes, &words[i], 8);
    }
}

}  // namespace

void mix_words(const uint64_t* from, uint64_t count, uint64_t* to) {
    uint64_t i = 0;
    if (const MixKernels* vector = kernels()) {
        i = count / 8 * 8;
        vector->mix(from, i, to);
    }
    for (; i < count; ++i) to[i] = mix64(from[i]);
}

void unmix_words(const uint64_t* from, uint64_t count, uint64_t* to) {
    uint64_t i = 0;
    if (const MixKernels* vector = kernels()) {
        i = count / 8 * 8;
        vector->unmix(from, i, to);
    }
    for (; i < count; ++i) to[i] = unmix64(from[i]);
}

void mix_first_words(uint8_t* rows, uint64_t count, uint32_t row_bytes) {
    change_first_words(rows, count, row_bytes, mix_words);
}

void unmix_first_words(uint8_t* rows, uint64_t count, uint32_t row_bytes) {
    change_first_words(rows, count, row_bytes, unmix_words);
}

}  // namespace spillway
