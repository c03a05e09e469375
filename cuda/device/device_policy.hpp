// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the device layer; nothing else in cuda/device has any.

namespace spillway::cuda { inline namespace device {

struct BlockSizes {
    uint64_t granularity_bytes;          // of blocks: every block is a multiple, and that is what the limit counts
    uint64_t segment_granularity_bytes;  // of segments; a multiple of the above
    uint64_t small_bytes;                // smaller blocks share segments, so that none of them pins a large one
    uint64_t shared_segment_bytes;       // size of those segments
};

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr uint64_t kGiB = 1024 * kMiB;

// 512 B: cudaMalloc's own alignment, and a whole number of memory sectors and cache lines. 2 MiB: the page size behind
// cudaMalloc, which would be used up anyway. Blocks below 1 MiB (counters, offsets, directories) share segments, so
// that a counter does not keep gigabytes from being released.
constexpr BlockSizes kDeviceBlockSizes{512, 2 * kMiB, kMiB, 16 * kMiB};

// Pinned memory costs some 0.1 s per GiB (first touch at 16-40 GB/s, registering at 25-40 GB/s, both on 16 cores and
// huge pages), so segments are no larger than asked for. 4 KiB: what direct I/O of files wants.
constexpr BlockSizes kPinnedBlockSizes{4 * kKiB, 2 * kMiB, kMiB, 4 * kMiB};

// Smaller segments come from cudaHostAlloc. H200 and its host, ms to get pinned memory: 1 MiB by cudaHostAlloc 0.55, by
// mapping, touching and registering 0.34; 2 MiB 0.72 and 0.37; 8 MiB 2.1 and 0.74; 64 MiB 22 and 11; 4 GiB 288 in all
// (15 GB/s, where cudaHostAlloc reached 3). A huge page is what a mapping is aligned to, so that smaller ones would
// waste address space and no more.
constexpr uint64_t kRegisteredBytesMin = 2 * kMiB;

// What one thread touches at a time: some milliseconds, against some 20 us to start a thread. More than 16 threads
// have not been measured; 16 reach 16 GB/s on memory that was never used and 40 GB/s on memory that was.
constexpr uint64_t kTouchPartBytes = 8 * kMiB;
constexpr uint64_t kTouchThreadsMax = 16;

// Staged copies: at 55 GB/s (PCIe 5) a chunk takes 0.15 ms, against some 10 us to enqueue it and to wait for its event;
// the last chunk, which overlaps with nothing, stays short. Two slots: one is filled while the other is on the link.
constexpr uint64_t kStagingChunkBytes = 8 * kMiB;
constexpr int kStagingSlots = 2;
constexpr uint64_t kStagingLimitBytes = kGiB;

// The kernel that writes a few words to the host, up to some KiB (published.hpp), has blocks of this many threads.
constexpr unsigned kPublishThreads = 256;

// What "all free memory" leaves to the driver: code is loaded when a kernel first runs, and kernels that spill
// registers get local memory for every thread that can be resident; 1 KiB per thread is more than any kernel here
// uses. On an H200 (132 multiprocessors, 2,048 threads each) 264 + 256 MiB.
constexpr uint64_t kLocalBytesPerThread = kKiB;
constexpr uint64_t kDriverReserveBytes = 256 * kMiB;

}}  // namespace spillway::cuda::device
