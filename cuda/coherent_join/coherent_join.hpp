// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "far_partition/far_partition.hpp"
#include "out_of_core/out_of_core_join.hpp"
#include "tier/stripe_pattern.hpp"

// The Triton join proper (Lutz, Breß, Zeuch, Rabl and Markl, SIGMOD 2022, sections 4 and 5): kernels read both
// relations straight from far memory and write their partitions straight to pages of near and far memory, and later
// kernels read them from there. No copy engine takes part, so that it is as fast as kernels reach far memory: for GPUs
// behind NVLink, NVLink-C2C and machines with pageable access; over PCIe out_of_core/ moves fewer bytes.
//
// Bytes per row of t bytes that far memory sends and receives, f being the share of pages in GPU memory:
//                   first pass           join
//   from there      t                    (1 - f) t
//   to there        (1 - f) t            results
// A build partition larger than a group comes in parts, its probe rows as often. GPU memory moves in addition f t twice
// for cached rows, 2 t for rows of both sides that are partitioned once more and joined, or (8 to 10) t for build rows
// that are gathered and indexed, and 2 t for rows on their way through second-level buffers (kHierarchical).
namespace spillway::cuda {

struct CoherentOptions {
    std::optional<FarPartitioner> partitioner;  // none: best_far_partitioner()
    uint32_t partition_grid = 0;  // blocks of the first pass, of which a multiprocessor takes one; 0: on all of them
    // Blocks that gather while others join, or have the second pass; 0: the policy's.
    uint32_t gather_grid = 0;
    // The join has the other multiprocessors: the share per stage of the paper's section 5.2. A block that gathers
    // takes all shared memory of its own. Otherwise the two mix.
    bool gather_alone = true;
    // Without a second pass: probe rows are gathered like build rows for counts and sums too, as they always are where
    // results are rows: a write and a read of GPU memory more for each, and loads of 16 bytes where probes load 4.
    bool gather_probe = false;
    // Counts and sums: rows of both sides are partitioned once more, from their pages, and joined in shared memory, as
    // in the paper. Otherwise, and where results are rows, build rows are indexed and probe rows looked up.
    bool second_pass = true;
    uint64_t device_bytes = 0;  // GPU memory that the join may take in all; 0: what is free
    uint64_t page_rows = 0;     // a power of two, 128 bytes to 2 MiB of them; 0: the policy's
    uint64_t group_rows = 0;    // of a side that are joined together, or indexed, about; 0: the policy's
    // Pages by tier, in turns of this proportion (section 5.3 of the paper), so that memory of the GPU and the link are
    // used at the same time. None: as many of the GPU's as its limit leaves, then the peer's if there is one, else the
    // host's.
    StripeShares shares;
    uint32_t chunks = 1;  // of a side, at most: each leaves a part of its partitions' last pages empty
};

struct CoherentSpec {
    // Inner joins of a key and a payload of the same width, 4 or 8 bytes. A side without a payload takes its key for
    // one. Of the sizes: radix_bits, spill_bytes (host memory for pages at most), result_rows and result_slots.
    OutOfCoreSpec join;
    uint64_t rows[2] = {};  // of build and probe side, at most: pages for them are taken before they come
    CoherentOptions options;
};

// What the stages took on the GPU, each by the clock of its stream; stages of two streams overlap.
using StageTimes = std::vector<PhaseTimer::Phase>;

// One join: build(), then probe(). Both wait for the device. Throws kOutOfMemory (device or host tier), kInvalid,
// kCancelled; after an error the object can only be destroyed.
class CoherentJoin {
  public:
    // Takes all pages. peer: a device whose memory takes pages too. Access to it is enabled here.
    CoherentJoin(Device& device, const CoherentSpec& spec, Device* peer = nullptr);
    ~CoherentJoin();
    CoherentJoin(const CoherentJoin&) = delete;
    CoherentJoin& operator=(const CoherentJoin&) = delete;

    // Chunks are of memory that kernels read, of any size: the fewer, the better. Rows without a key find no partner.
    void build(ChunkSource& source);
    const std::vector<uint64_t>& partition_rows() const;  // of the build side, those that have a key
    // sink: nullptr unless rows are wanted. Of the report, spilled rows are those on pages of other memory than the
    // GPU's, h2d_bytes what kernels read of chunks and such pages, d2h_bytes what they write to such pages, and
    // results.
    const OutOfCoreReport& probe(ChunkSource& source, ResultSink* sink);

    // After probe(): with a second pass "partition" on one stream, "wait" and "join" on the other, which has "large
    // partitions", too, where there are any. Without "gather"; "wait", "index" and "probe".
    const StageTimes& stages() const;
    // Pages of the GPU among all.
    uint64_t near_pages() const;
    uint64_t pages() const;

  private:
    class Work;
    Device& device_;
    std::unique_ptr<Work> work_;
};

}  // namespace spillway::cuda
