// SPDX-License-Identifier: Apache-2.0
// spillway_native_tests [NAME_PART]: runs the tests whose name contains NAME_PART; exit code 1 when one fails.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/thread_cache.hpp"
#include "support/test.hpp"

namespace {

// A line for what a sanitizer makes dear: such a test may want fewer rows there (fewer_if_sanitized).
constexpr double kSlowSeconds = 4;

}  // namespace

int main(int argc, char** argv) {
    const spillway::ThreadCache::Use threads;  // all end before the process does
    const char* part = argc > 1 ? argv[1] : "";
    int passed = 0;
    int failed = 0;
    for (const auto& test : spillway::test::cases()) {
        if (std::strstr(test.name, part) == nullptr) continue;
        const auto start = std::chrono::steady_clock::now();
        try {
            test.run();
            ++passed;
        } catch (const std::exception& error) {
            ++failed;
            std::printf("FAILED %s: %s\n", test.name, error.what());
        }
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        if (seconds.count() > kSlowSeconds) std::printf("slow %s: %.1f s\n", test.name, seconds.count());
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
