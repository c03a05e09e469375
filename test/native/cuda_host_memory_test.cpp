// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

#include "cuda/device/device_policy.hpp"
#include "cuda/device/host_memory.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using cuda::map_host_memory;
using cuda::unmap_host_memory;

bool is_mapped(void* data) {
    unsigned char page = 0;
    return mincore(data, 1, &page) == 0;
}

}  // namespace

TEST(cuda_host_memory_is_aligned_and_zero) {
    const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    for (const uint64_t bytes : {uint64_t{1}, page_bytes, 2 * cuda::kMiB, 2 * cuda::kMiB + 1, 40 * cuda::kMiB + 4096}) {
        void* const data = map_host_memory(bytes);
        EXPECT(data != nullptr);
        EXPECT_EQ(reinterpret_cast<uint64_t>(data) % (2 * cuda::kMiB), 0u);
        EXPECT(cuda::touch_host_memory(data, bytes));
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < bytes; i += 512) wrong += static_cast<uint8_t*>(data)[i] != 0;
        wrong += static_cast<uint8_t*>(data)[bytes - 1] != 0;
        EXPECT_EQ(wrong, 0u);
        unmap_host_memory(data, bytes);
        EXPECT(!is_mapped(data));
        EXPECT(!is_mapped(static_cast<uint8_t*>(data) + (bytes - 1) / page_bytes * page_bytes));
    }
}

TEST(cuda_host_memory_that_nobody_has) {
    EXPECT(map_host_memory(0) == nullptr);
    EXPECT(map_host_memory(std::numeric_limits<uint64_t>::max()) == nullptr);
    EXPECT(map_host_memory(uint64_t{1} << 62) == nullptr);
    EXPECT(cuda::available_host_bytes() > 0);
}

// A child that had it would share its pages until one of them writes, which a device does not notice.
TEST(cuda_host_memory_is_not_forked) {
    const uint64_t bytes = 4 * cuda::kMiB;
    void* const data = map_host_memory(bytes);
    EXPECT(cuda::touch_host_memory(data, bytes));
    const pid_t child = fork();
    if (child == 0) _exit(is_mapped(data) ? 1 : 0);
    EXPECT(child > 0);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(is_mapped(data));
    unmap_host_memory(data, bytes);
}

}  // namespace spillway
