// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "cuda/device/device_policy.hpp"
#include "cuda/device/host_memory.hpp"
#include "cuda/tier/plain_host_memory.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using cuda::HostPlacement;
using cuda::PlainHostMemory;

constexpr uint64_t kPlainBytes = 9 * cuda::kMiB + 5;

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
    unsigned char page = 0;
    EXPECT(mincore(data, 1, &page) != 0);
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

}  // namespace spillway
