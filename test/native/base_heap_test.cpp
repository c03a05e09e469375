// SPDX-License-Identifier: Apache-2.0
// Memory that was freed and that the C allocator keeps.
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/heap.hpp"
#include "base/system_file.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

#if defined(__GLIBC__)
constexpr bool kTrims = !kSanitized;  // sanitizers have an allocator of their own
#else
constexpr bool kTrims = false;
#endif

uint64_t resident_mebibytes() {
    const std::string sizes = read_text("/proc/self/statm").value_or("");
    const uint64_t pages = parse_number(sizes.substr(sizes.find(' ') + 1)).value_or(0);
    return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) >> 20;
}

// Blocks of the allocator's own heap, of which every eighth is kept: the heap cannot end sooner.
std::vector<std::unique_ptr<uint8_t[]>> leave_holes(size_t mebibytes) {
    constexpr size_t kBlockBytes = 32 << 10;
    std::vector<std::unique_ptr<uint8_t[]>> blocks;
    for (size_t i = 0; i < (mebibytes << 20) / kBlockBytes; ++i) {
        blocks.push_back(std::make_unique<uint8_t[]>(kBlockBytes));
        std::memset(blocks.back().get(), 1, kBlockBytes);
    }
    for (size_t i = 0; i + 1 < blocks.size(); ++i) {
        if (i % 8 != 0) blocks[i].reset();
    }
    return blocks;
}

}  // namespace

TEST(base_heap_gives_free_memory_back_near_the_promise_only) {
    if (!kTrims) return;
    const auto kept = leave_holes(160);
    const uint64_t before = resident_mebibytes();
    EXPECT(before > 140);
    give_back_free_memory_near(uint64_t{1} << 40);
    EXPECT(resident_mebibytes() + 8 > before);
    give_back_free_memory_near((before - 90) << 20);  // the process comes to 90 MiB beyond the budget
    EXPECT(resident_mebibytes() + 8 > before);
    give_back_free_memory_near((before - 100) << 20);
    EXPECT(resident_mebibytes() + 100 < before);
}

}  // namespace spillway::test
