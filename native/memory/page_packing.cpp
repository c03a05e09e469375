// SPDX-License-Identifier: Apache-2.0
#include "memory/page_packing.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "memory/page_packing_kernels.hpp"

namespace spillway {

namespace {

using namespace packing;

constexpr uint64_t kWordBytes = 8;

// Layout: Header; base of each row word; width of each row word, padded to 8 bytes; the whole blocks one after the
// other, in a block one stream per row word; the rows of the last, partial block padded to whole 64-bit words.
struct Header {
    uint32_t rows;
    uint32_t row_bytes;
};

uint64_t header_bytes(uint32_t words) {
    return sizeof(Header) + words * kWordBytes + (words + kWordBytes - 1) / kWordBytes * kWordBytes;
}

uint64_t tail_words(uint32_t rows, uint32_t width) {
    return (static_cast<uint64_t>(rows) * width + kWordBits - 1) / kWordBits;
}

uint64_t block_bytes(uint32_t width) {
    return static_cast<uint64_t>(width) * sizeof(Lanes);
}

struct Range {
    uint64_t min = UINT64_MAX;
    uint64_t max = 0;
};

void widen(Range& range, const uint8_t* rows, uint32_t count, uint64_t stride) {
    // Two independent pairs: a compare and a conditional move are two cycles, and each waits for the last.
    Range a = range;
    Range b = range;
    uint32_t i = 0;
    for (; i + 2 <= count; i += 2, rows += 2 * stride) {
        const uint64_t x = load_word(rows);
        const uint64_t y = load_word(rows + stride);
        a.min = std::min(a.min, x);
        a.max = std::max(a.max, x);
        b.min = std::min(b.min, y);
        b.max = std::max(b.max, y);
    }
    if (i < count) {
        const uint64_t x = load_word(rows);
        a.min = std::min(a.min, x);
        a.max = std::max(a.max, x);
    }
    range = {std::min(a.min, b.min), std::max(a.max, b.max)};
}

// Block by block, so that the strided reads of all row words find the block in the first-level cache.
std::vector<Range> ranges_of(const uint8_t* rows_begin, uint32_t rows, uint32_t row_bytes) {
    std::vector<Range> ranges(row_bytes / kWordBytes);
    for (uint32_t first = 0; first < rows; first += kBlockRows) {
        const uint8_t* block = rows_begin + static_cast<uint64_t>(first) * row_bytes;
        const uint32_t count = std::min(kBlockRows, rows - first);
        for (size_t w = 0; w < ranges.size(); ++w) widen(ranges[w], block + w * kWordBytes, count, row_bytes);
    }
    return ranges;
}

uint8_t* pack_tail(const uint8_t* rows, uint32_t count, uint64_t stride, uint64_t base, uint32_t width, uint8_t* out) {
    uint64_t gathered = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < count && width > 0; ++i) {
        const uint64_t value = load_word(rows + i * stride) - base;
        gathered |= value << at;
        at += width;
        if (at < kWordBits) continue;
        store_word(out, gathered);
        out += kWordBytes;
        at -= kWordBits;
        gathered = at == 0 ? 0 : value >> (width - at);
    }
    if (at == 0) return out;
    store_word(out, gathered);
    return out + kWordBytes;
}

const uint8_t* unpack_tail(const uint8_t* in, uint32_t count, uint64_t base, uint32_t width, uint8_t* rows,
                           uint64_t stride) {
    const uint64_t mask = width == kWordBits ? UINT64_MAX : (uint64_t{1} << width) - 1;
    uint64_t bits = 0;
    uint32_t at = kWordBits;  // bits of `bits` that are used up
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t value = 0;
        if (width > 0) {
            if (at == kWordBits) {
                bits = load_word(in);
                in += kWordBytes;
                at = 0;
            }
            value = bits >> at;
            at += width;
            if (at > kWordBits) {
                bits = load_word(in);
                in += kWordBytes;
                at -= kWordBits;
                value |= bits << (width - at);
            }
        }
        store_word(rows + i * stride, (value & mask) + base);
    }
    return in;
}

uint64_t packed_size(const std::vector<uint8_t>& widths, uint32_t rows) {
    uint64_t bytes = header_bytes(static_cast<uint32_t>(widths.size()));
    for (const uint8_t width : widths) {
        bytes += rows / kBlockRows * block_bytes(width) + tail_words(rows % kBlockRows, width) * kWordBytes;
    }
    return bytes;
}

}  // namespace

uint64_t packed_bytes_max(uint32_t rows, uint32_t row_bytes) {
    return static_cast<uint64_t>(rows) * row_bytes / 8 * 7;
}

uint64_t pack_rows(const uint8_t* rows_begin, uint32_t rows, uint32_t row_bytes, uint8_t* packed) {
    SPILLWAY_CHECK(row_bytes % kWordBytes == 0);
    const std::vector<Range> ranges = ranges_of(rows_begin, rows, row_bytes);
    std::vector<uint8_t> widths;
    widths.reserve(ranges.size());
    for (const Range& range : ranges) {
        widths.push_back(rows == 0 ? uint8_t{0} : static_cast<uint8_t>(std::bit_width(range.max - range.min)));
    }
    const uint64_t bytes = packed_size(widths, rows);
    if (bytes >= packed_bytes_max(rows, row_bytes)) return 0;

    const Header header{rows, row_bytes};
    uint8_t* out = packed;
    std::memset(out, 0, header_bytes(static_cast<uint32_t>(widths.size())));
    std::memcpy(out, &header, sizeof header);
    out += sizeof header;
    for (const Range& range : ranges) {
        store_word(out, range.min);
        out += kWordBytes;
    }
    std::memcpy(out, widths.data(), widths.size());
    out = packed + header_bytes(static_cast<uint32_t>(widths.size()));
    const uint8_t* block = rows_begin;
    for (uint32_t left = rows; left >= kBlockRows; left -= kBlockRows) {
        for (size_t w = 0; w < widths.size(); ++w) {
            kPackBlock[widths[w]](block + w * kWordBytes, row_bytes, ranges[w].min, out);
            out += block_bytes(widths[w]);
        }
        block += static_cast<uint64_t>(kBlockRows) * row_bytes;
    }
    for (size_t w = 0; w < widths.size(); ++w) {
        out = pack_tail(block + w * kWordBytes, rows % kBlockRows, row_bytes, ranges[w].min, widths[w], out);
    }
    SPILLWAY_CHECK(out == packed + bytes);
    return bytes;
}

void unpack_rows(const uint8_t* packed, uint64_t packed_bytes, uint32_t rows, uint32_t row_bytes, uint8_t* rows_begin) {
    const uint32_t words = row_bytes / kWordBytes;
    Header header{};
    SPILLWAY_CHECK(packed_bytes >= header_bytes(words));
    std::memcpy(&header, packed, sizeof header);
    SPILLWAY_CHECK(header.rows == rows && header.row_bytes == row_bytes);
    const uint8_t* const bases = packed + sizeof header;
    std::vector<uint8_t> widths(words);
    std::copy_n(bases + words * kWordBytes, words, widths.begin());
    for (const uint8_t width : widths) SPILLWAY_CHECK(width <= kWordBits);
    SPILLWAY_CHECK(packed_size(widths, rows) == packed_bytes);

    const uint8_t* in = packed + header_bytes(words);
    uint8_t* block = rows_begin;
    for (uint32_t left = rows; left >= kBlockRows; left -= kBlockRows) {
        for (uint32_t w = 0; w < words; ++w) {
            kUnpackBlock[widths[w]](in, load_word(bases + w * kWordBytes), block + w * kWordBytes, row_bytes);
            in += block_bytes(widths[w]);
        }
        block += static_cast<uint64_t>(kBlockRows) * row_bytes;
    }
    for (uint32_t w = 0; w < words; ++w) {
        in = unpack_tail(in, rows % kBlockRows, load_word(bases + w * kWordBytes), widths[w], block + w * kWordBytes,
                         row_bytes);
    }
}

}  // namespace spillway
