// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "pair_join/join_tuples.hpp"
#include "primitive/device_relation.hpp"

// PHJ-TR as its authors describe it: B. Wu, D. Koutsoukos and G. Alonso, "Efficiently Processing Joins and Grouped
// Aggregations on GPUs", SIGMOD 2025, section 4.1.4. Each column of the result is partitioned with the key by a stable
// radix partition, in passes of 8 bits; co-partitions of keys are joined in shared memory, which gives pairs of places
// in the order of the partitions; each column is gathered by those from its partitioned copy, so that accesses of the
// probe side rise and those of the build side stay within a partition (GFTR).
//
// One column of each side is partitioned before keys are joined, the others when they are gathered, one at a time: any
// number of columns takes the memory of one. kRadixHash, which users know as phj-tr, differs in that it moves whole
// rows at once, without gathers, and the columns of rows above 32 bytes in packs, by the first pass alone.
//
// 2^27 x 2^27 rows, 4-byte keys, two 4-byte payloads per side, all rows match once. Per side keys are mixed (8 bytes
// per row), and each payload is sorted with them by 16 bits: 4 bytes for the histograms and 2 * 16 for the passes, 36;
// both sides 21.5 GB. Match: the keys read, 8 bytes of pairs written, 2.1 GB. Gathers: 4 bytes each of a pair, of the
// copy and of the result for five columns, and 8 bytes to make the key column of its copy, 9.1 GB. That is 32.7 GB in
// all. An H200 took 17.2 ms for it, of which 10.7 to partition, and 20.1 with 8-byte keys (medians of 3 runs): a pass
// of CUB's sort moves its bytes at 1.7 of the 3.98 TB/s that copies reach.
namespace spillway::cuda { inline namespace gftr_joins {

// Throws kInvalid for arguments that no caller may give, kOutOfMemory, kCancelled.
JoinResult gftr_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind,
                     const std::vector<JoinOutputColumn>& output, const PairJoinOptions& options);
// Rows of that result: keys alone are partitioned.
uint64_t gftr_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const JoinKind& kind,
                    const PairJoinOptions& options);

}}  // namespace spillway::cuda::gftr_joins
