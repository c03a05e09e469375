// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/gpu_stream.hpp"
#include "model/column_type.hpp"
#include "model/row_layout.hpp"

namespace spillway {

using cuda::kBuildSide;
using cuda::kProbeSide;

// Pinned memory for spilled rows, those that are on their way to disk too; sizes: of a join or a group-by.
template <class Sizes>
uint64_t pinned_spill_bytes(const Sizes& sizes) {
    return sizes.spill_bytes + sizes.disk_blocks * sizes.disk_block_bytes;
}

// Which bits of a value: all, 64 of a decimal of 128 bits that fits them, 32 of a value of 64 or of such a decimal; of
// any value of 128 bits a half or a quarter, which are numbered from the lowest. Of text, words of which the largest in
// a group has the number of the least or of the largest text in its low half (TextExtremes), and 0 for NULL.
enum class ChunkPart : uint8_t {
    kWhole,
    kNarrow,
    kLow,
    kHigh,
    kLeastText,
    kLargestText,
    kHalf0,
    kHalf1,
    kQuarter0,
    kQuarter1,
    kQuarter2,
    kQuarter3
};

// Where such bits lie in a value; not of kWhole.
struct PartPlace {
    uint32_t offset = 0;
    uint32_t width = 8;
};
PartPlace place_of(ChunkPart part);
inline bool is_text_extreme(ChunkPart part) {
    return part == ChunkPart::kLeastText || part == ChunkPart::kLargestText;
}
// Is the part one of any value of 128 bits?
inline bool is_of_128(ChunkPart part) {
    return part >= ChunkPart::kHalf0;
}
// What stands for NULL: nothing in particular, or what changes no sum, no maximum, no minimum.
enum class ChunkFill : uint8_t { kNone, kZero, kLeast, kLargest };

// Bytes of the number that stands for a text, or for bytes of any length: equal ones have the same (TextCodes).
constexpr uint32_t kTextCodeBytes = 4;

// Pseudo column: a word of keys that exceed one, the second, third and so on in their order.
constexpr int32_t kKeyWordColumn = -2;
// Words of packed keys at most.
constexpr uint32_t kKeyWordsMax = 4;

// A column of a chunk: the values of a source's column (bools as bytes, dictionaries as their unified indices, text as
// its number), a byte per row that says whether there is one, the number of the row in the source (column:
// kRowNumberColumn), or kKeyWordColumn.
struct ChunkColumn {
    int32_t column = 0;
    bool validity = false;
    ChunkPart part = ChunkPart::kWhole;
    ChunkFill fill = ChunkFill::kNone;
    uint32_t row_number_bytes = 0;  // 4 or 8
    // Instead of the values, bytes that are 1 where a value, compared as this key, is not NULL and comes with the keys
    // of the side for the first time, in whichever row a worker looks at first.
    std::optional<KeySpec> distinct{};
};

// What the GPU compares.
enum class OutOfCoreKeys : uint8_t {
    kPacked,  // the keys' normalized values, or the numbers of texts, one behind the other in a word; a row with a NULL
              // among them has no key, unless a byte of the word says which are NULL. Keys that exceed a word take
              // several: the first columns of the chunk have all but the first one, which is mixed with these
              // (exclusive or), so that rows of equal first words are spread
    kEncoded,   // the first word of a row of the CPU engine with these keys: equal where the keys are
    kHashed,    // the same of keys that exceed a word: a hash of them. Of the pairs found, those with other keys are
                // dropped when they are delivered, so that there must be no result but pairs
    kNumbered,  // a number of 4 bytes for the keys of a row together (KeyTuples). Where NULLs equal each other they are
                // part of it, and every row has a key. Of joins the build side, which is read first, gives numbers; a
                // probe row whose keys have none gets one that no build row has
};

struct ChunkKeys {
    uint32_t bytes = 8;
    OutOfCoreKeys mode = OutOfCoreKeys::kPacked;
    NullKeys null_keys = NullKeys::kKeep;  // kEqual: not with kPacked
};

// How the rows of a source become those of one side. Without keys all words are 0.
struct OutOfCoreSide {
    std::vector<KeySpec> keys;
    std::vector<ChunkColumn> columns;
    // Byte of all words with a bit per key, 1 = NULL: then every row has a key. -1: there is none.
    int32_t null_byte = -1;
    bool numbered = false;  // group-bys: OutOfCoreKeys::kNumbered and equal NULLs, else kPacked
    // Keys and columns cross the link in as many bits as they need (api/packed_block.hpp); not for operators whose
    // kernels read chunks where they lie.
    bool packed = false;
};

// The source of a part whose value is the GPU's.
constexpr int32_t kOfGpu = -1;

// One place from which the value of a result column may come.
struct ResultPart {
    int32_t value = 0;        // output column of the GPU that has the value
    uint32_t offset = 0;      // byte of that column where the value begins: parts of a key
    int32_t validity = -1;    // output column with a byte that is 0 for NULL; -1: never NULL
    uint8_t mask = 0;         // bits of the presence byte that have to be set for the part to count
    int32_t source = kOfGpu;  // else `value` is a column of this source, read by the row's number. Of a join the
                              // sources are kBuildSide and kProbeSide; a tree numbers them as its flows
};

// The first part whose bits are set; none: NULL.
struct ResultColumn {
    TypePtr type;
    std::vector<ResultPart> parts;  // all of the GPU, or none
    bool is_gathered() const { return !parts.empty() && parts[0].source != kOfGpu; }
};

// Which join that others are compared with; shares: of the stripes of its table, where it has such.
struct BaselineChoice {
    cuda::BaselineJoin algorithm = cuda::BaselineJoin::kStreamProbe;
    cuda::StripeShares shares;
    cuda::StreamProbe stream_probe = cuda::StreamProbe::kSorted;
    bool overlap = true;  // of copies with what else it does
};

struct OutOfCoreStage {
    cuda::StagedJoinSpec join;
    std::optional<cuda::CoherentOptions> coherent;  // none: copy engines bring chunks in and packed rows out
    std::optional<BaselineChoice> baseline;         // a join to compare with in its place; then not coherent
    OutOfCoreSide sides[2];
    std::vector<ResultColumn> columns;
    int32_t presence = -1;              // output column with the presence byte; -1: all bits are always set
    bool packs_results = false;         // result rows cross the link packed
    int32_t row_numbers[2] = {-1, -1};  // output columns with the row numbers of each side; -1: none are needed
    OutOfCoreKeys keys = OutOfCoreKeys::kPacked;
    NullKeys null_keys = NullKeys::kKeep;  // kEqual: not with kPacked
    int32_t workers = 1;                   // that fill chunks, and as many that deliver rows
};

// A coherent join takes the pages of all rows before they come, so it is told how many rows each side has and in how
// many chunks they come: each chunk leaves the last page of every partition partly empty.
cuda::CoherentJoinSpec coherent_spec(const cuda::StagedJoinSpec& join, const cuda::CoherentOptions& options,
                                     const uint64_t (&rows)[2]);

bool is_text(const ColumnType& type);
// Is the key a text, which is compared by its number, or by its bytes where it has a width (short_text.hpp)?
bool is_text_key(const KeySpec& key);
// Bytes of a key as it is packed.
uint32_t packed_key_width(const KeySpec& key);

// Where a packed key begins: behind the one before, but that it crosses no word unless it begins one.
struct KeyPlace {
    uint32_t word = 0;
    uint32_t shift = 0;  // in it, in bits
};
std::vector<KeyPlace> packed_key_places(const std::vector<KeySpec>& keys);
// Words that such keys take, with the byte that says which are NULL; -1: there is none.
uint32_t packed_key_words(const std::vector<KeySpec>& keys, int32_t null_byte = -1);

// Bytes of a value in a chunk and in the rows of the GPU; 0 for types that cannot be there.
uint32_t chunk_width(const ColumnType& type);
// This is the same for one column of a chunk, which is made of a source's column of that type.
uint32_t chunk_width(const ChunkColumn& column, const ColumnType& type);

}  // namespace spillway
