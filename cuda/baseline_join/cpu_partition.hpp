// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "radix_partition/row_layout.hpp"
#include "staged_join/staged_join.hpp"

namespace spillway::cuda { inline namespace baseline_join {

// Radix partitioning by the host's cores, with what it writes as radix_partition() of the GPU has it: rows packed, the
// mixed key first, in partitions by the key's top bits. Each thread counts the keys of its share of the rows; then it
// collects the rows of every partition in a buffer of some cache lines, and writes the buffer when it is full, past the
// caches (software write combining, as Balkesen, Teubner, Alonso and Oezsu have it, "Main-memory hash joins on
// multi-core CPUs", ICDE 2013): so that a page of the target is looked up once per buffer and no line is read that is
// overwritten. Reads keys twice and all else once, writes each row once.
class CpuPartitioner {
  public:
    // What the caller's thread does while others partition, in steps that wait for nothing; false: there is no more.
    using Beside = std::function<bool()>;

    // threads: 0 = as many as the machine runs at once. The chunk must stay.
    CpuPartitioner(const RowLayout& layout, int radix_bits, uint32_t threads, const Chunk& chunk,
                   const std::atomic<bool>& cancelled);

    // Counts; what was counted after a look that found the join cancelled is worth nothing. beside: nothing, and the
    // caller's thread has a share of the rows.
    void count(const Beside& beside = {});
    uint64_t rows() const { return first_.back(); }  // that have a key
    // The first row of each partition, and behind the last one.
    const std::vector<uint64_t>& first() const { return first_; }
    // Writes the rows to memory that begins with a cache line.
    void move(uint8_t* to, const Beside& beside = {});

  private:
    struct Share {
        uint64_t begin = 0;
        uint64_t end = 0;
        std::vector<uint64_t> next;   // of each partition: rows counted, then the place of the next one
        std::vector<uint64_t> start;  // of each partition: the place of the first one
    };
    template <class Body>
    void for_rows(const Share& share, const Body& body) const;
    template <int kKeyWords>
    void count_share(Share& share) const;
    template <class Key, class Rows>
    void move_share(const Rows& rows, Share& share, uint8_t* buffers, uint8_t* to) const;
    template <class Key>
    void move_rows(Share& share, uint8_t* buffers, uint8_t* to) const;

    const RowLayout layout_;
    const uint32_t radix_bits_;
    const Chunk& chunk_;
    const std::atomic<bool>& cancelled_;
    const uint64_t buffer_bytes_;  // of a partition: whole cache lines, a power of two of rows
    std::vector<Share> shares_;
    std::vector<uint64_t> first_;
};

}}  // namespace spillway::cuda::baseline_join
