// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune work on whole tables; nothing else in cuda/relation has any. Where no measurement is named
// there is none yet.
namespace spillway::cuda { inline namespace relation {

// Kernels here have one random access per thread under way. Full multiprocessors (8 blocks of 256 threads, at most 32
// registers each, else fewer blocks are resident) have 270,000 of them, and 30,000 keep an H200's memory busy.
constexpr int kRelationThreads = 256;
constexpr int kRelationBlocksPerMultiprocessor = 8;

// Slots per row of the table that numbers keys, at least, rounded up to a power of two: at half load a search for a key
// that is not there looks at 2.5 slots (Knuth, linear probing), and equal keys share one slot.
constexpr uint64_t kKeySlotsPerRow = 2;
constexpr uint32_t kKeySlotBitsMin = 6;

// Key columns of one join or group-by: their descriptions are parameters of a kernel, of which there are 4 KiB.
constexpr int kKeyPartsMax = 32;

// Bytes of a gathered byte-string column that a warp writes at once, multiple of 4. Smaller tiles share a long value
// among more warps, larger ones need fewer searches for their first value.
constexpr uint64_t kCopyTileBytes = 1024;

// Columns of one side that travel through a join, its row number and its field of NULLs included. Two sides, the key
// and the presence stay below kOutputColumnsMax.
constexpr int kCarriedColumnsMax = 26;

}}  // namespace spillway::cuda::relation
