// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "baseline_join/baseline_join_algorithm.hpp"
#include "baseline_join/baseline_join_policy.hpp"
#include "device/device.hpp"
#include "stream/stream_operator.hpp"

// Other ways to join relations that are larger than GPU memory: what staged_join/ is measured against, on the same
// chunks, with the same results. No plan chooses them for speed.
namespace spillway::cuda { inline namespace baseline_join {

struct BaselineSpec {
    // Sides, result and sizes, each algorithm using what it needs. All but kStaged make inner joins alone.
    StagedJoinSpec join;
    // Build rows at most, for which room is taken before they come; of joins with a table, those with a key.
    uint64_t build_rows = 0;
    // kStreamProbe.
    StreamProbe stream_probe = StreamProbe::kTable;
    // Linear probing: taken slots in a hundred at most.
    uint32_t load_percent = kTableLoadPercent;
    // kNpjFar, kNpjFarPerfect: stripes of the table by tier; none: as much device memory as is free, then host memory.
    StripeShares shares;
    uint64_t stripe_bytes = 0;  // 0: kStripeBytes
    // kNpjFarPerfect: keys are first_key, first_key + 1, ..., so many, modulo 2^32 or 2^64; each once at most.
    uint64_t first_key = 0;
    uint64_t key_range = 0;
    // kCpuPartitioned: 0 = as many as the machine runs at once.
    uint32_t threads = 0;
    // kStreamProbe: a chunk passes the link while the one before is joined. kCpuPartitioned: the build side does while
    // the probe side is partitioned. false: after that.
    bool overlap = true;
    // kTriton, with build_rows; its shares are `shares`.
    uint64_t probe_rows = 0;
    CoherentOptions coherent;
    // kStaged, kStagedUncached: a device whose memory takes spilled rows instead of the host's, as StagedJoin's;
    // kTriton: pages.
    Device* peer = nullptr;
};

// What every baseline demands.
inline void check_inner(const StagedJoinSpec& spec) {
    if (!spec.kind.inner()) throw Error(ErrorCode::kInvalid, "this algorithm makes inner joins alone");
    if (spec.key_columns > 0) throw Error(ErrorCode::kInvalid, "this algorithm compares keys of 8 bytes at most");
}

// Chunks that stay in one partition, as they come.
inline StagedJoinSpec unpartitioned(const StagedJoinSpec& spec) {
    check_inner(spec);
    StagedJoinSpec whole = spec;
    whole.sizes.radix_bits = 0;
    return whole;
}

// The build side, then the probe side. Takes the memory that the join keeps.
std::unique_ptr<StreamOperator> open_baseline_join(Device& device, BaselineAlgorithm algorithm,
                                                   const BaselineSpec& spec);

// Rui and Tu ("Fast equi-join algorithms on GPUs: design and implementation", SSDBM 2017, section 3.4): the build side
// stays in device memory, the probe side streams through it in chunks, one of which is copied while the one before is
// joined, as with two streams, and result rows of the one before that leave; with spec.overlap false, one after the
// other. The first stage of the join is run on the build side once: it is sorted or radix partitioned, and each chunk
// sorted and merged with it, or partitioned and joined by hash tables (chunk_matcher.hpp). The join of both reads the
// whole build side again for each chunk, so that chunks had better not be much smaller. Their figure 14 has sort-merge
// joins ahead, by the order of 26 % in GPU memory (4.2.1). kTable is none of theirs: rows are looked up in one table of
// linear probing, which takes less time than the link for chunks of any size, as the link is what all of them wait for.
// kOutOfMemory for a build side that does not fit device memory in that form.
std::unique_ptr<StreamOperator> open_stream_probe(Device& device, const BaselineSpec& spec);

// Joins with one table over the whole build side: rows of either side come in chunks by copy engines, are packed and go
// into the table, or are looked up in it. No row is partitioned, and none leaves device memory but into the table.

// The no-partitioning join of the Triton paper's comparison (Lutz et al., SIGMOD 2022, section 6.2.1): the table is
// spread over device memory and memory of the host in one range of addresses, in the proportions that the spec names.
// What does not fit device memory is written and read at random over the link, a packet per row: it collapses there.
// kLinearProbing takes any keys, but not one key in thousands of build rows (kInvalid); kPerfect an array by key, for
// build keys that come once each and lie in the range that the spec names (else kInvalid). Needs machines whose driver
// maps memory of the host (InterleavedMemory::obstacle(): kInvalid), unless all stripes are of device memory.
// The report's bytes are those of copies; what kernels read and write of the table over the link is not counted.
std::unique_ptr<StreamOperator> open_npj_far(Device& device, const BaselineSpec& spec);
std::unique_ptr<StreamOperator> open_npj_far_perfect(Device& device, const BaselineSpec& spec);
// kStreamProbe's own table, all of it in device memory.
std::unique_ptr<StreamOperator> open_table_probe(Device& device, const BaselineSpec& spec);

// The CPU-partitioned join (Sioulas, Chrysogelos, Karpathiotakis, Appuswamy and Ailamaki, "Hardware-conscious
// hash-joins on GPUs", ICDE 2019; as sections 3.1 and 6.2.4 and figure 16 of the Triton paper compare it): the host's
// cores partition the build side in host memory. While they partition the probe side, partitions of the build side pass
// the link and have their second pass, which indexes them: as many as find room in GPU memory, the working set that is
// kept there, or fewer, if the plan says so (resident_partitions). Then the probe rows of these pass the link and are
// looked up, and after them what is left of both sides, group by group: one slot of the ring is copied while the one
// before is joined.
//
// spec.join.sizes: radix_bits so that a build partition fits the pages; larger ones come in parts, and their probe rows
// as often. chunk_rows and chunk_slots are those of the ring. spill_bytes limits the partitioned copies in pinned host
// memory (kOutOfMemory, host tier). A source may give chunks of any number of rows here: rows of a partition lie
// together as far as they are of one chunk, and copies of less than a megabyte do not reach the link's rate. Chunks
// must lie in host memory (kInvalid).
// The report's input_ms are the partitioning of either side, that of the probe side with what runs beside it,
// spilled_ms is what comes after that; resident_partitions are those of the working set.
std::unique_ptr<StreamOperator> open_cpu_partitioned_join(Device& device, const BaselineSpec& spec);

}}  // namespace spillway::cuda::baseline_join
