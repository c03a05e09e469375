// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "device/device.hpp"
#include "device/published.hpp"
#include "device/stream.hpp"
#include "memory_model/stream_memory.hpp"
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

// The rows of one input: chunk by chunk copied in and partitioned, while later chunks are on the link. The host's
// chunks are small, so that packed values are still in the processor's cache when the link reads them; as many as fit
// are joined in a slot of the ring. Chunks that are on the GPU already are partitioned from where they are.
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

    // owner: of the chunks, which it gets back when they have been copied: it has sizes.host_chunk_slots of them.
    ChunkReader(Device& device, CopyRing& ring, const CodeLayout& layout, uint32_t key_bytes,
                const ColumnWidths& widths, const StreamSizes& sizes, Wants wants, Use use, ChunkOwner& owner);

    // Copies a chunk in. With as many full slots as the ring has the oldest is partitioned, so that the link never
    // waits for the host. What is on the GPU is partitioned at once.
    void push(const Chunk& chunk);
    // Partitions the chunks that are left; returns the number of rows of all.
    uint64_t finish();

  private:
    static constexpr uint32_t kNoSlot = UINT32_MAX;
    struct Filled {
        DeviceRelation relation;
        uint32_t slot = kNoSlot;  // of the ring, if it is there
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
    bool has_room(uint64_t rows) const;
    void open_slot();
    void close_slot();
    void copy_in(const Chunk& chunk);
    void copy_validity(const Chunk& chunk);
    void copy_column(uint64_t offset, const void* from, const PackedBlock* blocks, uint64_t rows, uint32_t width);
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
    const size_t unreleased_max_;
    const Wants wants_;
    const Use use_;
    ChunkOwner& owner_;
    Work first_;
    Work second_;
    Work* before_ = nullptr;  // partitioned, and not used yet
    Work* now_ = &first_;
    uint64_t rows_ = 0;
    const ChunkLayout places_;  // of a slot
    Filled open_;               // the slot that gets the next chunk, if it has room
    std::deque<Filled> filled_;
    std::deque<Event> unreleased_;  // copies of the owner's chunks, oldest first
    std::vector<Event> idle_;       // events that are not in use
};

}}  // namespace spillway::cuda::stream
