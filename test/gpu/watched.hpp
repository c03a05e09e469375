// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

namespace spillway::gpu_test {

// Tests that racecheck watches, which takes some hundred times as long as a run without it: of each room whose kernels
// use shared memory those that take its paths (one pass and several, heavy partitions, repeated keys). They were chosen
// by reading: nothing counts which kernels they launch, and not all widths of rows are among them. Beginnings of names.
constexpr const char* kWatchedTests[] = {
    "bucket-chain join: match ratios",
    "bucket-chain join: marks alone",
    "coherent join: a small one by each partitioner",
    "coherent join: a third pass",
    "coherent join: every kind, with rows that have no key",
    "coherent join: perfect hashing by every partitioner",
    "coherent join: tables of few buckets",
    "equi join: every kind, NULL keys",
    "far partition: flushes while other warps write",
    "far partition: all warps of a block write",
    "group by narrow: none to five aggregates",
    "group by narrow: partitions of every size",
    "group by narrow: heavy partitions",
    "group by narrow: sums, means and counts",
    "group by words: partitions of every size",
    "group by words: sums, means and counts",
    "group by sorted: one group, a group per row",
    "group by sorted: narrow columns and many bitmaps",
    "group by: Zipf keys and one hot key",
    "group by: groups in two slices",
    "group by: values of every width and kind",
    "group table: distinct values",
    "group table: sums and means of decimals, with",
    "hash join: m:n",
    "hash join: marks alone",
    "hash join: partitions that no block holds",
    "hash join: keys whose ends are equal",
    "hash join: repeated keys in some",
    "join pieces: one hot key",
    "launch: ",
    "link: ",
    "match pairs: ",
    "no-partitioning join: linear probing",
    "no-partitioning join: perfect hashing, match",
    "no-partitioning join: m:n and Zipf",
    "stream copies: pieces around the size",
    "staged join filter: members pass",
    "staged group-by: a small one along each path",
    "staged group-by of decided values: rows without a key",
    "staged join: a small one along each path",
    "staged join of wide keys: one first word",
    "staged join of wide rows: one key",
    "stream pack: many fragments of few rows",
    "stream pack: some fragments that have most rows",
    "stream pages: every row is found",
    "stream pipe: a join whose probe side is another join",
    "stream probe: a second pass",
    "stream probe: keys at both ends",
    "radix partition: every number of bits",
    "radix partition: one hot key",
    "relation: byte strings by row number",
    "relation: one column out of two",
    "relation: wide keys whose hashes collide",
    "shared-histogram join: match ratios",
    "shared-histogram join: marks alone",
    "sort-merge join: m:n, Zipf",
    "sort-merge join: runs of equal keys",
};

inline bool is_watched(const char* name) {
    for (const char* begin : kWatchedTests) {
        if (std::strncmp(name, begin, std::strlen(begin)) == 0) return true;
    }
    return false;
}

}  // namespace spillway::gpu_test
