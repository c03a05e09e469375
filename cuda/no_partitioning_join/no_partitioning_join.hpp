// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"

// The no-partitioning join: one hash table over the whole build side in GPU memory, which every probe row looks into.
// Nothing is moved before the join, so it is the algorithm of small build sides (a table that fits the L2 cache) and
// of few columns; payloads are gathered from the untransformed columns by row number (GFUR).
//
// H200, 2^27 x 2^27 rows, 4-byte keys, a 4-byte payload per side, all rows match; predicted from the measured rates of
// random accesses (npj_policy.hpp), not measured: clear the table 0.7 ms, build 11, probe 4.4, gather the build
// payload 3.2, write 0.5: 20 ms, several times the partitioned join. With 2^20 build rows (a table of 16 MiB, inside
// the L2 cache) the same probe side takes 3 ms.
namespace spillway::cuda { inline namespace no_partitioning_joins {

enum class HashingScheme : uint8_t {
    // Slots of (mixed key, row number), a power of two of them and at most half of them taken; equal keys take one slot
    // each. Any keys, m:n.
    kLinearProbing,
    // An array of row numbers, indexed by key - first_key: dense keys, each at most once on the build side.
    kPerfect
};

struct NpjOptions {
    HashingScheme scheme = HashingScheme::kLinearProbing;
    // kPerfect: the build side's keys are among first_key, first_key + 1, ..., key_range of them, modulo 2^32 for keys
    // of 4 bytes and 2^64 for keys of 8. So a range may begin at a negative number of two's complement as well. A
    // range of 0 is not known: it is found by one look at the keys, and must then be dense.
    uint64_t first_key = 0;
    uint64_t key_range = 0;
    uint64_t expected_rows = 0;  // of the result: what memory is taken for at first
    OutputPlan plan = OutputPlan::kOnePass;
    bool wide_row_numbers = false;  // for tests: 64-bit row numbers as if the build side had 2^32 rows
};

// Inner join: every pair of rows with equal keys. Both wait for the device. Throws kOutOfMemory, and kInvalid for
// arguments that no caller may give and for build sides that another algorithm must join, with a text that says which:
// kPerfect   two rows with one key; a key outside of the range; a range that was found and is not dense, by
//   npj_policy.hpp, or whose array there is no memory for
// kLinearProbing   runs of taken slots that are too long: one key in thousands of rows (limits in npj_policy.hpp)
JoinResult no_partitioning_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                const std::vector<JoinOutputColumn>& output, const NpjOptions& options = {});
uint64_t no_partitioning_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                               const NpjOptions& options = {});

// Memory that the table takes while a join runs; without that of a range that is not known.
uint64_t npj_table_bytes(uint64_t build_rows, uint32_t key_width, const NpjOptions& options = {});

}}  // namespace spillway::cuda::no_partitioning_joins
