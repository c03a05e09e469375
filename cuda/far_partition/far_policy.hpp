// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the partitioners of far memory; nothing else in cuda/far_partition has any. A policy never
// changes results but for the order of rows inside a partition. What names no measurement of its own is not measured
// yet.
//
// What an H200 reaches between its kernels and pinned host memory over PCIe 5: reads 51.4 GB/s, writes 52.7, both at
// once 40.8 in each direction. Pieces written to the ends of P open streams over 16 GiB, GB/s:
//   piece    P <= 256   1,024   4,096
//   128 B          52      47      43
//   512 B          51      50      48
// So appending does not suffer from address translation as random access does (5 GB/s in pieces of 128 B), and pieces
// of 512 B are all that there is to gain. A piece of 512 B that lies 16 B beside its line is written at 39.6 GB/s.
// To and from a peer's memory over NVLink 4: 371-376 GB/s, in pieces of 128 B already.
namespace spillway::cuda { inline namespace far_partitioning {

// The first compute capability with bulk copies.
constexpr int kBulkCopiesMajor = 9;

// Threads of a block, one for each multiprocessor: 512 suffice to read at the rate of the link, and wait for buffers
// where there are many. Rows that a thread has under way: 4 of 16 bytes, of 1024 threads 64 KiB per multiprocessor,
// where 376 GB/s at a latency of some 2 us take 6. H200, from and to a peer's memory over NVLink 4, 2^28 rows of 16
// bytes, GB/s each way with 7, 8, 9, 10 bits:
//   threads  rows each   bulk              shared            hierarchical
//   512              4   314 284 262 271   324 296 235 145   290 258 229 188
//   768              4   327 326 323 320   326 322 314 203   288 260 238 212
//   1,024            4   328 329 328 325   327 326 319 249   284 260 236 216
//   512              8   266 250 241 232   282 188 114  65   282 253 225 180
constexpr int kFarThreads = 1024;
constexpr int kFarRowsPerThread = 4;
// Rows of a warp that are counted for a second pass by one addition, at least, of uniform keys hardly two are; counters
// that a warp looks for among those of its rows.
constexpr int kCountedTogether = 4;
constexpr uint32_t kCountedParts = 4;
// Blocks begin at multiples of this many rows of the source: whole lines of columns of 4 bytes.
constexpr uint64_t kSliceRows = 32;

// Partitions in one piece begin at multiples of this: the longest flush that gains anything (table above). The gaps
// take 2 MiB with 2^12 partitions.
constexpr uint64_t kFarAlignBytes = 512;
// Base addresses, of pages too: whole lines.
constexpr uint64_t kFarLineBytes = 128;

// Buffers in shared memory are as large as there is room for, in powers of two, and no larger than that: their rows
// are in the registers of a warp while they are stored, 4 times 16 bytes per thread.
constexpr uint32_t kHeldWords = 4;
constexpr uint32_t kBufferBytesMax = kHeldWords * 32 * 16;
// Nothing to do but to wait for another warp's flush: it holds a buffer for some 100 ns.
constexpr uint32_t kBufferBackoffNs = 40;
// Shared memory that is left to static variables.
constexpr uint32_t kFarReservedBytes = 256;

// The second level of the hierarchical partitioner, per block and partition: 1.1 GiB for 2^10 partitions and 132
// blocks. What the Triton join takes; from 512 B on the table above leaves little to gain.
constexpr uint32_t kSecondLevelBytes = 8192;
constexpr uint32_t kSecondLevelBytesMax = 1U << 16;

// Rows that a block sorts at once: with 2^10 partitions runs of 8 rows, 128 bytes of 16-byte tuples.
constexpr int kLinearThreads = 1024;
constexpr int kLinearRowsPerThread = 8;
constexpr int kLinearRows = kLinearThreads * kLinearRowsPerThread;

// Rows that are left in buffers when the source is at its end, appended by one block per partition.
constexpr int kDrainThreads = 256;

// Waiting for a page that another block is just taking from the pool: an atomic operation and a store in GPU memory.
constexpr uint32_t kPageBackoffNs = 100;
// Numbers of pages in an entry of the page directory (far_target.cuh).
constexpr int kPageNumberBits = 26;
constexpr uint64_t kPagesMax = (1ULL << kPageNumberBits) - 2;
// Slots of the page directory per page of the pool, rounded up to a power of two: walks stay short.
constexpr uint64_t kDirectorySlotsPerPage = 2;

constexpr int kFarHistogramThreads = 1024;
constexpr int kFarHistogramUnroll = 4;
constexpr int kListThreads = 256;
constexpr uint64_t kListBlocksMax = 1024;

}}  // namespace spillway::cuda::far_partitioning
