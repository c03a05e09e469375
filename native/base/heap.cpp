// SPDX-License-Identifier: Apache-2.0
#include "base/heap.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "base/system_file.hpp"

namespace spillway {

namespace {

using Clock = std::chrono::steady_clock;

// Node and the code take 85 MiB; the rest of the 128 is what this gives back in time for.
constexpr uint64_t kNearBytes = uint64_t{96} << 20;
constexpr uint64_t kWorthwhileBytes = uint64_t{4} << 20;
constexpr std::chrono::milliseconds kPauseMin{100};
// This is for a process whose own data are what is large.
constexpr std::chrono::milliseconds kPauseMax{8000};

uint64_t resident_bytes() {
    // "size resident shared ...", in pages.
    const std::string sizes = read_text("/proc/self/statm").value_or("");
    const size_t second = sizes.find(' ');
    if (second == std::string::npos) return 0;
    return parse_number(sizes.substr(second + 1)).value_or(0) *
           static_cast<uint64_t>(std::max(1L, sysconf(_SC_PAGESIZE)));
}

struct Trims {
    std::mutex mutex;
    Clock::time_point next{};
    Clock::duration pause = kPauseMin;
};

Trims& trims() {
    static Trims one;
    return one;
}

}  // namespace

void give_back_free_memory() noexcept {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

void give_back_free_memory_near(uint64_t budget_bytes) noexcept {
    try {
        Trims& state = trims();
        const std::unique_lock<std::mutex> lock(state.mutex, std::try_to_lock);
        if (!lock || Clock::now() < state.next) return;
        const uint64_t before = resident_bytes();
        if (before < budget_bytes || before - budget_bytes < kNearBytes) return;
        give_back_free_memory();
        const uint64_t after = resident_bytes();
        const bool worthwhile = after + kWorthwhileBytes <= before;
        state.pause = worthwhile ? kPauseMin : std::min<Clock::duration>(2 * state.pause, kPauseMax);
        state.next = Clock::now() + state.pause;
    } catch (const std::exception&) {
        return;  // no memory for a name of a file: the next call may find some
    }
}

void share_arenas() noexcept {
#if defined(__GLIBC__)
    const char* const tunables = std::getenv("GLIBC_TUNABLES");
    const bool is_chosen = std::getenv("MALLOC_ARENA_MAX") != nullptr ||
                           (tunables != nullptr && std::strstr(tunables, "arena_max") != nullptr);
    if (!is_chosen)
        mallopt(M_ARENA_MAX, static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 4, 4U, 16U)));
#endif
}

}  // namespace spillway
