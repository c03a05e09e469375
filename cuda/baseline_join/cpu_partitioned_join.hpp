// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "baseline_join/baseline_join.hpp"

namespace spillway::cuda { inline namespace baseline_join {

// The CPU-partitioned join (Sioulas, Chrysogelos, Karpathiotakis, Appuswamy and Ailamaki, "Hardware-conscious
// hash-joins on GPUs", ICDE 2019; as section 3.1 and figure 16 of the Triton paper compare it): the host's cores
// partition both sides in host memory, then the partitions pass the link once, those of the build side into an index in
// device memory, those of the probe side into lookups, one slot of the ring copied while the one before is joined.
// Theirs also moves partitions of the build side while the CPU still partitions the probe side; this does not.
//
// spec.join.sizes: radix_bits so that a build partition fits the pages; larger ones come in parts, and their probe rows
// as often. chunk_rows and chunk_slots are those of the ring. spill_bytes limits the partitioned copies in pinned host
// memory (kOutOfMemory, host tier). A source may give chunks of any number of rows here: rows of a partition lie
// together as far as they are of one chunk, and copies of less than a megabyte do not reach the link's rate. Chunks
// must lie in host memory (kInvalid).
// The report's build_ms and probe_ms are the partitioning of either side, spilled_ms is the join.
std::unique_ptr<StreamOperator> open_cpu_partitioned_join(Device& device, const BaselineSpec& spec);

}}  // namespace spillway::cuda::baseline_join
