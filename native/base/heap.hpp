// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// What the C allocator keeps of memory that was freed counts as memory of the process, and no budget knows of it: lists
// of pages, and blocks below kMappedBytesMin. glibc has an arena for every thread, up to eight for each core, and each
// keeps its own.

// All of it that lies in whole pages: 20 MB after a join of 50 M rows on 16 workers.
void give_back_free_memory() noexcept;

// The same where the process, with its engine's whole budget in use, would come near what is promised of it (the budget
// and 128 MiB), and not often: it takes 2 to 50 ms. For threads that nobody waits for.
void give_back_free_memory_near(uint64_t budget_bytes) noexcept;

// Lets threads share arenas from now on, unless the environment says how many there are to be (MALLOC_ARENA_MAX,
// GLIBC_TUNABLES). 125 queries in 24 MiB on 2 cores, most of them aborted, left 45 MiB free in 17 arenas and 20 in 4.
// The engine's threads take memory from the allocator some thousand times a second each, which they do not notice.
void share_arenas() noexcept;

}  // namespace spillway
