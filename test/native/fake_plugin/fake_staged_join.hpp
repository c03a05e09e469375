// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "fake_bloom_filter.hpp"
#include "fake_stream.hpp"

namespace fake {

struct Row {
    bool has_key = true;
    uint64_t key = 0;
    std::vector<std::string> columns;
};

// A join whose build side is in a map; by kernels alone, as copy engines would have it, or one to compare with.
class StagedJoin final : public Stream {
  public:
    StagedJoin(spillway_cuda_gpu* gpu, const StagedJoinSpec& spec, const DiskCalls* disk);
    StagedJoin(spillway_cuda_gpu* gpu, const CoherentJoinSpec& spec);
    StagedJoin(spillway_cuda_gpu* gpu, const BaselineJoinSpec& spec);

    void run(int input, const SourceCalls& source, const SinkCalls* sink) override;
    int inputs() const override { return 2; }
    uint32_t key_bytes() const override { return spec_.key_bytes; }
    ColumnWidths widths(int input) const override { return spec_.widths[input]; }

  private:
    void build(const SourceCalls& source);
    void probe(const SourceCalls& source);
    Row row_of(const Chunk& chunk, int side, uint64_t row) const;
    uint64_t partition_of(const Row& row) const;
    // In GPU memory from the first to the last chunk.
    bool stays(const Row& row) const;
    // True: the row's bytes are on disk.
    bool spill(int side, const Row& row);
    std::string bytes_of(const Row& row) const;
    Row row_from(const char* bytes, int side) const;
    void join_spilled();
    void join_row(const Row& probe);
    // nullptr: there is none.
    void give_row(const Row* build, const Row* probe);

    const StagedJoinSpec spec_;
    const bool coherent_;
    const bool spills_ = true;      // rows leave the GPU again: joins with a table have all of them in it
    uint64_t rows_of_key_max_ = 0;  // of the build side; 0: any number
    bool perfect_ = false;          // one row each
    uint64_t rows_max_[2] = {UINT64_MAX, UINT64_MAX};
    FakeBloomFilter filter_;
    uint64_t row_bytes_[2] = {};
    std::vector<Row> rows_;             // of the build side
    std::vector<size_t> rows_on_disk_;  // of them, which have lost their columns
    std::deque<Row> probe_rows_;        // of spilled partitions, in memory
    uint64_t near_rows_ = 0;            // that kernels alone still put into GPU memory
    const StripeShares turns_ = {};     // in which they do, where they were asked to
    uint64_t turned_rows_ = 0;
    std::vector<bool> matched_;
    std::unordered_multimap<uint64_t, size_t> table_;
};

}  // namespace fake
