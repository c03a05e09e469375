// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "device/device.hpp"
#include "device/published.hpp"
#include "out_of_core/bloom_filter.hpp"
#include "out_of_core/copy_ring.hpp"
#include "out_of_core/out_of_core_join.hpp"
#include "out_of_core/pack_rows.hpp"
#include "out_of_core/row_batch.hpp"
#include "radix_partition/radix_partition.hpp"

namespace spillway::cuda {

// A chunk in device memory, its rows packed and partitioned.
struct PartitionedChunk {
    RowBatch batch;                           // pieces in the order of partitions
    const FieldExtremes* extremes = nullptr;  // [partitions * fields] on the host; nullptr unless asked for
    RowBatch keyless;                         // rows without a key, if they are wanted
};

// The rows of one side: chunk by chunk copied in by copy engines and partitioned, while later chunks are on the link.
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
    };

    ChunkReader(Device& device, CopyRing& ring, const CodeLayout& layout, uint32_t key_bytes,
                const std::vector<uint32_t>& widths, uint64_t chunk_rows);

    // Calls use(chunk) for one after the other, each while the next one is partitioned; returns the number of rows.
    uint64_t read(ChunkSource& source, const Wants& wants, const std::function<void(const PartitionedChunk&)>& use);

    static uint64_t slot_bytes(uint32_t key_bytes, const std::vector<uint32_t>& widths, uint64_t chunk_rows);

  private:
    struct Filled {
        uint32_t slot;
        uint64_t rows;
        bool has_validity;
    };
    struct Work {
        Work(Device& device, uint64_t words_max) : published(device, words_max) {}
        PartitionedRows rows;
        PartitionedRows keyless;
        Allocation extremes;
        bool has_extremes = false;
        Published published;
    };
    void fetch(ChunkSource& source);
    void release(ChunkSource& source, size_t keep);
    void copy_in(const HostChunk& chunk);
    void partition(const Filled& filled, const Wants& wants, Work& work);
    PartitionedRows partition_keyless(const DeviceRelation& relation);
    PartitionedChunk finish(const Work& work) const;

    Device& device_;
    CopyRing& ring_;
    const CodeLayout layout_;
    const uint32_t key_bytes_;
    const std::vector<uint32_t> widths_;
    const uint64_t chunk_rows_;
    bool more_ = true;
    std::deque<Filled> filled_;
    std::deque<uint32_t> unreleased_;
};

}  // namespace spillway::cuda
