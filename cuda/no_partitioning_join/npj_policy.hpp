// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the no-partitioning join; nothing else in cuda/no_partitioning_join has any. Where no
// measurement is named there is none yet.
//
// Random accesses inside an H200's memory, G/s, which the predictions of this room use (reads of 4 to 16 bytes cost the
// same: one sector of 32 bytes):
//   table          16 MiB   64 MiB   128 MiB   512 MiB   2 GiB and 8 GiB
//   reads             155       80        58      45.5                42
//   CAS inserts        34     24.5        17      13.4                12
namespace spillway::cuda { inline namespace no_partitioning_joins {

// Reads at 42 G/s and a latency of some 0.7 us keep 30,000 accesses in flight. Four blocks of 256 threads on each of
// 132 multiprocessors, with kNpjUnroll rows per thread, have 540,000, and each thread has 64 registers. The rates above
// were measured with four independent accesses per thread.
constexpr int kNpjThreads = 256;
constexpr int kNpjBlocksPerMultiprocessor = 4;
constexpr int kNpjUnroll = 4;

// Keys that a thread looks at together where their range is sought: 1,024 threads of a multiprocessor have 32 KiB of
// 4-byte keys under way, more than the 24 KiB that 4 TB/s take at a latency of 0.8 us. Not measured yet.
constexpr int kRangeUnroll = 8;

// Perfect hashing whose range was found here: most slots per build row. With 16 of 4 bytes the array takes 64 bytes per
// row, as much as linear probing takes for keys of 8 bytes at its worst, and is cleared at 4 TB/s in 16 ps per row,
// less than the random write (24 ps at 42 G/s) of that row. Sparser keys also leave the L2 cache, which holds 13 M
// slots, sooner. Who names a range is asked for no density. Not measured yet.
constexpr uint64_t kRangeSlotsPerRow = 16;
// So many slots, of 256 KiB, are fine for any number of rows.
constexpr uint64_t kRangeSlotsFree = 1ULL << 16;

// Slots per build row, at least, rounded up to a power of two: at most half are taken. Knuth: a search for a key that
// is not there then looks at (1 + 1/(1 - 1/2)^2) / 2 = 2.5 slots, an insertion at 1.5 on average while the table fills;
// with four slots of 8 bytes per sector that is 1.4 sectors. At 3/4 the search looks at 8.5.
constexpr uint64_t kSlotsPerRow = 2;
constexpr uint32_t kSlotBitsMin = 6;

// Semi and anti joins take memory for a pair per probe row from the start, up to so many pairs; beyond that no more
// than this part of the memory that is free, which plans do not know of.
constexpr uint64_t kNpjUnaskedPairs = 1ULL << 20;
constexpr uint64_t kNpjUnaskedMemoryPart = 8;

// Insertions claim this many slots without looking first: a look costs as much as a claim where a slot is likely to be
// empty. Longer walks are through taken slots, where a claim would only queue behind the others of the same address.
constexpr uint32_t kClaimsWithoutLook = 4;

// Equal keys take one slot each, and each insertion walks over those before it: n equal keys take n^2 / 2 steps. Two
// limits keep that from taking minutes; who exceeds one is refused, and the partitioned join is the planner's
// alternative. Chains of equal keys would have no such limit, but cost every insertion a comparison of keys inside the
// kernel that writes them, and every probe row a second random access.
//
// One insertion: different keys make runs whose tail falls by e^(0.19 slots) at half load, some 100 slots in 2^27 rows;
// with m rows per key runs are m times as long, so that 4,096 leave m = 40.
constexpr uint32_t kWalkStepsMax = 4096;
// All insertions together, in walks of kWalkReportSteps and more: at most kWalkStepsFree and kWalkStepsPerRow per build
// row. 2^23 steps are one key of 4,096 rows. 64 looks per row, which share sectors of four slots, are 16 sectors: at
// 42 G/s 51 ms for 2^27 rows, five times the build, reached with some 60 rows per key. Since the sum of run^2 / 2 is
// what is limited, a probe row that hits a random slot walks a bounded way on average too.
constexpr uint32_t kWalkReportSteps = 32;
constexpr uint64_t kWalkStepsFree = 1ULL << 23;
constexpr uint64_t kWalkStepsPerRow = 64;

// Output rows that a warp reserves at once: 2^27 matches reserve 2^18 times. Memory for a chunk per warp is taken in
// addition, 2.2 M rows with 4,224 warps.
constexpr uint32_t kNpjChunkRows = 512;

}}  // namespace spillway::cuda::no_partitioning_joins
