// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "memory_model/stream_memory.hpp"
#include "radix_partition/row_layout.hpp"
#include "stream/parcels.hpp"
#include "stream/row_pieces.hpp"
#include "stream/stream_policy.hpp"

// Spilled rows are packed: a fragment is the rows of one partition in one chunk. Each field of its rows is stored as
// its difference from the fragment's least value, in as many bits as the greatest difference takes (frame of
// reference). Keys are stored so, or mixed and without the partition's radix bits, whichever is shorter. 32 rows are a
// group: bit i of a field of all 32 rows is one word, so that a warp packs and unpacks by transposing a matrix of 32 x
// 32 bits.
namespace spillway::cuda { inline namespace stream {

struct CodeField {
    uint8_t offset = 0;  // in the row, in bytes
    uint8_t width = 0;   // 1, 2, 4 or 8
};
struct CodeLayout {
    uint32_t row_words = 1;
    uint32_t key_words = 1;
    uint32_t radix_bits = 0;
    uint32_t padded = 0;  // 1: the row's last word has bytes of no field
    uint32_t packed = 1;  // 0: fields are stored in all their bits
    uint32_t fields = 0;
    CodeField field[kCodeFieldsMax];  // the key first

    static CodeLayout make(const RowLayout& rows, int radix_bits);
};

// Least and greatest value of a field, in the order of signed numbers made one of unsigned ones. least > greatest: of
// no rows.
struct FieldExtremes {
    uint64_t least = ~0ULL;
    uint64_t greatest = 0;
};
static_assert(sizeof(FieldExtremes) == kFieldExtremesBytes);

constexpr uint8_t kKeyMixed = 0x80;  // flag in bits[] of the key

// Fragments one behind the other in packed words.
struct FragmentSet {
    uint32_t fields = 0;
    uint64_t words = 0;                 // of all fragments
    std::vector<RowPiece> pieces;       // where the unpacked rows are
    std::vector<uint64_t> first_word;   // of each fragment, multiples of kFragmentAlignWords
    std::vector<uint32_t> group_words;  // of 32 rows
    std::vector<uint8_t> bits;          // [fragments * fields]
    std::vector<uint64_t> base;         // [fragments * fields]

    uint64_t end_word(size_t fragment) const {
        return fragment + 1 < first_word.size() ? first_word[fragment + 1] : words;
    }
    // A fragment behind the others, coded for these extremes of its fields.
    void add(const CodeLayout& layout, const RowPiece& piece, const FieldExtremes* extremes);
    // Fragment `from` of another set, at word `at`, its rows to be at row `begin`.
    void add(const FragmentSet& other, size_t from, uint64_t at, uint64_t begin);
};

// Extremes of the fields of each partition's rows [begin[p], end[p]), all in device memory, into
// extremes[partition * fields + field]; all_rows: of all of them. Reads each row once per field from the caches, once
// from memory; of wide rows, which the caches do not hold that long, a sector of 32 bytes per field: of 200 bytes and
// 25 fields 800 bytes, a third of a nanosecond per row, where the link takes four for the row.
void find_extremes(Device& device, const CodeLayout& layout, const uint32_t* rows, const uint64_t* begin,
                   const uint64_t* end, uint64_t partitions, uint64_t all_rows, FieldExtremes* extremes);

// Packs the pieces of `set` among `rows` into set.words words at `packed`. Reads each row and writes its bits.
void pack_rows(Device& device, Parcels& parcels, const CodeLayout& layout, const uint32_t* rows, const FragmentSet& set,
               uint32_t* packed);
// The other way.
void unpack_rows(Device& device, Parcels& parcels, const CodeLayout& layout, const uint32_t* packed,
                 const FragmentSet& set, uint32_t* rows);

}}  // namespace spillway::cuda::stream
