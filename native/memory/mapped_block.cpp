// SPDX-License-Identifier: Apache-2.0
#include "memory/mapped_block.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace spillway {

namespace {

constexpr uint64_t kSizesPerDoubling = 8;
constexpr uint64_t kHugeMultiplesFrom = uint64_t{16} << 20;  // from here on 2 MiB steps are at most 12.5 %
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE (Linux 5.14), not in older headers; older kernels refuse it
constexpr uint64_t kNonsense = uint64_t{1} << 62;  // rounding would overflow; no budget grants it anyway

uint64_t round_up(uint64_t value, uint64_t step) {
    return (value + step - 1) / step * step;
}

uint8_t* map_anywhere(uint64_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? nullptr : static_cast<uint8_t*>(data);
}

bool huge_aligned(const uint8_t* data) {
    return reinterpret_cast<uintptr_t>(data) % kHugeBytes == 0;
}

// Linux 6.7 and later align large anonymous mappings by themselves, so the first try mostly succeeds; elsewhere map
// more than needed and cut both ends off.
uint8_t* map_huge_aligned(uint64_t bytes) {
    uint8_t* data = map_anywhere(bytes);
    if (data == nullptr || huge_aligned(data)) return data;
    munmap(data, bytes);
    data = map_anywhere(bytes + kHugeBytes);
    if (data == nullptr) return nullptr;
    const uint64_t head = (kHugeBytes - reinterpret_cast<uintptr_t>(data) % kHugeBytes) % kHugeBytes;
    if (head > 0) munmap(data, head);
    munmap(data + head + bytes, kHugeBytes - head);
    return data + head;
}

// Step by step, so that no more memory is used than that of the block and one step.
void move_bytes(MappedBlock from, uint8_t* to) {
    for (uint64_t at = 0; at < from.bytes; at += kHugeBytes) {
        const uint64_t step = std::min(kHugeBytes, from.bytes - at);
        std::memcpy(to + at, from.data + at, step);
        madvise(from.data + at, step, MADV_DONTNEED);
    }
    unmap_block(from);
}

}  // namespace

uint64_t system_page_bytes() {
    static const uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

uint64_t block_capacity(uint64_t bytes) {
    if (bytes > kNonsense) return bytes;
    if (bytes <= kMappedBytesMin - 64) return round_up(bytes, 64);
    const uint64_t at_least = std::max(bytes, kMappedBytesMin);
    if (at_least >= kHugeMultiplesFrom) return round_up(at_least, kHugeBytes);
    return round_up(at_least, std::max(std::bit_floor(at_least) / kSizesPerDoubling, system_page_bytes()));
}

MappedBlock map_block(uint64_t bytes) noexcept {
    uint8_t* data = bytes >= kHugeBytes ? map_huge_aligned(bytes) : map_anywhere(bytes);
    if (data == nullptr) return {};
#ifdef MADV_HUGEPAGE
    // Also below kHugeBytes: kernels from 6.8 on can be told to use 64 KiB - 1 MiB folios there. Refusal is harmless.
    madvise(data, bytes, MADV_HUGEPAGE);
#endif
    // One call instead of a fault per page: 3.3 GB/s instead of 2.0. Larger blocks have few faults and are touched by
    // several workers at once.
    if (bytes < kHugeBytes) madvise(data, bytes, kPopulateWrite);
    return {data, bytes};
}

void unmap_block(MappedBlock block) noexcept {
    if (block.data == nullptr) return;
    // Cutting a hole can fail at the limit of mappings of a process; the pages at least must go.
    if (munmap(block.data, block.bytes) != 0) madvise(block.data, block.bytes, MADV_DONTNEED);
}

MappedBlock extend_block(MappedBlock block, uint64_t bytes) noexcept {
    MappedBlock longer = map_block(bytes);
    if (longer.data == nullptr) return {};
    // Source and target are both 2 MiB aligned, so huge pages move whole instead of being split. One call moves and
    // lengthens, which leaves one mapping: moved into the front of a longer one, the two would stay apart, and before
    // Linux 6.17 mremap refuses to move more than one mapping. After a failure the target range may already be unmapped
    // and taken by another thread, so it must not be unmapped again: the addresses are lost, untouched, which costs no
    // memory.
    if (mremap(block.data, block.bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, longer.data) != MAP_FAILED) return longer;
    // Still several mappings: freed neighbours that a cache handed out as one block.
    longer = map_block(bytes);
    if (longer.data != nullptr) move_bytes(block, longer.data);
    return longer;
}

}  // namespace spillway
