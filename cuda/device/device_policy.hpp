// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/block_allocator.hpp"

// The numbers that tune the device layer; nothing else in cuda/device has any.

namespace spillway::cuda {

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

// Smaller segments come from cudaHostAlloc (3.6 GB/s: 2.2 ms for 8 MiB), which costs less than starting threads does.
// Where the two meet is not measured yet.
constexpr uint64_t kRegisteredBytesMin = 8 * kMiB;

// What one thread touches at a time: some milliseconds, against some 20 us to start a thread. More than 16 threads
// have not been measured; 16 reach 16 GB/s on memory that was never used and 40 GB/s on memory that was.
constexpr uint64_t kTouchPartBytes = 8 * kMiB;
constexpr uint64_t kTouchThreadsMax = 16;

// Staged copies: at 55 GB/s (PCIe 5) a chunk takes 0.15 ms, against some 10 us to enqueue it and to wait for its event;
// the last chunk, which overlaps with nothing, stays short. Two slots: one is filled while the other is on the link.
constexpr uint64_t kStagingChunkBytes = 8 * kMiB;
constexpr int kStagingSlots = 2;
constexpr uint64_t kStagingLimitBytes = kGiB;

// What "all free memory" leaves to the driver: code is loaded when a kernel first runs, and kernels that spill
// registers get local memory for every thread that can be resident; 1 KiB per thread is more than any kernel here
// uses. On an H200 (132 multiprocessors, 2,048 threads each) 264 + 256 MiB.
constexpr uint64_t kLocalBytesPerThread = kKiB;
constexpr uint64_t kDriverReserveBytes = 256 * kMiB;

}  // namespace spillway::cuda
