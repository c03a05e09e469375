// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/group_by/distinct_set.hpp"
#include "cpu/radix_partition/radix_partitioner.hpp"

namespace spillway {

// The (group, value) pairs of one count-distinct aggregate, partitioned by a hash of the pair, with spilling: for more
// pairs than a set in memory can hold. However many there are, the rows are read once, each pair is written once (and
// few of those that come again) and read once, one partition after the other, with a set that fits.
// Every step throws TableFull when memory or the disk does not suffice; what was counted until then is in the records.
class DistinctPairs {
  public:
    struct Input {
        uint64_t memory_bytes = 0;  // for pages and sets of all workers together, beyond what holds the groups
        int32_t workers = 1;
        uint64_t rows = 0;        // at most so many pairs come
        uint64_t heap_bytes = 0;  // of their byte strings, about
        bool one_group = false;
        DistinctSet::Counting counting = DistinctSet::Counting::kAlone;
    };
    // source: whose budget, spill space and kind of spilling the pairs share.
    DistinctPairs(const AggregatePlan& aggregate, const Input& input, PartitionedRows& source, JobControl& control)
        : DistinctPairs(aggregate, input, source, control, 0, 0) {}
    ~DistinctPairs();
    DistinctPairs(const DistinctPairs&) = delete;

    // The pairs of a block whose records are known. Several workers at once, each with its number.
    void add(int worker, const RowBlock& block, FieldGather& gather);
    void finish();  // no add() afterwards
    // Counts partitions until none is left; every worker calls it once. progress(share of all pairs).
    void count(const std::function<void(double)>& progress);

  private:
    // Pages of some partitions, a set and buffers: with less memory per worker nothing is won.
    static constexpr uint64_t kWorkerBytesMin = 32 << 10;
    static constexpr uint32_t kBytesOffset = 8;  // of the VarRef, in a pair's row

    struct Worker;
    struct Pair {
        uint8_t* record;
        uint64_t value;  // the number, or the hash of the bytes
        const uint8_t* bytes;
        uint64_t length;
    };
    DistinctPairs(const AggregatePlan& aggregate, const Input& input, PartitionedRows& source, JobControl& control,
                  int level, int32_t bits_used);
    static void guarded(const std::function<void()>& body);
    PartitionSpec spec_for(const PartitionSpec& source) const;
    bool is_new(Worker& worker, const Pair& pair, uint64_t value_hash);
    void put(Worker& worker, const Pair& pair);
    void append(int worker);
    void add_again(const Pair& pair);
    template <class Body, class PageEnds>
    void for_each_pair(int32_t partition, Body&& body, PageEnds&& page_ends);
    void count_partition(int32_t partition, TableMemory& memory);
    void count_ranges(int32_t partition, TableMemory& memory);
    void count_again(int32_t partition, uint64_t memory_bytes);
    uint64_t count_range(int32_t partition, const HashRange& range, TableMemory& memory);

    const AggregatePlan& aggregate_;
    const Input input_;
    JobControl& control_;
    // What fails here need not fail the job, and parts of the partitioner cancel their job.
    JobControl own_control_;
    const int level_;
    const int32_t bits_used_;  // of the pairs' hash, by the levels above
    const bool numbers_;
    // Pairs are spread by their hash, so that many groups with one value spread as well. Of one group the record is no
    // part of it: spilled values then pack as well as keys do.
    const uint64_t record_factor_;
    std::unique_ptr<PartitionedRows> rows_;
    std::unique_ptr<RadixPartitioner> partitioner_;
    std::vector<std::unique_ptr<Worker>> workers_;
    uint32_t record_offset_ = 0;  // in a pair's row
    uint64_t total_ = 0;
    std::atomic<int32_t> next_{0};
    std::atomic<uint64_t> counted_{0};
};

}  // namespace spillway
