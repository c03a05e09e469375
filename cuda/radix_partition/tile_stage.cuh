// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/bulk_copy.cuh"
#include "primitive/warp.cuh"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/scatter_pass.hpp"

// The next tile of a pass on its way to shared memory, while the one before it is sorted: one thread asks for it by
// bulk copies, one per column or one for all packed rows, and no thread waits for memory unless it is late.
namespace spillway::cuda { inline namespace radix_partitioning {

// kWords: no column of less than 4 bytes; their rows are put together in registers. kRows: packed rows in regions.
enum class TileSource { kColumns, kWords, kRows };

// What a block knows of the tile that it asked for last, and of the region that it is in.
struct StagedTile {
    BulkLoad load;
    uint32_t rows;       // kRows
    uint64_t place;      // kRows: of the tile's region among all
    uint64_t region;     // kRows: of the tile, or the one that this is a part of
    uint64_t next_row;   // kRows: first row of the tile behind it, if in the same region
    uint64_t end_row;    // kRows: behind the region's last
    uint64_t last_tile;  // kRows: the first tile of the next region
};

template <int kRowWords, TileSource kSource>
class TileStage {
    static constexpr bool kFromRows = kSource == TileSource::kRows;
    // Not among the threads that keep a digit.
    static constexpr uint32_t kFetcher = kScatterThreads - kWarpThreads;
    static_assert(kPassFanOutMax <= kFetcher);

  public:
    // By all threads; a barrier follows.
    __device__ TileStage(const ScatterPass& pass, uint32_t key_bytes, uint32_t* memory, StagedTile& staged)
        : pass_(pass), key_bytes_(key_bytes), memory_(memory), staged_(staged) {
        if (threadIdx.x != kFetcher) return;
        staged_.load.init();
        staged_.last_tile = 0;
    }

    __device__ const unsigned char* memory() const { return reinterpret_cast<const unsigned char*>(memory_); }

    // Sends for a tile; by all threads, when none reads the tile before any more (fence_shared_for_bulk(), barrier).
    __device__ void fetch(uint64_t tile) {
        if constexpr (kFromRows) {
            if (threadIdx.x == kFetcher) fetch_rows(tile);
            if constexpr (!kBulkCopies) {
                __syncthreads();
                const uint64_t first = staged_.next_row - pass_.tile_rows;
                copy(memory_, static_cast<const uint32_t*>(pass_.rows_in) + first * kRowWords,
                     staged_.rows * kRowWords * 4);
            }
        } else if (comes_in_bulk(tile)) {
            if (threadIdx.x == kFetcher) fetch_columns(tile);
        } else {
            copy_columns(tile);
        }
    }

    // By all threads: until the tile is there, if bulk copies bring it; else there was a barrier since. Its rows.
    __device__ uint32_t wait(uint64_t tile) {
        if (comes_in_bulk(tile)) staged_.load.wait(phase_);
        return kFromRows ? staged_.rows : rows_of(tile);
    }

  private:
    __device__ uint32_t rows_of(uint64_t tile) const {
        const uint64_t rest = pass_.rows - tile * pass_.tile_rows;
        return rest < pass_.tile_rows ? static_cast<uint32_t>(rest) : pass_.tile_rows;
    }
    // The last rows of a column may end where no bulk copy can.
    __device__ bool comes_in_bulk(uint64_t tile) const {
        return kBulkCopies && (kFromRows || rows_of(tile) == pass_.tile_rows);
    }

    __device__ void fetch_rows(uint64_t tile) {
        if (tile >= staged_.last_tile) open_region(tile);
        const uint64_t rest = staged_.end_row - staged_.next_row;
        staged_.rows = rest < pass_.tile_rows ? static_cast<uint32_t>(rest) : pass_.tile_rows;
        // Regions end at multiples of kRegionAlignRows: what is read behind the last row is padding.
        const uint32_t bytes = (staged_.rows * kRowWords * 4 + 15) & ~15U;
        staged_.load.expect(bytes);
        staged_.load.bring(memory_, static_cast<const uint32_t*>(pass_.rows_in) + staged_.next_row * kRowWords, bytes);
        staged_.next_row += pass_.tile_rows;
    }
    __device__ void open_region(uint64_t tile) {
        const uint64_t region = find_region(tile);
        staged_.place = region;
        staged_.region = pass_.parent == nullptr ? region : pass_.parent[region];
        staged_.next_row = pass_.begin[region] + (tile - pass_.first_tile[region]) * pass_.tile_rows;
        staged_.end_row = pass_.end[region];
        staged_.last_tile = pass_.first_tile[region + 1];
    }

    // Mostly the one behind the last: a search takes a load for each step, one after the other.
    __device__ uint64_t find_region(uint64_t tile) const {
        const uint64_t next = staged_.place + 1;
        if (staged_.last_tile > 0 && next < pass_.regions && pass_.first_tile[next + 1] > tile) return next;
        return last_not_above(pass_.first_tile, pass_.regions, tile);
    }

    __device__ void fetch_columns(uint64_t tile) {
        const KeyedColumns& in = pass_.in;
        uint32_t row_bytes = key_bytes_;
        for (int c = 0; c < in.columns; ++c) row_bytes += in.data[c] == nullptr ? 0 : in.width[c];
        staged_.load.expect(row_bytes * pass_.tile_rows);
        bring(in.key, key_bytes_, 0, tile);
        for (int c = 0; c < in.columns; ++c) {
            if (in.data[c] != nullptr) bring(in.data[c], in.width[c], in.before[c], tile);
        }
    }
    __device__ void bring(const void* column, uint32_t width, uint32_t before, uint64_t tile) {
        const auto* const from = static_cast<const unsigned char*>(column);
        auto* const to = reinterpret_cast<unsigned char*>(memory_);
        staged_.load.bring(to + before * pass_.tile_rows, from + tile * pass_.tile_rows * width,
                           pass_.tile_rows * width);
    }

    __device__ void copy_columns(uint64_t tile) {
        const KeyedColumns& in = pass_.in;
        copy_column(in.key, key_bytes_, 0, tile);
        for (int c = 0; c < in.columns; ++c) {
            if (in.data[c] != nullptr) copy_column(in.data[c], in.width[c], in.before[c], tile);
        }
    }
    __device__ void copy_column(const void* column, uint32_t width, uint32_t before, uint64_t tile) {
        const auto* const from = static_cast<const unsigned char*>(column);
        auto* const to = reinterpret_cast<unsigned char*>(memory_) + before * pass_.tile_rows;
        copy(to, from + tile * pass_.tile_rows * width, rows_of(tile) * width);
    }
    // By all threads. from: at a multiple of 16 bytes, or of 4 and whole words.
    __device__ static void copy(void* to, const void* from, uint32_t bytes) {
        const uint32_t words = bytes / 4;
        for (uint32_t w = threadIdx.x; w < words; w += kScatterThreads) {
            static_cast<uint32_t*>(to)[w] = static_cast<const uint32_t*>(from)[w];
        }
        const uint32_t byte = words * 4 + threadIdx.x;
        if (byte < bytes) static_cast<unsigned char*>(to)[byte] = static_cast<const unsigned char*>(from)[byte];
    }

    const ScatterPass& pass_;
    const uint32_t key_bytes_;
    uint32_t* const memory_;
    StagedTile& staged_;
    uint32_t phase_ = 0;
};

}}  // namespace spillway::cuda::radix_partitioning
