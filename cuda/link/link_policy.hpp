// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune copies by kernels; nothing else in cuda/link has any.
namespace spillway::cuda { inline namespace link {

// Threads of a block, which copies a tile or (un)packs a block of values at a time.
constexpr int kLinkThreads = 256;

// Blocks of a kernel, so few that joins, which it runs beside for as long as the link takes, have most of the GPU. PCIe
// 5 needs some 100 KB on their way at a time. A block has a tile of 2 to 16 KB.
constexpr uint32_t kLinkBlocks = 128;

// Loads of 16 bytes that a thread starts before it stores the first: a tile of a plain copy has 16 KiB. Chunks of 2
// MiB, two a worker, reached 50.8 GB/s from pageable memory with 16 workers, where copy engines reached 50.6; with
// chunks of 512 KiB it was 44.2 and 27.4, as each call of the driver takes 5 to 10 us, one after the other (H200,
// 2026-11-29).
constexpr int kLinkLoads = 4;

// Copies of a launch: their descriptions are a parameter of the kernel, of which there are 4 KiB.
constexpr int kLinkCopiesMax = 64;

}}  // namespace spillway::cuda::link
