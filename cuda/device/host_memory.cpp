// SPDX-License-Identifier: Apache-2.0
#include "device/host_memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

#include "device/device_policy.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

constexpr uint64_t kHugePageBytes = 2 * kMiB;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE (Linux 5.14), not in older headers

uint64_t system_page_bytes() noexcept {
    static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

uint64_t whole_pages(uint64_t bytes) noexcept {
    const uint64_t page_bytes = system_page_bytes();
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

// False: the system has no more memory.
bool touch_part(uint8_t* data, uint64_t bytes) noexcept {
    // One call instead of a fault per page. Kernels that do not know it say EINVAL.
    if (madvise(data, bytes, kPopulateWrite) == 0) return true;
    if (errno == ENOMEM) return false;
    for (uint64_t at = 0; at < bytes; at += system_page_bytes()) static_cast<volatile uint8_t*>(data)[at] = 0;
    return true;
}

// Parts of a range, which threads take one after the other.
struct Touching {
    uint8_t* const data;
    const uint64_t bytes;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> refused{false};

    void work() noexcept {
        for (;;) {
            const uint64_t begin = next.fetch_add(kTouchPartBytes, std::memory_order_relaxed);
            if (begin >= bytes || refused.load(std::memory_order_relaxed)) return;
            if (!touch_part(data + begin, std::min(kTouchPartBytes, bytes - begin))) refused.store(true);
        }
    }
};

}  // namespace

void* map_host_memory(uint64_t bytes) noexcept {
    if (bytes == 0 || bytes > std::numeric_limits<uint64_t>::max() / 2) return nullptr;
    const uint64_t wanted_bytes = whole_pages(bytes);
    const uint64_t mapped_bytes = wanted_bytes + kHugePageBytes;
    void* const mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<uint8_t*>(mapped);
    const uint64_t beyond = reinterpret_cast<std::uintptr_t>(mapped) % kHugePageBytes;
    const uint64_t head_bytes = beyond == 0 ? 0 : kHugePageBytes - beyond;
    uint8_t* const data = begin + head_bytes;
    if (head_bytes > 0) munmap(begin, head_bytes);
    if (head_bytes < kHugePageBytes) munmap(data + wanted_bytes, kHugePageBytes - head_bytes);
    madvise(data, wanted_bytes, MADV_HUGEPAGE);  // a system without them refuses, and is slower
    if (madvise(data, wanted_bytes, MADV_DONTFORK) == 0) return data;
    munmap(data, wanted_bytes);
    return nullptr;
}

void unmap_host_memory(void* data, uint64_t bytes) noexcept {
    munmap(data, whole_pages(bytes));
}

bool touch_host_memory(void* data, uint64_t bytes) noexcept {
    Touching touching{static_cast<uint8_t*>(data), bytes};
    const uint64_t parts = (bytes + kTouchPartBytes - 1) / kTouchPartBytes;
    const auto cores = static_cast<uint64_t>(std::thread::hardware_concurrency());
    const uint64_t threads = std::min({parts, std::max(cores, uint64_t{1}), kTouchThreadsMax});
    std::vector<std::thread> others;
    try {
        for (uint64_t i = 1; i < threads; ++i) others.emplace_back([&touching] { touching.work(); });
    } catch (const std::exception&) {
        // The system has no more threads, or no memory for one: those that there are do all of it.
    }
    touching.work();
    for (std::thread& other : others) other.join();
    return !touching.refused.load();
}

bool prefer_numa_node(void* data, uint64_t bytes, int node) noexcept {
    constexpr int kPreferred = 1;  // MPOL_PREFERRED of <numaif.h>, which comes with a library that need not be there
    constexpr int kNodesMax = 1024;
    constexpr int kBits = std::numeric_limits<unsigned long>::digits;
    if (node < 0 || node >= kNodesMax) return false;
    unsigned long nodes[kNodesMax / kBits] = {};
    nodes[node / kBits] |= 1UL << (node % kBits);
    // The kernel takes one bit less than it is told that there are.
    return syscall(SYS_mbind, data, whole_pages(bytes), kPreferred, nodes, kNodesMax + 1UL, 0U) == 0;
}

uint64_t available_host_bytes() noexcept {
    uint64_t kibibytes = std::numeric_limits<uint64_t>::max() / kKiB;
    std::FILE* const file = std::fopen("/proc/meminfo", "re");
    if (file == nullptr) return kibibytes * kKiB;
    char line[128];
    while (std::fgets(line, sizeof line, file) != nullptr) {
        if (std::sscanf(line, "MemAvailable: %" SCNu64, &kibibytes) == 1) break;
    }
    std::fclose(file);
    return kibibytes * kKiB;
}

}}  // namespace spillway::cuda::device
