// SPDX-License-Identifier: Apache-2.0
#include "device/value_packing.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "device/value_packing_kernels.hpp"

namespace spillway {

namespace {

using cuda::kPackedValues;
using cuda::PackedBlock;

constexpr uint64_t kLineBytes = 64;

const ValuePackingKernels& kernels() {
    static const ValuePackingKernels* const best = [] {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return avx512_packing_kernels();
        if (__builtin_cpu_supports("avx2")) return avx2_packing_kernels();
#endif
        return generic_packing_kernels();
    }();
    return *best;
}

const BlockKernels& kernels_of(uint32_t word_bytes) {
    return word_bytes == 8 ? kernels().words64 : kernels().words32;
}

// As many values as a block has, each as wide as a word.
struct BlockBuffer {
    alignas(kLineBytes) uint8_t words[kPackedValues * sizeof(uint64_t)];
};

template <typename Word>
void fill(uint8_t* words, uint64_t first, uint64_t end, uint64_t value) {
    const auto word = static_cast<Word>(value);
    for (uint64_t i = first; i < end; ++i) std::memcpy(words + i * sizeof word, &word, sizeof word);
}

void fill_words(uint32_t word_bytes, uint8_t* words, uint64_t first, uint64_t end, uint64_t value) {
    if (word_bytes == 8) return fill<uint64_t>(words, first, end, value);
    fill<uint32_t>(words, first, end, value);
}

// Values that lie `stride` bytes apart become words, extended by their signs. The first of them stands in for those
// that the block lacks: it changes no range.
template <typename Value, typename Word>
void gather(const uint8_t* from, uint64_t stride, uint64_t count, uint8_t* words) {
    Value value;
    for (uint64_t i = 0; i < count; ++i) {
        std::memcpy(&value, from + i * stride, sizeof value);
        const auto word = static_cast<Word>(value);
        std::memcpy(words + i * sizeof word, &word, sizeof word);
    }
    std::memcpy(&value, from, sizeof value);
    fill<Word>(words, count, kPackedValues, static_cast<uint64_t>(value));
}

template <typename Value, typename Word>
void scatter(const uint8_t* words, uint64_t count, uint64_t stride, uint8_t* to) {
    for (uint64_t i = 0; i < count; ++i) {
        Word word;
        std::memcpy(&word, words + i * sizeof word, sizeof word);
        const auto value = static_cast<Value>(word);
        std::memcpy(to + i * stride, &value, sizeof value);
    }
}

// A block of a column, or one plane of it.
struct Plane {
    uint32_t width;
    uint64_t values;  // kPackedValues, or fewer in the last block
    uint64_t offset;  // of the first value in the column, in bytes

    bool is_words() const { return values == kPackedValues && (width == 4 || width == 8); }

    // Returns where its values lie as words: in the column, or gathered in the buffer.
    const uint8_t* load(const uint8_t* column, BlockBuffer& buffer) const {
        const uint8_t* from = column + offset;
        if (is_words()) return from;
        if (width == 1) gather<int8_t, uint32_t>(from, 1, values, buffer.words);
        if (width == 2) gather<int16_t, uint32_t>(from, 2, values, buffer.words);
        if (width == 4) gather<uint32_t, uint32_t>(from, 4, values, buffer.words);
        if (width >= 8) gather<uint64_t, uint64_t>(from, width, values, buffer.words);
        return buffer.words;
    }

    void store(const BlockBuffer& buffer, uint8_t* column) const {
        uint8_t* to = column + offset;
        if (width == 1) scatter<uint8_t, uint32_t>(buffer.words, values, 1, to);
        if (width == 2) scatter<uint16_t, uint32_t>(buffer.words, values, 2, to);
        if (width == 4) scatter<uint32_t, uint32_t>(buffer.words, values, 4, to);
        if (width >= 8) scatter<uint64_t, uint64_t>(buffer.words, values, width, to);
    }
};

struct Column {
    uint32_t width;
    uint64_t rows;

    uint64_t planes() const { return (rows + kPackedValues - 1) / kPackedValues * cuda::packed_planes(width); }

    Plane plane(uint64_t index) const {
        const uint64_t planes_of_block = cuda::packed_planes(width);
        const uint64_t first = index / planes_of_block * kPackedValues;
        const uint64_t offset = first * width + index % planes_of_block * sizeof(uint64_t);
        return {width, std::min<uint64_t>(kPackedValues, rows - first), offset};
    }
};

// Frame of reference of a block, extended by the sign of the values.
struct Frame {
    uint64_t base;
    uint32_t bits;

    bool packs(uint32_t word_bytes) const { return bits > 0 && bits < 8 * word_bytes; }
};

Frame frame_of(ValueRange range, uint32_t word_bytes) {
    const auto min = static_cast<uint64_t>(range.min);
    const auto bits = static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(range.max) - min));
    return {bits == 8 * word_bytes ? 0 : min, bits};
}

uint64_t low_bytes(uint64_t word, uint32_t bytes) {
    return bytes >= sizeof word ? word : word & ((uint64_t{1} << 8 * bytes) - 1);
}

// Returns the bytes of words; sets all of the blocks but their lines.
uint64_t pack_planes(const Column& column, const uint8_t* values, uint8_t* to, PackedBlock* blocks) {
    if (column.rows == 0) return 0;
    const uint32_t word_bytes = cuda::packed_word_bytes(column.width);
    const BlockKernels& kernels = kernels_of(word_bytes);
    BlockBuffer buffers[2];
    const uint8_t* words = column.plane(0).load(values, buffers[0]);
    ValueRange range = kernels.range(words);
    uint64_t bytes = 0;
    const uint64_t planes = column.planes();
    for (uint64_t p = 0; p < planes; ++p) {
        const Frame frame = frame_of(range, word_bytes);
        const uint64_t present = column.plane(p).values;
        if (present < kPackedValues) {
            fill_words(word_bytes, buffers[p % 2].words, present, kPackedValues, frame.base);
        }
        // The last plane stands in for the one that it lacks behind it.
        const uint8_t* next = p + 1 < planes ? column.plane(p + 1).load(values, buffers[(p + 1) % 2]) : words;
        if (frame.packs(word_bytes)) {
            range = kernels.pack(words, frame.base, frame.bits, to + bytes, next);
        } else {
            if (frame.bits > 0) std::memcpy(to + bytes, words, cuda::packed_bytes(frame.bits));
            range = kernels.range(next);
        }
        blocks[p].base = low_bytes(frame.base, column.width);
        blocks[p].bits = frame.bits;
        bytes += cuda::packed_bytes(frame.bits);
        words = next;
    }
    return bytes;
}

void unpack_plane(const Plane& plane, const PackedBlock& block, const uint8_t* words, uint8_t* column,
                  bool past_caches) {
    const uint32_t word_bytes = cuda::packed_word_bytes(plane.width);
    BlockBuffer buffer;
    uint8_t* to = plane.is_words() ? column + plane.offset : buffer.words;
    if (Frame{block.base, block.bits}.packs(word_bytes)) {
        const BlockKernels& kernels = kernels_of(word_bytes);
        (past_caches && plane.is_words() ? kernels.unpack_past : kernels.unpack)(words, block.base, block.bits, to);
    } else if (block.bits == 0) {
        fill_words(word_bytes, to, 0, kPackedValues, block.base);
    } else {
        std::memcpy(to, words, cuda::packed_bytes(block.bits));
    }
    if (!plane.is_words()) plane.store(buffer, column);
}

}  // namespace

const ValuePackingKernels* generic_packing_kernels() {
    return &kValuePackingKernels<16>;
}

uint64_t pack_column(const void* values, uint32_t width, uint64_t rows, void* to, PackedBlock* blocks) {
    const Column column{width, rows};
    const uint64_t bytes = pack_planes(column, static_cast<const uint8_t*>(values), static_cast<uint8_t*>(to), blocks);
    uint64_t before = 0;
    for (uint64_t p = 0; p < column.planes(); ++p) {
        blocks[p].line = static_cast<uint32_t>(before / kLineBytes);
        before += cuda::packed_bytes(blocks[p].bits);
    }
    return bytes;
}

void unpack_column(const PackedBlock* blocks, const void* words, uint32_t width, uint64_t rows, void* to,
                   bool past_caches) {
    const Column column{width, rows};
    const bool past = past_caches && reinterpret_cast<uintptr_t>(to) % kLineBytes == 0;
    for (uint64_t p = 0; p < column.planes(); ++p) {
        const uint8_t* from = static_cast<const uint8_t*>(words) + blocks[p].line * kLineBytes;
        unpack_plane(column.plane(p), blocks[p], from, static_cast<uint8_t*>(to), past);
    }
#if defined(__x86_64__)
    if (past) __builtin_ia32_sfence();
#endif
}

uint64_t pack_block(const void* values, uint32_t width, uint64_t count, void* to, PackedBlock* blocks) {
    return pack_planes({width, count}, static_cast<const uint8_t*>(values), static_cast<uint8_t*>(to), blocks);
}

void unpack_block(const PackedBlock* blocks, const void* words, uint32_t width, uint64_t count, void* to) {
    unpack_column(blocks, words, width, count, to);
}

uint32_t bits_of_block(const void* values, uint32_t width, uint64_t count) {
    const Column column{width, count};
    const uint32_t word_bytes = cuda::packed_word_bytes(width);
    BlockBuffer buffer;
    uint32_t bits = 0;
    for (uint64_t p = 0; p < column.planes(); ++p) {
        const uint8_t* words = column.plane(p).load(static_cast<const uint8_t*>(values), buffer);
        bits += frame_of(kernels_of(word_bytes).range(words), word_bytes).bits;
    }
    return bits;
}

}  // namespace spillway
