// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "materialize/column_match.cuh"
#include "no_partitioning_join/npj_policy.hpp"
#include "no_partitioning_join/npj_tables.cuh"
#include "primitive/warp.cuh"

// Looks every probe row up and writes (or counts) a match for each build row with its key. Linear probing walks from
// the key's slot to the first empty one and meets all equal keys on the way.
//
// Per probe row: the key in order (4 or 8 bytes) and 1.4 random sectors of slots (1.75 of 16-byte slots, 1 of perfect
// hashing). Per match: a random sector for each build column, which share none as columns lie apart, the probe columns
// nearly in order, and all output columns in order. H200, 2^27 probe rows with one match each, 2^27 build rows: slots
// at 42 G/s 4.4 ms, each build column 3.2 ms, 1.6 GB of keys and two 4-byte payloads out 0.5 ms; perfect hashing with a
// table of 512 MiB 2.9 ms instead of 4.4. A table of 16 MiB at 155 G/s 1.2 ms, its payload column of 4 MiB 0.9 ms.
namespace spillway::cuda { inline namespace no_partitioning_joins {

struct NpjProbe {
    const void* source[kOutputColumnsMax] = {};  // where out.column[] come from; nullptr: the row's number
    MatchOutput out;
};

// Matches that wait until there are 32 of them, per warp.
struct QueuedMatch {
    uint64_t probe_row;
    uint64_t build_row;
};
constexpr int kNpjWarps = kNpjThreads / kWarpThreads;
constexpr int kMatchQueue = 2 * kWarpThreads;

template <class Table, bool kCountOnly>
class TableProbe {
    using Key = typename Table::Key;
    using Entry = typename Table::Entry;

  public:
    __device__ TableProbe(const Table& table, const KeyRows<Key>& probe, const NpjProbe& with, QueuedMatch* queue)
        : table_(table), probe_(probe), with_(with), writer_(with.out), queue_(queue) {}

    __device__ void run() {
        constexpr uint64_t kTileRows = static_cast<uint64_t>(kNpjThreads) * kNpjUnroll;
        const uint64_t step = gridDim.x * kTileRows;
        for (uint64_t tile = blockIdx.x * kTileRows; tile < probe_.rows; tile += step) probe_rows(tile + threadIdx.x);
        if (kCountOnly) {
            if (lane_index() == 0 && count_ > 0) {
                atomicAdd(with_.out.matches, static_cast<unsigned long long>(count_));
            }
        } else {
            if (queued_ > 0) write_queued(queued_);
            writer_.finish();
        }
    }

  private:
    // Rows row, row + kNpjThreads, ...: the slots of all are under way before the first is looked at.
    __device__ void probe_rows(uint64_t row) {
        Key keys[kNpjUnroll];
        bool there[kNpjUnroll];
        Entry entries[kNpjUnroll];
#pragma unroll
        for (int u = 0; u < kNpjUnroll; ++u) {
            there[u] = probe_.has_key(row + u * kNpjThreads);
            keys[u] = there[u] ? Table::stored(__ldg(&probe_.keys[row + u * kNpjThreads])) : 0;
        }
#pragma unroll
        for (int u = 0; u < kNpjUnroll; ++u) {
            uint64_t slot;
            const bool fits = table_.first(keys[u], slot);
            entries[u] = there[u] && fits ? table_.load(slot) : Table::none();
        }
        // The rows move up to the first place instead of being followed by code of their own: four copies of the walk
        // and of the writer do not fit the registers.
#pragma unroll 1
        for (int u = 0; u < kNpjUnroll; ++u) {
            follow(keys[0], row + u * kNpjThreads, entries[0]);
#pragma unroll
            for (int later = 1; later < kNpjUnroll; ++later) {
                keys[later - 1] = keys[later];
                entries[later - 1] = entries[later];
            }
        }
    }

    // From slot to slot, one probe row per lane, to each match of all lanes in turn; all lanes take part.
    __device__ void follow(Key key, uint64_t row, Entry entry) {
        if constexpr (!Table::kWalks) {
            const bool found = !Table::is_empty(entry);
            emit(__ballot_sync(kFullWarp, found), found, row, Table::row_of(entry));
        } else {
            uint64_t slot;
            table_.first(key, slot);
            for (;;) {
                while (!Table::is_empty(entry) && !Table::matches(entry, key)) {
                    slot = table_.next(slot);
                    entry = table_.load(slot);
                }
                __syncwarp();
                const bool found = !Table::is_empty(entry);
                const uint32_t lanes = __ballot_sync(kFullWarp, found);
                if (lanes == 0) return;
                emit(lanes, found, row, Table::row_of(entry));
                if (found) {
                    slot = table_.next(slot);
                    entry = table_.load(slot);
                }
            }
        }
    }

    __device__ void emit(uint32_t lanes, bool found, uint64_t probe_row, uint64_t build_row) {
        if (kCountOnly) {
            count_ += __popc(lanes);
            return;
        }
        if (found) queue_[queued_ + __popc(lanes & lanes_below())] = {probe_row, build_row};
        queued_ += __popc(lanes);
        __syncwarp();
        if (queued_ >= kWarpThreads) write_queued(kWarpThreads);
    }

    // What all lanes have found goes through the queue too: a second copy of the writer costs registers.
    __device__ void write_queued(uint32_t count) {
        const QueuedMatch match = lane_index() < count ? queue_[lane_index()] : QueuedMatch{0, 0};
        writer_.write(count, ColumnRow{with_.source, match.build_row}, ColumnRow{with_.source, match.probe_row});
        queued_ -= count;
        const bool stays = lane_index() < queued_;
        const QueuedMatch later = stays ? queue_[count + lane_index()] : QueuedMatch{0, 0};
        __syncwarp();
        if (stays) queue_[lane_index()] = later;
        __syncwarp();
    }

    const Table& table_;
    const KeyRows<Key>& probe_;
    const NpjProbe& with_;
    ColumnMatchWriter writer_;
    QueuedMatch* const queue_;
    uint32_t queued_ = 0;
    uint64_t count_ = 0;
};

template <class Table, bool kCountOnly>
__global__ void __launch_bounds__(kNpjThreads, kNpjBlocksPerMultiprocessor)
    probe_table_kernel(const __grid_constant__ Table table, const __grid_constant__ KeyRows<typename Table::Key> probe,
                       const __grid_constant__ NpjProbe with) {
    __shared__ QueuedMatch queues[kCountOnly ? 1 : kNpjWarps][kMatchQueue];
    TableProbe<Table, kCountOnly>(table, probe, with, queues[kCountOnly ? 0 : warp_index()]).run();
}

}}  // namespace spillway::cuda::no_partitioning_joins
