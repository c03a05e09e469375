// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "device/device.hpp"
#include "device/published.hpp"
#include "radix_partition/radix_partition.hpp"
#include "stream/bloom_filter.hpp"
#include "stream/copy_ring.hpp"
#include "stream/pack_rows.hpp"
#include "stream/row_pieces.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

// A chunk in device memory, its rows packed and partitioned.
struct PartitionedChunk {
    RowPieces batch;                          // pieces in the order of partitions
    const FieldExtremes* extremes = nullptr;  // [partitions * fields] on the host; nullptr unless asked for
    RowPieces keyless;                        // rows without a key, if they are wanted
};

// The rows of one input: chunk by chunk copied in by copy engines and partitioned, while later chunks are on the link.
// Chunks that are on the GPU already are partitioned from where they are.
class ChunkReader {
  public:
    struct Wants {
        std::function<bool()> extremes;  // of the next chunk
        bool keyless = false;
        BloomFilter* add_to = nullptr;   // gets the keys of all rows
        BloomFilter* passing = nullptr;  // rows that it does not let pass are left out
        // Rows that are partitioned in place of a chunk's, not more of them, their columns those of the reader's
        // layout; they stay as they are until the next call, in the order of the device's stream. Not with keyless.
        std::function<DeviceRelation(const DeviceRelation&)> transform;
        // Such rows that are left when all chunks have come.
        std::function<DeviceRelation()> rest;
    };

    // What becomes of a chunk, while the next one is partitioned.
    using Use = std::function<void(const PartitionedChunk&)>;

    // owner: of the chunks, which it gets back when they have been copied.
    ChunkReader(Device& device, CopyRing& ring, const CodeLayout& layout, uint32_t key_bytes,
                const ColumnWidths& widths, uint64_t chunk_rows, Wants wants, Use use, ChunkOwner& owner);

    // Copies a chunk in. With as many chunks as the ring has slots the oldest is partitioned, so that the link never
    // waits for the host. What is on the GPU is partitioned at once.
    void push(const Chunk& chunk);
    // Partitions the chunks that are left; returns the number of rows of all.
    uint64_t finish();

  private:
    struct Filled {
        DeviceRelation relation;
        uint32_t slot;  // kNoSlot: it is not in the ring
    };
    struct Work {
        Work(Device& device, uint64_t words_max) : published(device, words_max) {}
        PartitionedRows rows;
        PartitionedRows keyless;
        Allocation extremes;
        bool has_extremes = false;
        Published published;
    };
    void release(size_t keep);
    DeviceRelation copied_in(const Chunk& chunk, uint32_t slot);
    void copy_column(uint32_t slot, uint64_t offset, const void* from, const PackedBlock* blocks, uint64_t rows,
                     uint32_t width);
    DeviceRelation lent(const Chunk& chunk) const;
    void partition_oldest();
    void prepare(const Filled& filled, Work& work);
    void take_turns();
    void publish(Work& work, uint64_t rows);
    PartitionedRows partition_keyless(const DeviceRelation& relation);
    PartitionedChunk finish(const Work& work) const;

    Device& device_;
    CopyRing& ring_;
    const CodeLayout layout_;
    const uint32_t key_bytes_;
    const ColumnWidths widths_;
    const uint64_t chunk_rows_;
    const Wants wants_;
    const Use use_;
    ChunkOwner& owner_;
    Work first_;
    Work second_;
    Work* before_ = nullptr;  // partitioned, and not used yet
    Work* now_ = &first_;
    uint64_t rows_ = 0;
    std::deque<Filled> filled_;
    std::deque<uint32_t> unreleased_;
};

}}  // namespace spillway::cuda::stream
