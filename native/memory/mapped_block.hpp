// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// Anonymous memory straight from the system. Blocks of kHugeBytes and more begin at a multiple of kHugeBytes and ask
// for huge pages: on the development machine the first touch costs 0.16 ms per MiB with huge pages and 0.65 ms without.
struct MappedBlock {
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
};

constexpr uint64_t kHugeBytes = uint64_t{2} << 20;        // huge page of x86-64 and of aarch64 with 4 KiB pages
constexpr uint64_t kMappedBytesMin = uint64_t{64} << 10;  // below: malloc, a mapping would cost more than its use

uint64_t system_page_bytes();
// Rounds a block size up so that freed blocks fit later requests: eight sizes per doubling up to 16 MiB (at most
// 12.5 % slack), multiples of kHugeBytes above, multiples of 64 below kMappedBytesMin.
uint64_t block_capacity(uint64_t bytes);

// bytes: multiple of system_page_bytes(). Zeroed. data == nullptr when the system has no memory.
// Resident bytes never exceed `bytes`: a huge page is only placed where the mapping covers it whole.
MappedBlock map_block(uint64_t bytes) noexcept;
// Any page-aligned part of a mapped block may be unmapped on its own.
void unmap_block(MappedBlock block) noexcept;
// A longer block with the same contents; moves page table entries, or the bytes where the system refuses that. `block`
// is valid until success; on failure (no memory) data == nullptr and `block` is unchanged. Both sizes must be at least
// kHugeBytes.
MappedBlock extend_block(MappedBlock block, uint64_t bytes) noexcept;

}  // namespace spillway
