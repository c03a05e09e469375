// SPDX-License-Identifier: Apache-2.0
// Packed columns against their format, written down once more bit by bit, and every instruction set against the others.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "device/value_packing.hpp"
#include "device/value_packing_kernels.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

using cuda::kPackedValues;
using cuda::PackedBlock;
using Bytes = std::vector<uint8_t>;

constexpr uint8_t kGuard = 0xA5;
constexpr uint64_t kGuardBytes = 192;
constexpr uint32_t kWidths[] = {1, 2, 4, 8, 16};

std::mt19937_64& random_words() {
    static std::mt19937_64 random(11);
    return random;
}

uint64_t ones(uint32_t bits) {
    return bits == 0 ? 0 : ~uint64_t{0} >> (64 - bits);
}

// Of one plane: a value of 16 bytes has two.
uint32_t plane_width(uint32_t width) {
    return std::min(width, 8u);
}

uint64_t value_at(const uint8_t* values, uint32_t width, uint64_t i, uint32_t plane) {
    uint64_t value = 0;
    std::memcpy(&value, values + i * width + plane * 8, plane_width(width));
    return value;
}

int64_t with_sign(uint64_t value, uint32_t width) {
    const uint32_t unused = 64 - 8 * width;
    return static_cast<int64_t>(value << unused) >> unused;
}

// A plane of values whose range takes `bits` if there are two or more.
void write_plane(uint8_t* values, uint32_t width, uint64_t count, uint32_t plane, uint32_t bits) {
    const uint32_t bytes = plane_width(width);
    const uint64_t range = ones(bits);
    const uint64_t mask = ones(8 * bytes);
    const uint64_t least_of_all = uint64_t{1} << (8 * bytes - 1);
    const uint64_t bases = mask - range;  // beside the least of all
    const uint64_t base = least_of_all + (bases == 0 ? 0 : random_words()() % bases);
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t value = base + (random_words()() & range);
        if (i == count / 2) value = base;
        if (i == count - 1 && count > 1) value = base + range;
        std::memcpy(values + i * width + plane * 8, &value, bytes);
    }
}

void write_values(uint8_t* values, uint32_t width, uint64_t count, uint32_t bits) {
    for (uint32_t plane = 0; plane < cuda::packed_planes(width); ++plane) {
        write_plane(values, width, count, plane, plane == 0 ? bits : 64 - bits);
    }
}

// The format as packed_block.hpp describes it.
Bytes naive_plane(const uint8_t* values, uint32_t width, uint64_t count, uint32_t plane, PackedBlock& block) {
    const uint32_t bytes = plane_width(width);
    int64_t min = INT64_MAX;
    int64_t max = INT64_MIN;
    for (uint64_t i = 0; i < count; ++i) {
        const int64_t value = with_sign(value_at(values, width, i, plane), bytes);
        min = std::min(min, value);
        max = std::max(max, value);
    }
    const uint64_t range = static_cast<uint64_t>(max) - static_cast<uint64_t>(min);
    block.bits = static_cast<uint32_t>(std::bit_width(range));
    const uint32_t word_bits = 8 * cuda::packed_word_bytes(width);
    block.base = block.bits == word_bits ? 0 : static_cast<uint64_t>(min) & ones(8 * bytes);
    const uint32_t lanes = cuda::packed_lanes(width);
    Bytes words(cuda::packed_bytes(block.bits));
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t value = (value_at(values, width, i, plane) - block.base) & ones(8 * bytes);
        for (uint32_t bit = 0; bit < block.bits; ++bit) {
            const uint64_t in_lane = i / lanes * block.bits + bit;
            const uint64_t word = in_lane / word_bits * lanes + i % lanes;
            const uint64_t at = word * word_bits + in_lane % word_bits;
            words[at / 8] |= static_cast<uint8_t>((value >> bit & 1) << (at % 8));
        }
    }
    return words;
}

Bytes naive_block(const uint8_t* values, uint32_t width, uint64_t count, PackedBlock* blocks) {
    Bytes words;
    for (uint32_t plane = 0; plane < cuda::packed_planes(width); ++plane) {
        const Bytes more = naive_plane(values, width, count, plane, blocks[plane]);
        words.insert(words.end(), more.begin(), more.end());
    }
    return words;
}

// Room for `bytes`, so far from a multiple of 64, between bytes that nobody may write.
class Guarded {
  public:
    Guarded(uint64_t bytes, uint64_t offset) : bytes_(bytes), all_(64 + 2 * kGuardBytes + offset + bytes, kGuard) {
        before_ = kGuardBytes + offset + 64 - reinterpret_cast<uintptr_t>(all_.data()) % 64;
    }
    uint8_t* data() { return all_.data() + before_; }
    bool intact() const {
        const auto is_guard = [](uint8_t byte) { return byte == kGuard; };
        const auto begin = all_.begin() + static_cast<ptrdiff_t>(before_);
        const auto end = begin + static_cast<ptrdiff_t>(bytes_);
        return std::all_of(all_.begin(), begin, is_guard) && std::all_of(end, all_.end(), is_guard);
    }

  private:
    uint64_t bytes_;
    uint64_t before_;
    Bytes all_;
};

// The values end with their memory, so that a sanitizer sees who reads on.
void expect_block(const Bytes& memory, uint64_t offset, uint32_t width) {
    const uint8_t* values = memory.data() + offset;
    const uint64_t count = (memory.size() - offset) / width;
    PackedBlock expected[2];
    const Bytes words = naive_block(values, width, count, expected);
    PackedBlock blocks[2];
    blocks[0].line = 5;
    blocks[1].line = 7;
    Guarded packed(words.size(), 0);
    EXPECT_EQ(pack_block(values, width, count, packed.data(), blocks), words.size());
    EXPECT(std::equal(words.begin(), words.end(), packed.data()));
    EXPECT(packed.intact());
    for (uint32_t plane = 0; plane < cuda::packed_planes(width); ++plane) {
        EXPECT_EQ(blocks[plane].base, expected[plane].base);
        EXPECT_EQ(blocks[plane].bits, expected[plane].bits);
    }
    EXPECT_EQ(blocks[0].line, 5u);
    EXPECT_EQ(blocks[1].line, 7u);
    EXPECT_EQ(cuda::packed_bytes(bits_of_block(values, width, count)), words.size());
    blocks[0].line = 0;
    blocks[1].line = blocks[0].bits * 2;
    Guarded unpacked(count * width, offset);
    unpack_block(blocks, packed.data(), width, count, unpacked.data());
    EXPECT(std::equal(values, values + count * width, unpacked.data()));
    EXPECT(unpacked.intact());
}

void expect_column(const Bytes& memory, uint64_t offset, uint32_t width) {
    const uint8_t* values = memory.data() + offset;
    const uint64_t rows = (memory.size() - offset) / width;
    std::vector<PackedBlock> expected((rows + kPackedValues - 1) / kPackedValues * cuda::packed_planes(width));
    std::vector<PackedBlock> blocks(expected.size());
    Bytes words;
    for (uint64_t row = 0, p = 0; row < rows; row += kPackedValues, p += cuda::packed_planes(width)) {
        const uint64_t count = std::min<uint64_t>(kPackedValues, rows - row);
        const auto line = static_cast<uint32_t>(words.size() / 64);
        const Bytes more = naive_block(values + row * width, width, count, &expected[p]);
        expected[p].line = line;
        if (width == 16) expected[p + 1].line = line + expected[p].bits * 2;
        words.insert(words.end(), more.begin(), more.end());
    }
    Guarded packed(words.size(), 0);
    EXPECT_EQ(pack_column(values, width, rows, packed.data(), blocks.data()), words.size());
    EXPECT(std::equal(words.begin(), words.end(), packed.data()));
    EXPECT(packed.intact());
    for (size_t p = 0; p < blocks.size(); ++p) {
        EXPECT_EQ(blocks[p].base, expected[p].base);
        EXPECT_EQ(blocks[p].line, expected[p].line);
        EXPECT_EQ(blocks[p].bits, expected[p].bits);
    }
    Guarded unpacked(rows * width, offset);
    unpack_column(blocks.data(), packed.data(), width, rows, unpacked.data());
    // What is aligned goes past the caches.
    Bytes past(rows * width + 128);
    for (const size_t begin : {size_t{1}, size_t{64 - reinterpret_cast<uintptr_t>(past.data()) % 64}}) {
        unpack_column(blocks.data(), packed.data(), width, rows, past.data() + begin, true);
        EXPECT(std::equal(values, values + rows * width, past.data() + begin));
    }
    EXPECT(std::equal(values, values + rows * width, unpacked.data()));
    EXPECT(unpacked.intact());
}

std::vector<const ValuePackingKernels*> vector_kernels() {
    std::vector<const ValuePackingKernels*> kernels;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) kernels.push_back(avx2_packing_kernels());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        kernels.push_back(avx512_packing_kernels());
    }
#endif
    return kernels;
}

void expect_equal_kernels(const BlockKernels& kernels, const BlockKernels& generic, uint32_t width, uint32_t bits) {
    const uint64_t bytes = uint64_t{kPackedValues} * width;
    const uint64_t offset = bits % 3;
    Bytes block(offset + bytes);
    Bytes next(offset + bytes);
    write_plane(block.data() + offset, width, kPackedValues, 0, bits);
    write_plane(next.data() + offset, width, kPackedValues, 0, 8 * width - bits);
    const ValueRange range = generic.range(block.data() + offset);
    EXPECT_EQ(kernels.range(block.data() + offset).min, range.min);
    EXPECT_EQ(kernels.range(block.data() + offset).max, range.max);
    const auto base = static_cast<uint64_t>(range.min);
    const auto pack = [&](const BlockKernels& with, Guarded& to) {
        const ValueRange of_next = with.pack(block.data() + offset, base, bits, to.data(), next.data() + offset);
        EXPECT_EQ(of_next.min, generic.range(next.data() + offset).min);
        EXPECT_EQ(of_next.max, generic.range(next.data() + offset).max);
        EXPECT(to.intact());
    };
    const uint64_t packed_bytes = cuda::packed_bytes(bits);
    Guarded expected(packed_bytes, 0);
    Guarded packed(packed_bytes, 0);
    pack(generic, expected);
    pack(kernels, packed);
    EXPECT(std::equal(packed.data(), packed.data() + packed_bytes, expected.data()));
    Bytes words(packed.data(), packed.data() + packed_bytes);
    for (const BlockKernels* with : {&kernels, &generic}) {
        Guarded unpacked(bytes, offset);
        with->unpack(words.data(), base, bits, unpacked.data());
        EXPECT(std::equal(unpacked.data(), unpacked.data() + bytes, block.data() + offset));
        EXPECT(unpacked.intact());
    }
}

template <typename Value>
Bytes bytes_of(const std::vector<Value>& values) {
    Bytes bytes(values.size() * sizeof(Value));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

template <typename Value>
void expect_extremes() {
    using Limits = std::numeric_limits<Value>;
    const std::vector<std::vector<Value>> sets = {
        {Limits::min(), Limits::max()},
        {Limits::max(), Limits::min(), 0, static_cast<Value>(-1), 1},
        {Limits::max(), static_cast<Value>(Limits::max() - 1)},
        {Limits::min(), static_cast<Value>(Limits::min() + 1)},
        {static_cast<Value>(-1), 0},
        {Limits::min()},
        {Limits::max()},
    };
    for (const std::vector<Value>& set : sets) {
        for (uint64_t count : {set.size(), size_t{31}, size_t{1023}, size_t{1024}}) {
            std::vector<Value> values(count);
            for (uint64_t i = 0; i < count; ++i) values[i] = set[i % set.size()];
            expect_block(bytes_of(values), 0, sizeof(Value));
        }
    }
}

}  // namespace

TEST(device_value_packing_follows_the_format_for_every_number_of_bits) {
    for (uint32_t width : kWidths) {
        for (uint32_t bits = 0; bits <= 8 * plane_width(width); ++bits) {
            for (uint64_t count :
                 {uint64_t{1}, uint64_t{2}, uint64_t{1023}, uint64_t{1024}, random_words()() % 1022 + 3}) {
                const uint64_t offset = (bits + count) % 4 == 0 ? 0 : bits % 7;
                Bytes memory(offset + count * width);
                write_values(memory.data() + offset, width, count, bits);
                expect_block(memory, offset, width);
            }
        }
    }
}

TEST(device_value_packing_takes_as_many_bits_as_the_range) {
    for (uint32_t width : kWidths) {
        for (uint32_t bits = 0; bits <= 8 * plane_width(width); ++bits) {
            Bytes memory(kPackedValues * width);
            write_values(memory.data(), width, kPackedValues, bits);
            EXPECT_EQ(bits_of_block(memory.data(), width, kPackedValues), width == 16 ? 64 : bits);
        }
    }
}

TEST(device_value_packing_is_the_same_by_all_instruction_sets) {
    const ValuePackingKernels& generic = *generic_packing_kernels();
    for (const ValuePackingKernels* kernels : vector_kernels()) {
        for (uint32_t bits = 1; bits < 64; ++bits) expect_equal_kernels(kernels->words64, generic.words64, 8, bits);
        for (uint32_t bits = 1; bits < 32; ++bits) expect_equal_kernels(kernels->words32, generic.words32, 4, bits);
    }
}

TEST(device_value_packing_keeps_extremes) {
    expect_extremes<int8_t>();
    expect_extremes<int16_t>();
    expect_extremes<int32_t>();
    expect_extremes<int64_t>();
}

TEST(device_value_packing_keeps_unsigned_values_beyond_the_sign) {
    std::vector<uint64_t> across(1000);
    for (uint64_t i = 0; i < across.size(); ++i) across[i] = (uint64_t{1} << 63) - 500 + i;
    expect_block(bytes_of(across), 0, 8);  // takes all bits, for half of them are negative as signed integers
    EXPECT_EQ(bits_of_block(across.data(), 8, across.size()), 64u);
    std::vector<uint64_t> beyond(1000);
    for (uint64_t i = 0; i < beyond.size(); ++i) beyond[i] = UINT64_MAX - i;
    expect_block(bytes_of(beyond), 0, 8);
    EXPECT_EQ(bits_of_block(beyond.data(), 8, beyond.size()), 10u);
}

TEST(device_value_packing_keeps_floating_point_patterns) {
    std::vector<uint64_t> doubles = {0x7ff8000000000001, 0xfff0000000000000, 0x7ff0000000000000, 0x8000000000000000,
                                     0x0000000000000001, 0x7ff0dead0000beef, 0x3ff0000000000000, 0};
    std::vector<uint32_t> floats = {0x7fc00001, 0xff800000, 0x7f800000, 0x80000000, 1, 0x7fa0beef, 0x3f800000, 0};
    for (uint64_t i = 0; i < 500; ++i) {
        doubles.push_back(std::bit_cast<uint64_t>(static_cast<double>(i) / 7));
        floats.push_back(std::bit_cast<uint32_t>(static_cast<float>(i) / -7));
    }
    expect_block(bytes_of(doubles), 0, 8);
    expect_block(bytes_of(floats), 0, 4);
    expect_block(bytes_of(doubles), 0, 16);
}

TEST(device_value_packing_packs_columns_of_any_number_of_rows) {
    for (uint32_t width : kWidths) {
        for (uint64_t rows : {0u, 1u, 1023u, 1024u, 1025u, 2047u, 2048u, 2049u, 30 * 1024u + 77}) {
            for (uint64_t offset : {0u, 3u}) {
                Bytes memory(offset + rows * width);
                for (uint64_t row = 0; row < rows; row += kPackedValues) {
                    const auto bits = static_cast<uint32_t>(random_words()() % (8 * plane_width(width) + 1));
                    const uint64_t count = std::min<uint64_t>(kPackedValues, rows - row);
                    write_values(memory.data() + offset + row * width, width, count, bits);
                }
                expect_column(memory, offset, width);
            }
        }
    }
}

}  // namespace spillway::test
