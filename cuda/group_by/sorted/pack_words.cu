// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "group_by/sorted/pack_words.hpp"
#include "group_by/sorted/run_tiles.cuh"
#include "group_by/tables/operands.cuh"
#include "radix_partition/plan_regions.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr uint32_t kTileWords = kRunTileRows / 32;  // of a bitmap
constexpr uint32_t kTileWarps = kTileWords / kWarpThreads;
static_assert(kTileWords % kWarpThreads == 0 && kTileWords <= kRunThreads, "a thread per word, in whole warps");

struct Parts {
    const unsigned char* column[kWordPartsMax] = {};  // nullptr: row numbers
    uint32_t width[kWordPartsMax] = {};
    uint32_t shift[kWordPartsMax] = {};
    int32_t count = 0;
};

// Word `word` of the bitmap, zeros behind the last row.
__device__ inline uint32_t valid_word(const uint32_t* valid, uint64_t word, uint64_t rows) {
    const uint64_t row = word * 32;
    if (row >= rows) return 0;
    return valid[word] & (rows - row >= 32 ? ~0U : (1U << (rows - row)) - 1);
}

// A warp per tile. Bytes: the bitmap once.
__global__ void count_keyed_rows(const uint32_t* valid, uint64_t rows, uint64_t tiles, uint64_t* counts) {
    const uint64_t tile = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarpThreads;
    if (tile >= tiles) return;
    uint32_t count = 0;
    for (uint32_t i = lane_index(); i < kTileWords; i += kWarpThreads) {
        count += __popc(valid_word(valid, tile * kTileWords + i, rows));
    }
    const uint32_t sum = warp_inclusive_sum(count);
    if (lane_index() == kWarpThreads - 1) counts[tile] = sum;
}

template <class Word>
__device__ inline Word packed_word(const Parts& parts, uint64_t row) {
    Word word = 0;
#pragma unroll
    for (int i = 0; i < kWordPartsMax; ++i) {
        if (i >= parts.count) break;
        const uint64_t bits =
            parts.column[i] == nullptr ? row : load_bits(parts.column[i] + row * parts.width[i], parts.width[i]);
        word |= static_cast<Word>(bits) << parts.shift[i];
    }
    return word;
}

// A block per tile. Bytes: the columns and the words once, a bit per row where there are rows without a key.
template <class Word>
__global__ void __launch_bounds__(kRunThreads)
    pack_words_kernel(const __grid_constant__ Parts parts, const uint32_t* valid, const uint64_t* tile_first,
                      uint64_t rows, Word* words) {
    __shared__ uint32_t valid_words[kTileWords];
    __shared__ uint32_t before_word[kTileWords];
    __shared__ uint32_t warp_rows[kTileWarps];
    const uint64_t first_row = static_cast<uint64_t>(blockIdx.x) * kRunTileRows;
    uint64_t first_place = first_row;
    if (valid != nullptr) {
        first_place = tile_first[blockIdx.x];
        uint32_t own = 0;
        uint32_t inclusive = 0;
        if (threadIdx.x < kTileWords) {  // whole warps
            own = valid_word(valid, static_cast<uint64_t>(blockIdx.x) * kTileWords + threadIdx.x, rows);
            inclusive = warp_inclusive_sum(static_cast<uint32_t>(__popc(own)));
            if (lane_index() == kWarpThreads - 1) warp_rows[warp_index()] = inclusive;
        }
        __syncthreads();
        if (threadIdx.x < kTileWords) {
            uint32_t before = inclusive - __popc(own);
            for (uint32_t warp = 0; warp < warp_index(); ++warp) before += warp_rows[warp];
            valid_words[threadIdx.x] = own;
            before_word[threadIdx.x] = before;
        }
        __syncthreads();
    }
    for (uint32_t i = threadIdx.x; i < kRunTileRows; i += kRunThreads) {
        const uint64_t row = first_row + i;
        if (row >= rows) return;
        uint64_t place = first_place + i;
        if (valid != nullptr) {
            const uint32_t own = valid_words[i / 32];
            if ((own >> (i % 32) & 1) == 0) continue;
            place = first_place + before_word[i / 32] + __popc(own & lanes_below());
        }
        words[place] = packed_word<Word>(parts, row);
    }
}

}  // namespace

KeyedRows find_keyed_rows(Device& device, const uint32_t* valid, uint64_t rows) {
    KeyedRows keyed;
    keyed.all_rows = keyed.rows = rows;
    keyed.valid = valid;
    if (valid == nullptr || rows == 0) return keyed;
    count_moved(device, rows / 8);
    const uint64_t tiles = (rows + kRunTileRows - 1) / kRunTileRows;
    const Allocation counts = device.memory().allocate(tiles * sizeof(uint64_t), "rows that have a key");
    const uint64_t blocks = (tiles + kRunWarps - 1) / kRunWarps;
    launch(count_keyed_rows, dim3(static_cast<unsigned>(blocks)), dim3(kRunThreads), 0, device.stream(), valid, rows,
           tiles, counts.as<uint64_t>());
    keyed.tile_first = first_tiles(device, counts.as<const uint64_t>(), tiles, 1);
    keyed.rows = read_published<uint64_t>(device, keyed.tile_first.as<const uint64_t>() + tiles);
    return keyed;
}

Allocation pack_words(Device& device, const KeyedRows& keyed, const std::vector<WordPart>& parts, uint32_t word_bytes) {
    const PhaseScope transform(device, Phase::kTransform);
    Parts from;
    for (const WordPart& part : parts) {
        if (from.count == kWordPartsMax) throw Error(ErrorCode::kInvalid, "too many columns in one word");
        from.column[from.count] = static_cast<const unsigned char*>(part.column.data);
        from.width[from.count] = part.column.width;
        from.shift[from.count++] = part.shift;
    }
    Allocation words = device.memory().allocate(keyed.rows * word_bytes, "columns to sort");
    count_moved(device, words.bytes() + (keyed.valid == nullptr ? 0 : keyed.all_rows / 8));
    for (const WordPart& part : parts) {
        if (part.column.data != nullptr) count_moved(device, keyed.all_rows * part.column.width);
    }
    const uint64_t tiles = (keyed.all_rows + kRunTileRows - 1) / kRunTileRows;
    const dim3 grid(static_cast<unsigned>(tiles));
    const auto* const tile_first = keyed.tile_first.as<const uint64_t>();
    if (word_bytes == 4) {
        launch(pack_words_kernel<uint32_t>, grid, dim3(kRunThreads), 0, device.stream(), from, keyed.valid, tile_first,
               keyed.all_rows, words.as<uint32_t>());
    } else {
        launch(pack_words_kernel<uint64_t>, grid, dim3(kRunThreads), 0, device.stream(), from, keyed.valid, tile_first,
               keyed.all_rows, words.as<uint64_t>());
    }
    return words;
}

}}  // namespace spillway::cuda::grouping
