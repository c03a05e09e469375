// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "cuda/device/block_allocator.hpp"
#include "cuda/device/device_policy.hpp"
#include "cuda/device/host_memory.hpp"
#include "cuda/device/plain_host_memory.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using cuda::BlockAllocator;
using cuda::HostPlacement;
using cuda::kMiB;
using cuda::PlainBacking;
using cuda::PlainHostMemory;
using Refusal = BlockAllocator::Refusal;

constexpr uint64_t kPlainBytes = 9 * kMiB + 5;

bool is_mapped(const void* data) {
    unsigned char page = 0;
    return mincore(const_cast<void*>(data), 1, &page) == 0;
}

// Writes a block from end to end; false: it is not what it was when it is read.
bool keeps_bytes(const BlockAllocator::Grant& grant, int value) {
    auto* const bytes = static_cast<uint8_t*>(grant.data);
    std::memset(bytes, value, grant.bytes);
    return bytes[0] == value && bytes[grant.bytes / 2] == value && bytes[grant.bytes - 1] == value;
}

// What the body returns, in a process of its own, whose limits end with it.
template <class Body>
bool holds_in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST(cuda_plain_host_memory_is_for_shared_page_tables) {
    EXPECT(cuda::host_placement({false, false}) == HostPlacement::kPinned);
    EXPECT(cuda::host_placement({true, false}) == HostPlacement::kPinned);  // by faults over PCIe
    EXPECT(cuda::host_placement({false, true}) == HostPlacement::kPinned);  // no device says this
    EXPECT(cuda::host_placement({true, true}) == HostPlacement::kPlain);
}

TEST(cuda_plain_host_memory_goes_with_its_owner) {
    void* data = nullptr;
    {
        PlainHostMemory memory(kPlainBytes, 0);
        EXPECT(static_cast<bool>(memory));
        EXPECT_EQ(memory.bytes(), kPlainBytes);
        data = memory.data();
        std::memset(data, 7, kPlainBytes);
        PlainHostMemory moved = std::move(memory);
        EXPECT(!memory && moved.data() == data);
        EXPECT_EQ(static_cast<uint8_t*>(data)[kPlainBytes - 1], 7);
    }
    EXPECT(!is_mapped(data));
    EXPECT(!PlainHostMemory());
    EXPECT(!PlainHostMemory(std::numeric_limits<uint64_t>::max(), 0));
    // A node that is not there: placed by the first touch.
    EXPECT(static_cast<bool>(PlainHostMemory(kPlainBytes, 100000)));
    EXPECT(static_cast<bool>(PlainHostMemory(kPlainBytes, -1)));
}

// Containers may forbid the call, and then the memory is as good as any; where it is allowed the kernel remembers it.
TEST(cuda_plain_host_memory_prefers_its_node) {
    EXPECT(!cuda::prefer_numa_node(nullptr, 4096, -1));
    EXPECT(!cuda::prefer_numa_node(nullptr, 4096, 1 << 20));
    void* const data = cuda::map_host_memory(kPlainBytes);
    if (cuda::prefer_numa_node(data, kPlainBytes, 0)) {
        int mode = -1;
        unsigned long nodes[16] = {};
        const unsigned long kOfAddress = 2;  // MPOL_F_ADDR
        EXPECT_EQ(syscall(SYS_get_mempolicy, &mode, nodes, 1024UL, data, kOfAddress), 0);
        EXPECT_EQ(mode, 1);
        EXPECT_EQ(nodes[0], 1u);
    }
    EXPECT(cuda::touch_host_memory(data, kPlainBytes));
    cuda::unmap_host_memory(data, kPlainBytes);
}

// As a pool of a device has it: blocks of segments that grow and stay, within a hard limit.
TEST(cuda_plain_backing_grows_and_is_given_back) {
    PlainBacking backing(0);
    void* first_data = nullptr;
    void* shared_data = nullptr;
    {
        BlockAllocator blocks(backing, cuda::kPinnedBlockSizes, 24 * kMiB);
        const BlockAllocator::Grant first = blocks.take(9 * kMiB + 5);
        const BlockAllocator::Grant shared = blocks.take(5000);
        const BlockAllocator::Grant second = blocks.take(6 * kMiB);
        EXPECT(keeps_bytes(first, 3) && keeps_bytes(shared, 4) && keeps_bytes(second, 5));
        EXPECT_EQ(reinterpret_cast<uint64_t>(first.data) % (2 * kMiB), 0u);
        EXPECT_EQ(reinterpret_cast<uint64_t>(shared.data) % 4096, 0u);
        EXPECT_EQ(blocks.segments(), 3u);
        EXPECT(blocks.take(9 * kMiB).refusal == Refusal::kLimit);
        EXPECT(blocks.reserved_bytes() <= blocks.limit_bytes());

        // What goes is kept for the next one, and not looked for anew.
        first_data = first.data;
        shared_data = shared.data;
        blocks.give_back(first.data);
        EXPECT(is_mapped(first_data));
        const BlockAllocator::Grant again = blocks.take(9 * kMiB);
        EXPECT(again.data == first_data);
        blocks.give_back(again.data);
        blocks.trim();
        EXPECT(!is_mapped(first_data) && is_mapped(shared_data));
        // Its room is that of a larger block now.
        const BlockAllocator::Grant larger = blocks.take(12 * kMiB);
        EXPECT(keeps_bytes(larger, 6));
        blocks.give_back(second.data);
        blocks.give_back(larger.data);
        first_data = larger.data;
    }
    EXPECT(!is_mapped(first_data) && !is_mapped(shared_data));
}

TEST(cuda_plain_backing_is_told_from_other_memory) {
    PlainBacking backing(0);
    BlockAllocator blocks(backing, cuda::kPinnedBlockSizes, 64 * kMiB);
    EXPECT(!blocks.holds(&backing, 1));
    const BlockAllocator::Grant block = blocks.take(16 * kMiB);
    const auto* const data = static_cast<const uint8_t*>(block.data);
    EXPECT(!blocks.holds(&backing, 1));
    EXPECT(blocks.holds(data, 16 * kMiB));
    EXPECT(blocks.holds(data + 16 * kMiB - 1, 1));
    EXPECT(!blocks.holds(data + 16 * kMiB - 1, 2));
    EXPECT(!blocks.holds(data + 16 * kMiB, 1));
    EXPECT(!blocks.holds(data + 1, std::numeric_limits<uint64_t>::max()));
    EXPECT(!blocks.holds(data - 1, 2));
    // A small one is elsewhere, and stays.
    const BlockAllocator::Grant small = blocks.take(512);
    blocks.give_back(block.data);
    EXPECT(blocks.holds(data, 1));
    blocks.trim();
    EXPECT(!blocks.holds(data, 1));
    EXPECT(blocks.holds(small.data, 512));
}

TEST(cuda_plain_backing_of_a_system_that_refuses) {
    PlainBacking backing(0);
    BlockAllocator blocks(backing, cuda::kPinnedBlockSizes, uint64_t{1} << 50);
    // More than there is.
    EXPECT(blocks.take(uint64_t{1} << 49).refusal == Refusal::kBacking);
    EXPECT_EQ(blocks.used_bytes(), 0u);
    EXPECT_EQ(blocks.reserved_bytes(), 0u);
    const BlockAllocator::Grant kept = blocks.take(4 * kMiB);
    EXPECT(keeps_bytes(kept, 7));
    // mmap() that fails: the process may have no more addresses. What it has is left as it is.
    EXPECT(holds_in_child([&] {
        rlimit none{};
        if (setrlimit(RLIMIT_AS, &none) != 0) return false;
        const bool refused = cuda::map_host_memory(64 * kMiB) == nullptr && backing.acquire(64 * kMiB) == nullptr;
        return refused && blocks.take(64 * kMiB).refusal == Refusal::kBacking && blocks.used_bytes() == 4 * kMiB;
    }));
    const BlockAllocator::Grant later = blocks.take(64 * kMiB);
    EXPECT(keeps_bytes(later, 8));
    // mbind() that fails: placed by the first touch.
    for (const int node : {-1, 1 << 20}) {
        PlainBacking elsewhere(node);
        auto* const data = static_cast<uint8_t*>(elsewhere.acquire(kPlainBytes));
        EXPECT(data != nullptr && data[kPlainBytes - 1] == 0);
        elsewhere.release(data, kPlainBytes);
        EXPECT(!is_mapped(data));
    }
}

}  // namespace spillway
