// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "baseline_join/baseline_join.hpp"

// Joins with one table over the whole build side: rows of either side come in chunks by copy engines, are packed and go
// into the table, or are looked up in it. No row is partitioned, and none leaves device memory but into the table.
namespace spillway::cuda { inline namespace baseline_join {

// Rui and Tu ("Fast equi-join algorithms on GPUs: design and implementation", SSDBM 2017, section 3.4): the build side
// stays in device memory, the probe side streams through it in chunks, one of which is copied while the one before is
// joined, as with two streams. Where they join each chunk by radix hashing, this looks its rows up in the table of
// linear probing, which takes less time than the link: the link is what both wait for. kOutOfMemory for a build side
// whose table is larger than device memory.
std::unique_ptr<StreamOperator> open_stream_probe(Device& device, const BaselineSpec& spec);

// The no-partitioning join of the Triton paper's comparison (Lutz et al., SIGMOD 2022, section 6.2.1): the table is
// spread over device memory and memory of the host in one range of addresses, in the proportions that the spec names.
// What does not fit device memory is written and read at random over the link, a packet per row: it collapses there.
// kLinearProbing takes any keys, but not one key in thousands of build rows (kInvalid); kPerfect an array by key, for
// build keys that come once each and lie in the range that the spec names (else kInvalid). Needs machines whose driver
// maps memory of the host (InterleavedMemory::obstacle(): kInvalid), unless all stripes are of device memory.
// The report's bytes are those of copies; what kernels read and write of the table over the link is not counted.
std::unique_ptr<StreamOperator> open_npj_far(Device& device, const BaselineSpec& spec);
std::unique_ptr<StreamOperator> open_npj_far_perfect(Device& device, const BaselineSpec& spec);

}}  // namespace spillway::cuda::baseline_join
