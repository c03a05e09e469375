// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <tuple>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "stream/pack_rows.hpp"
#include "stream/row_tiles.cuh"

namespace spillway::cuda { inline namespace stream {

namespace {

uint8_t bits_of(uint64_t difference) {
    uint8_t bits = 0;
    while (difference != 0) {
        ++bits;
        difference >>= 1;
    }
    return bits;
}

uint64_t aligned(uint64_t words) {
    return (words + kFragmentAlignWords - 1) / kFragmentAlignWords * kFragmentAlignWords;
}

}  // namespace

CodeLayout CodeLayout::make(const RowLayout& rows, int radix_bits) {
    CodeLayout layout;
    layout.row_words = rows.row_words;
    layout.key_words = rows.key_words;
    layout.radix_bits = static_cast<uint32_t>(radix_bits);
    uint32_t used_bytes = rows.key_words * 4;
    layout.field[layout.fields++] = {0, static_cast<uint8_t>(used_bytes)};
    for (size_t column = 0; column < rows.widths.size(); ++column) {
        const auto offset = static_cast<uint8_t>(rows.offsets[column]);
        const auto width = static_cast<uint8_t>(std::min(rows.widths[column], 8U));
        for (uint32_t at = 0; at < rows.widths[column]; at += width) {
            if (layout.fields == kCodeFieldsMax) throw Error(ErrorCode::kInternal, "too many fields for packed rows");
            layout.field[layout.fields++] = {static_cast<uint8_t>(offset + at), width};
        }
        used_bytes += rows.widths[column];
    }
    layout.padded = used_bytes < rows.row_bytes() ? 1 : 0;
    return layout;
}

void FragmentSet::add(const CodeLayout& layout, const RowPiece& piece, const FieldExtremes* extremes) {
    fields = layout.fields;
    uint32_t in_group = 0;
    for (uint32_t f = 0; f < layout.fields; ++f) {
        const bool none = extremes[f].least > extremes[f].greatest;
        uint8_t width = none ? uint8_t{0} : bits_of(extremes[f].greatest - extremes[f].least);
        uint64_t least = none ? 0 : extremes[f].least;
        uint8_t flag = 0;
        if (layout.packed == 0) {
            width = static_cast<uint8_t>(layout.field[f].width * 8);
            least = 0;
        } else if (f == 0) {
            const auto mixed_bits = static_cast<uint8_t>(layout.key_words * 32 - layout.radix_bits);
            if (mixed_bits < width) {
                width = mixed_bits;
                least = 0;
                flag = kKeyMixed;
            }
        }
        bits.push_back(static_cast<uint8_t>(width | flag));
        base.push_back(least);
        in_group += width;
    }
    const uint64_t groups = (piece.rows + kGroupRows - 1) / kGroupRows;
    pieces.push_back(piece);
    first_word.push_back(words);
    group_words.push_back(in_group);
    words += aligned(groups * in_group);
}

void FragmentSet::add(const FragmentSet& other, size_t from, uint64_t at, uint64_t begin) {
    fields = other.fields;
    pieces.push_back({begin, other.pieces[from].rows, other.pieces[from].partition});
    first_word.push_back(at);
    group_words.push_back(other.group_words[from]);
    const auto first = static_cast<std::ptrdiff_t>(from * fields);
    const auto last = static_cast<std::ptrdiff_t>((from + 1) * fields);
    bits.insert(bits.end(), other.bits.begin() + first, other.bits.begin() + last);
    base.insert(base.end(), other.base.begin() + first, other.base.begin() + last);
    words = std::max(words, at + other.end_word(from) - other.first_word[from]);
}

namespace {

struct FragmentCodes {
    PieceTiles tiles;
    const uint64_t* first_word = nullptr;
    const uint32_t* group_words = nullptr;
    const uint8_t* bits = nullptr;
    const uint64_t* base = nullptr;
};

FragmentCodes send(Parcels& parcels, const FragmentSet& set) {
    FragmentCodes codes;
    const std::vector<uint64_t> first_tile = first_tiles_of(set.pieces);
    std::tie(codes.tiles.piece, codes.tiles.first_tile, codes.first_word, codes.group_words, codes.bits, codes.base) =
        parcels.send_together(set.pieces, first_tile, set.first_word, set.group_words, set.bits, set.base);
    codes.tiles.pieces = set.pieces.size();
    codes.tiles.tiles = first_tile.back();
    return codes;
}

__device__ inline uint64_t load_field(const uint32_t* row, CodeField field) {
    const uint32_t first = row[field.offset / 4] >> (field.offset % 4 * 8);
    switch (field.width) {
        case 1:
            return first & 0xffU;
        case 2:
            return first & 0xffffU;
        case 4:
            return first;
        default:
            return first | static_cast<uint64_t>(row[field.offset / 4 + 1]) << 32;
    }
}

__device__ inline void store_field(uint32_t* row, CodeField field, uint64_t value) {
    switch (field.width) {
        case 1:
            reinterpret_cast<uint8_t*>(row)[field.offset] = static_cast<uint8_t>(value);
            break;
        case 2:
            reinterpret_cast<uint16_t*>(row)[field.offset / 2] = static_cast<uint16_t>(value);
            break;
        case 8:
            row[field.offset / 4 + 1] = static_cast<uint32_t>(value >> 32);
            [[fallthrough]];
        default:
            row[field.offset / 4] = static_cast<uint32_t>(value);
    }
}

// Signed numbers in the order of unsigned ones, so that a range around 0 is short. Its own inverse.
__device__ inline uint64_t ordered(uint64_t value, uint32_t width) {
    return value ^ (1ULL << (width * 8 - 1));
}

template <int kKeyWords>
__device__ inline uint64_t unmixed(uint64_t mixed) {
    return MixedKey<kKeyWords>::unmix(static_cast<typename MixedKey<kKeyWords>::Key>(mixed));
}
template <int kKeyWords>
__device__ inline uint64_t mixed(uint64_t key) {
    return MixedKey<kKeyWords>::mix(static_cast<typename MixedKey<kKeyWords>::Key>(key));
}

__device__ inline uint64_t low_bits(uint32_t bits) {
    return bits >= 64 ? ~0ULL : (1ULL << bits) - 1;
}

// Lane i has row i of a matrix of bits, then column i.
__device__ inline uint32_t transpose_bits(uint32_t word) {
    uint32_t mask = 0x0000ffffU;
#pragma unroll
    for (uint32_t distance = 16; distance > 0; distance /= 2) {
        const uint32_t other = __shfl_xor_sync(kFullWarp, word, distance);
        word = (lane_index() & distance) == 0 ? (word & mask) | ((other & mask) << distance)
                                              : (word & ~mask) | ((other & ~mask) >> distance);
        mask ^= mask << (distance / 2);
    }
    return word;
}

// Most warps find nothing less or greater than what is there: a look costs them less than an addition that has to wait
// for those of others.
__device__ inline void widen_extremes(FieldExtremes* found, uint64_t least, uint64_t greatest) {
    if (least < __ldcg(&found->least)) {
        atomicMin(reinterpret_cast<unsigned long long*>(&found->least), static_cast<unsigned long long>(least));
    }
    if (greatest > __ldcg(&found->greatest)) {
        atomicMax(reinterpret_cast<unsigned long long*>(&found->greatest), static_cast<unsigned long long>(greatest));
    }
}

// Adds the extremes of every `step`-th row from `first` on to `found`; `first` differs from thread to thread.
template <int kKeyWords>
__device__ inline void add_extremes(const CodeLayout& layout, const uint32_t* rows, uint64_t first, uint64_t last,
                                    uint64_t step, FieldExtremes* found) {
    for (uint32_t f = 0; f < layout.fields; ++f) {
        const CodeField field = layout.field[f];
        uint64_t least = ~0ULL;
        uint64_t greatest = 0;
        for (uint64_t i = first; i < last; i += step) {
            uint64_t value = load_field(rows + i * layout.row_words, field);
            if (f == 0) value = unmixed<kKeyWords>(value);
            value = ordered(value, field.width);
            least = min(least, value);
            greatest = max(greatest, value);
        }
#pragma unroll
        for (uint32_t distance = 16; distance > 0; distance /= 2) {
            least = min(least, __shfl_xor_sync(kFullWarp, least, distance));
            greatest = max(greatest, __shfl_xor_sync(kFullWarp, greatest, distance));
        }
        if (lane_index() == 0 && least <= greatest) widen_extremes(found + f, least, greatest);
    }
}

// gridDim.y blocks for each partition, up to so many of its rows. What a partition with a frequent key has beyond them
// is shared out among the first blocks of all partitions: all others would wait for its own.
template <int kKeyWords>
__global__ void extremes_kernel(CodeLayout layout, const uint32_t* rows, const uint64_t* begin, const uint64_t* end,
                                uint64_t rows_max, uint32_t helpers, FieldExtremes* extremes) {
    __shared__ uint32_t large[kStreamWarps];
    const uint64_t own = begin[blockIdx.x];
    add_extremes<kKeyWords>(layout, rows, own + blockIdx.y * blockDim.x + threadIdx.x,
                            min(end[blockIdx.x], own + rows_max), static_cast<uint64_t>(gridDim.y) * blockDim.x,
                            extremes + blockIdx.x * layout.fields);
    if (blockIdx.y >= helpers) return;
    const uint64_t thread = (static_cast<uint64_t>(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t threads = static_cast<uint64_t>(helpers) * gridDim.x * blockDim.x;
    for (uint64_t first = 0; first < gridDim.x; first += blockDim.x) {
        const uint64_t mine = first + threadIdx.x;
        const uint32_t found = __ballot_sync(kFullWarp, mine < gridDim.x && end[mine] > begin[mine] + rows_max);
        if (lane_index() == 0) large[warp_index()] = found;
        __syncthreads();
        for (uint32_t warp = 0; warp < kStreamWarps; ++warp) {
            for (uint32_t lanes = large[warp]; lanes != 0; lanes &= lanes - 1) {
                const uint64_t partition = first + warp * kWarpThreads + __ffs(static_cast<int>(lanes)) - 1;
                add_extremes<kKeyWords>(layout, rows, begin[partition] + rows_max + thread, end[partition], threads,
                                        extremes + partition * layout.fields);
            }
        }
        __syncthreads();
    }
}

__global__ void clear_extremes(FieldExtremes* extremes, uint64_t count) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) extremes[i] = FieldExtremes{};
}

// Words behind a fragment, up to where the next one begins: they leave with it, though nobody reads them.
__device__ inline void clear_gap(const FragmentCodes& codes, uint64_t fragment, uint64_t rows, uint32_t* packed) {
    const uint64_t used_words = (rows + kGroupRows - 1) / kGroupRows * codes.group_words[fragment];
    const uint64_t gap = (kFragmentAlignWords - used_words % kFragmentAlignWords) % kFragmentAlignWords;
    for (uint64_t word = lane_index(); word < gap; word += kWarpThreads) {
        packed[codes.first_word[fragment] + used_words + word] = 0;
    }
}

// A warp takes every kStreamWarps-th group of its block's tile.
template <int kKeyWords>
__global__ void pack_kernel(CodeLayout layout, const uint32_t* rows, FragmentCodes codes, uint32_t* packed) {
    const RowTile tile = row_tile(codes.tiles);
    const RowPiece piece = codes.tiles.piece[tile.piece];
    const uint64_t group_words = codes.group_words[tile.piece];
    const uint8_t* const bits = codes.bits + tile.piece * layout.fields;
    const uint64_t* const base = codes.base + tile.piece * layout.fields;
    for (uint32_t g = warp_index(); g < kTileGroups && g * kGroupRows < tile.rows; g += kStreamWarps) {
        const uint32_t in_tile = g * kGroupRows + lane_index();
        const bool present = in_tile < tile.rows;
        const uint32_t* const row = rows + (piece.begin + tile.offset + in_tile) * layout.row_words;
        uint32_t* out = packed + codes.first_word[tile.piece] + (tile.offset / kGroupRows + g) * group_words;
        for (uint32_t f = 0; f < layout.fields; ++f) {
            const uint32_t wide = bits[f] & ~kKeyMixed;
            uint64_t value = 0;
            if (present) {
                value = load_field(row, layout.field[f]);
                if ((bits[f] & kKeyMixed) != 0) {
                    value &= low_bits(wide);
                } else {
                    if (f == 0) value = unmixed<kKeyWords>(value);
                    value = ordered(value, layout.field[f].width) - base[f];
                }
            }
            if (wide > 0) {
                const uint32_t column = transpose_bits(static_cast<uint32_t>(value));
                if (lane_index() < wide) out[lane_index()] = column;
            }
            if (wide > 32) {
                const uint32_t column = transpose_bits(static_cast<uint32_t>(value >> 32));
                if (lane_index() < wide - 32) out[32 + lane_index()] = column;
            }
            out += wide;
        }
    }
    if (tile.offset + tile.rows == piece.rows && warp_index() == 0) clear_gap(codes, tile.piece, piece.rows, packed);
}

template <int kKeyWords>
__global__ void unpack_kernel(CodeLayout layout, const uint32_t* packed, FragmentCodes codes, uint32_t* rows) {
    const RowTile tile = row_tile(codes.tiles);
    const RowPiece piece = codes.tiles.piece[tile.piece];
    const uint64_t group_words = codes.group_words[tile.piece];
    const uint8_t* const bits = codes.bits + tile.piece * layout.fields;
    const uint64_t* const base = codes.base + tile.piece * layout.fields;
    for (uint32_t g = warp_index(); g < kTileGroups && g * kGroupRows < tile.rows; g += kStreamWarps) {
        const uint32_t in_tile = g * kGroupRows + lane_index();
        const bool present = in_tile < tile.rows;
        uint32_t* const row = rows + (piece.begin + tile.offset + in_tile) * layout.row_words;
        const uint32_t* in = packed + codes.first_word[tile.piece] + (tile.offset / kGroupRows + g) * group_words;
        if (present && layout.padded != 0) row[layout.row_words - 1] = 0;
        for (uint32_t f = 0; f < layout.fields; ++f) {
            const uint32_t wide = bits[f] & ~kKeyMixed;
            uint64_t value = 0;
            if (wide > 0) value = transpose_bits(lane_index() < wide ? in[lane_index()] : 0);
            if (wide > 32) {
                const uint32_t high = transpose_bits(lane_index() < wide - 32 ? in[32 + lane_index()] : 0);
                value |= static_cast<uint64_t>(high) << 32;
            }
            in += wide;
            if ((bits[f] & kKeyMixed) != 0) {
                if (wide < 64) value |= piece.partition << wide;
            } else {
                value = ordered(value + base[f], layout.field[f].width);
                if (f == 0) value = mixed<kKeyWords>(value);
            }
            if (present) store_field(row, layout.field[f], value);
        }
    }
}

}  // namespace

void find_extremes(Device& device, const CodeLayout& layout, const uint32_t* rows, const uint64_t* begin,
                   const uint64_t* end, uint64_t partitions, uint64_t all_rows, FieldExtremes* extremes) {
    const uint64_t count = partitions * layout.fields;
    const auto blocks =
        static_cast<unsigned>(std::max<uint64_t>(kPartitionExtremesBlocks, kExtremesBlocks / partitions));
    const uint64_t rows_max = kExtremesOwnShare * (all_rows / partitions + 1);
    const auto helpers = static_cast<uint32_t>(std::min<uint64_t>(blocks, kExtremesBlocks / partitions + 1));
    launch(clear_extremes, grid_of_threads(count, kStreamThreads), dim3(kStreamThreads), 0, device.stream(), extremes,
           count);
    launch(layout.key_words == 1 ? extremes_kernel<1> : extremes_kernel<2>,
           dim3(static_cast<unsigned>(partitions), blocks), dim3(kStreamThreads), 0, device.stream(), layout, rows,
           begin, end, rows_max, helpers, extremes);
}

void pack_rows(Device& device, Parcels& parcels, const CodeLayout& layout, const uint32_t* rows, const FragmentSet& set,
               uint32_t* packed) {
    const FragmentCodes codes = send(parcels, set);
    if (codes.tiles.tiles == 0) return;
    launch(layout.key_words == 1 ? pack_kernel<1> : pack_kernel<2>, dim3(static_cast<unsigned>(codes.tiles.tiles)),
           dim3(kStreamThreads), 0, device.stream(), layout, rows, codes, packed);
}

void unpack_rows(Device& device, Parcels& parcels, const CodeLayout& layout, const uint32_t* packed,
                 const FragmentSet& set, uint32_t* rows) {
    const FragmentCodes codes = send(parcels, set);
    if (codes.tiles.tiles == 0) return;
    launch(layout.key_words == 1 ? unpack_kernel<1> : unpack_kernel<2>, dim3(static_cast<unsigned>(codes.tiles.tiles)),
           dim3(kStreamThreads), 0, device.stream(), layout, packed, codes, rows);
}

}}  // namespace spillway::cuda::stream
