// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the group-by; nothing else in cuda/group_by has any. Those without a measurement say by what
// arithmetic they were chosen. A policy never changes results but for the order of groups.
namespace spillway::cuda { inline namespace grouping {

// Rows per thread that are on their way through shared memory together, and threads of a block. A row of a 4-byte key
// and two 4-byte payloads passes some 5 dependent accesses of 30 cycles; 16 warps of 4 rows hide them as well as 32
// warps of 2, and what it takes to decode an aggregate is shared by 4 rows. Two blocks per multiprocessor where shared
// memory allows it: one works while the other is at a barrier.
constexpr int kGroupThreads = 512;
constexpr int kGroupRowsAtOnce = 4;
constexpr int kGroupBlocksPerMultiprocessor = 2;

// Rows of a tile, of which one is on its way from memory while another is aggregated, at most; wider rows make tiles of
// half as many until both fit. 2,048 rows of 12 bytes are 24 KiB in flight, where 17 bytes per cycle and 800 cycles of
// latency ask for 14 KiB, and take 2,300 cycles of a multiprocessor's share of the bandwidth, of which the barrier
// behind them and the first accesses after it idle some 500 unless a second block works meanwhile. So a block alone on
// its multiprocessor has twice as many where its table leaves room.
constexpr uint32_t kGroupTileRows = 4096;
constexpr uint32_t kStagedBytesMax = 64U << 10;
constexpr uint32_t kStagedBytesMaxAlone = 112U << 10;

// Share of the slots of a block's table that expected groups may take. Knuth: with linear probing at 0.6 a search for a
// key that is there looks at (1 + 1 / (1 - 0.6)) / 2 = 1.75 slots.
constexpr double kTableFill = 0.6;
// A table has this many slots per expected group where shared memory has room for more. All of them are cleared and
// scanned for each partition, so that a larger table costs time.
constexpr double kSlotsPerGroup = 2;
constexpr uint32_t kTableSlotsMin = 1024;
// Tables of blocks have whole buckets, whatever the key.
constexpr uint32_t whole_buckets(uint64_t slots) {
    return static_cast<uint32_t>(slots & ~3ULL);
}
// Buckets that a search of a block's table looks at before the row goes to the table in GPU memory, an odd number: the
// first, and two by two (find_slots.cuh, which says how many keys come so far).
constexpr uint32_t kTableWalkMax = 25;
// The same of the table in GPU memory, which is at most half full unless the expected groups were wrong.
constexpr uint32_t kGlobalWalkMax = 256;
// Rows of a block for which its table has no place, each of which takes kTableWalkMax looks and some random accesses,
// before all is begun again with more slots: 132 blocks with 2^14 of them are 0.8 % of 2^28 rows.
constexpr uint32_t kElsewhereRowsMax = 1U << 14;
constexpr uint64_t kGlobalSlotsMin = 1ULL << 16;

// kHash: slices of the hash range, each of which is aggregated by other blocks from the same rows, at most. It is bound
// by instructions, of which each slice does its own for every row. Measured on an H200, 2^28 rows of 12 bytes, max,
// before find_slots.cuh: one slice 4.6 ms (2^12 groups), two 16.6 (2^14), where kPartitioned took 6.8.
constexpr uint32_t kSlicesMax = 2;

// kHash of columns of 4 or 8 bytes (column_groups.hpp): neighbouring rows of a thread, which are one load of 16 bytes
// per word; narrow_threads() below.
constexpr int kColumnGroupsRows = 4;
// Share of the slots that expected groups may take: searches take 1.1 rounds at 0.43, 4.1 at 0.85 and 5.3 at 0.9
// (find_slots.cuh), of some 20 instructions per 32 rows each, where another slice costs some 60 and reads the rows once
// more. What is expected may be 3 % too low, and still one key in 5,000 has no place. Slots of 12 bytes, 227 KiB:
// 17,400 groups. H200, 2^28 rows of 12 bytes, maxima: one slice at 0.42 (2^13 groups) 1.16 ms, at 0.85 (2^14) 1.99,
// where two half as full, by pairs, took 2.41. Fuller ones are not measured yet.
// Keys of 8 bytes stand by two in a bucket, and at 0.85 one in 20,000 has no place. Their tables are measured up to
// 0.43 (2^12 groups of 24 bytes, 2.20 ms), not yet at this fill.
constexpr double narrow_fill(uint32_t key_words) {
    return key_words == 1 ? 0.9 : 0.8;
}
// Tables of 4-byte keys up to this fill are looked at by pairs, which read half of the words. H200, 2^28 rows of 12
// bytes, maxima. 4 groups: by pairs 1.08 ms with 1,024 threads, whose registers spill, and 0.78 to 0.81 with 896; by
// buckets of four 0.99 with 1,024. 2^12 groups, a fill of 0.21: by pairs 1.00 with 896, by buckets 1.09 with 1,024.
// Buckets with 896 threads and few groups were never measured: what pairs are worth, and up to what fill, is not known.
constexpr double kPairsFillMax = 0.3;
// A search by pairs looks at no more slots than these before the row goes to the table in GPU memory.
constexpr uint32_t kPairsWalkMax = 64;
// Slices do the instructions of as many passes over the rows. H200, 2^28 rows of 12 bytes, 2^14 groups, with pairs of
// slots half full: maxima, two slices 2.4 ms (kPartitioned 3.6); sums, whose slots are larger, three slices 5.3 (4.0).
// So three of maxima would take what kPartitioned does. Key and columns of 8 bytes, maxima: 5.8 ms with 2^14 groups,
// which are three slices, and with 2^16 by kPartitioned.
constexpr uint32_t column_groups_slices_max(uint32_t key_words) {
    return key_words == 1 ? 2 : 3;
}
// Static shared memory of the kernel, with what aligns the table behind it, at most.
constexpr uint32_t kColumnGroupsReservedBytes = 256;

// kPartitioned of columns of 4 or 8 bytes (packed_groups.hpp): rows of a thread; packed_threads() below is for one
// block per multiprocessor, two have half of them each.
constexpr int kPackedGroupsRows = 4;
// Full tables as narrow_fill(). Where a partition has few rows per group, most of what is done is to claim and to emit
// slots, and one block at work while the other's groups leave is worth more than large partitions: of two blocks half
// as full.
constexpr double kPackedGroupsFillOfTwo = 0.5;
// From this fill on one radix bit more, where the same pass has it: of 2^27 rows of 12 bytes a pass of 8 bits took 0.95
// ms and one of 7 0.90, before tiles were staged; searches take 1.8 rounds at 0.6 and 4.1 at 0.85. Not measured yet on
// a whole group-by.
constexpr double kPackedGroupsFillBetter = 0.6;
// With fewer rows per group than these tables are no larger than that asks for: by count a warp takes 6 instructions
// per slot, taken or not, to emit groups, and at a fill of 0.6 some 0.5 more per row to find them than at 0.43. Not
// measured yet beside larger ones.
constexpr uint64_t kPackedGroupsFewRows = 8;
// Slots per expected group where shared memory has them and rows are many.
constexpr double kPackedGroupsSlotsPerGroup = 8;
// Static shared memory of the kernel and what the runtime keeps, at most.
constexpr uint32_t kPackedGroupsReservedBytes = 2048;

// kPartitioned: radix bits that one pass has at no further cost, with enough partitions for all multiprocessors, and
// rows that a partition should have at least.
constexpr int kGroupRadixBits = 7;
constexpr uint64_t kGroupPartitionRowsMin = 8192;
// A partition of more than this share of a multiprocessor's rows is aggregated in units, whose groups are merged in
// GPU memory. 2^7 partitions of equal size on 132 multiprocessors have 1.03 of it.
constexpr double kHeavyPartition = 1.3;
// Each of those units has this share of a multiprocessor's rows, so that the last one to end keeps the others waiting
// for a quarter of the time at most.
constexpr double kUnitShare = 0.25;

// kSorted: rows of a unit, or their groups where a unit is one tile, as a share of the slots of a block's table.
constexpr double kSortedUnitFill = 0.6;

// Registers of the estimator of the number of groups (HyperLogLog): its standard error is 1.04 / sqrt(2^12) = 1.6 %.
constexpr int kEstimateBits = 12;
constexpr int kEstimateThreads = 1024;
// Keys that a thread loads together: 2,048 threads with 4 keys of 4 bytes are 32 KiB on their way, where 17 bytes per
// cycle and 800 cycles of latency ask for 14.
constexpr int kEstimateRows = 4;
// What a caller expects is asked of a sample first, of one tile in so many: 2^22 of 2^27 rows, 16 MB. H200: the whole
// group-by took 0.05 to 0.1 ms more, for which the host's arithmetic was blamed; with less of that not measured yet.
// With less than so many rows in a sample the caller is trusted.
constexpr uint64_t kEstimateSamplePeriod = 32;
constexpr uint64_t kEstimateSampleRowsMin = 1ULL << 16;
// It is trusted if the sample and one half of it have as many different keys as that many equally frequent groups would
// give them, but for this share: four times the standard error. Keys of a Zipf distribution go on growing in number
// from the half to the whole, so that what a small sample of the caller's made of them is noticed.
constexpr double kTrustedDeviation = 0.07;
// Memory for groups: the estimate, this much more, and some.
constexpr double kOutputMargin = 1.1;
constexpr uint64_t kOutputGroupsMin = 1ULL << 14;

// Lanes of a warp with the same slot from which on it is hot. Atomics of n lanes on one address of shared memory take n
// cycles at least. Sums of single columns stay in registers then (hot_sums.cuh), for some 4 instructions per row; two
// or three lanes meet by chance too often. Another slot takes over when it has so many lanes more. H200, 2^27 rows, two
// sums of 4 bytes, 2^20 groups: kPartitioned behind its pass took 0.68 ms with uniform keys, 1.47 with a key of 95 %,
// all lanes' sums by shuffles, and 2.28 with Zipf 1, where lanes with one slot are 3 to 20.
constexpr int kHotLanes = 4;
constexpr int kHotLanesMore = 4;
// Other sums are added up in the warp first from so many lanes on. A sum by shuffles takes some 30 cycles; atomics of
// doubles are loops in which one lane at a time succeeds.
constexpr int kWarpSumLanes = 12;
constexpr int kHotLanesDouble = 3;

// So many groups of fewer than kHotLanesDouble lanes are looked at before the rest of a warp's rows are added one by
// one.
constexpr int kHotMissesDouble = 2;

// Parts: slots of the table of keys per group, and of those that a search looks at before another order of slots is
// tried. Random keys at a fill of 0.5 walk through some 90 at most of 2^24 (logarithm of their number by 0.19).
constexpr uint64_t kPlacesPerGroup = 2;
constexpr uint32_t kPlacesWalkMax = 1024;
// Groups of a thread that are brought into order together: the latency of a search is shared by as many.
constexpr int kPlacedGroups = 4;
constexpr unsigned kPlaceThreads = 256;

constexpr int kEmitSlotsPerThread = 8;
constexpr int kEmitThreads = 256;

// The kernels of the commonest shapes (narrow_plan.hpp): words of a row's columns at most, each of which is a kernel of
// its own to compile.
constexpr int kNarrowValueWordsMax = 4;
// Threads of a block that has a multiprocessor for itself, by words of key and columns: so many that nothing spills. 32
// warps have 64 registers per thread, which hold four rows of two words, twice; 28 warps 72, which those of one word of
// key and two of columns take; the others have 16 with 128. On the way are 42 KiB of rows of 3 words and 48 of 6, at
// least 16, where 17 bytes per cycle and 800 cycles of latency ask for 14.
// H200, 2^28 rows of 12 bytes, maxima, 896 threads and 1,024: 4 groups by pairs 0.78 to 0.81 ms and 1.08, 2^14 by
// buckets 1.99 and 2.13. Key and columns of 8 bytes, 512 threads: 1.56 ms with 4 groups, which is what memory takes;
// other numbers were not tried, nor those of other rows.
constexpr int narrow_threads(int key_words, int value_words) {
    return key_words == 1 && value_words == 2 ? 896 : value_words <= (key_words == 1 ? 2 : 0) ? 1024 : 512;
}
// Integer sums alone, of one column or two of 4 bytes by a key of 4, have a kernel of their own, which has no code for
// other aggregates, so that 64 registers do and 1,024 threads are at work. H200, 2^28 rows, by the kernel for all and
// by this one: 4 groups 1.77 and 1.55 ms, 2^10 1.40 and 1.12, 2^12 1.69 and 1.36, 2^14 (two slices) 3.93 and 3.27. One
// for maxima alone, of 1,024 threads too, gained 1.17 -> 1.07 with 2^13 groups and nothing elsewhere
// (2^14: 1.97, 1.97).
constexpr bool has_sums_kernel(int key_words, int value_words) {
    return key_words == 1 && (value_words == 1 || value_words == 2);
}
// Whether a warp keeps the sums of a hot slot in registers: where these are scarce, of sums alone. With them the kernel
// for all aggregates of two words spilled some; what that costs was not told apart from another change, together with
// which kPartitioned took 0.17 ms more behind its pass (H200, 2^27 rows, two maxima, 0.68 and 0.85).
constexpr bool has_hot_sums(int key_words, int value_words, bool sums) {
    return sums || value_words > (key_words == 1 ? 2 : 0);
}
constexpr int column_threads(int key_words, int value_words, bool sums) {
    return sums ? 1024 : narrow_threads(key_words, value_words);
}
// Words of the columns of a part (aggregate_parts.hpp). H200, 2^27 rows of 4-byte keys and columns, sums of 1, 2, 3 and
// 4 columns: kHash with 64 groups 0.48, 0.61, 1.25 and 1.55 ms (two parts of 2: 1.24), with 2^14 1.14 and 1.75 for 1
// and 2; kPartitioned with 2^14 1.63, 2.37, 3.10 and 3.24, with 2^24 2.68, 3.77, 5.82 and 6.30. Maxima of 2 and 4,
// kHash: 0.56 and 0.88.
constexpr uint32_t narrow_part_words(bool is_hash, uint32_t key_words, bool sums) {
    return is_hash && key_words == 1 && sums ? 2 : kNarrowValueWordsMax;
}
// kPartitioned: rows of 12 bytes and what becomes of them spill with 64 registers and with 72. H200, 2^18 groups, the
// whole group-by: 3.52 ms by pairs with 768 threads, 3.88 by buckets of four with more threads. Which of the two it is
// was not told apart. Sums of four columns alone have threads with 80 registers, too: they spill, but with 512 threads
// of 128 the same group-by took 7.19 ms instead of 6.30 (H200, 2^27 rows, 2^24 groups).
constexpr bool has_packed_sums_kernel(int key_words, int value_words) {
    return has_sums_kernel(key_words, value_words) || (key_words == 1 && value_words == 4);
}
constexpr int packed_threads(int key_words, int value_words, bool sums) {
    const bool has_80_registers = value_words == 2 || (value_words == 4 && sums);
    return key_words == 1 && has_80_registers ? 768 : narrow_threads(key_words, value_words);
}

}}  // namespace spillway::cuda::grouping
