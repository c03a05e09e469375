// SPDX-License-Identifier: Apache-2.0
// spillway_native_tests [NAME_PART]: runs the tests whose name contains NAME_PART; exit code 1 when one fails.
// spillway_native_tests NAME_PART I/N: of these the I-th of every N, so that processes side by side share them.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/thread_cache.hpp"
#include "support/test.hpp"

namespace {

// A line for what a sanitizer makes dear: such a test may want fewer rows there (fewer_if_sanitized).
constexpr double kSlowSeconds = 4;

struct Share {
    unsigned long first = 0;
    unsigned long of = 1;
};

// Every N-th instead of neighbours: the slow tests of a file are spread.
Share share_of(const char* text) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(text, &end, 10);
    const unsigned long of = *end == '/' ? std::strtoul(end + 1, &end, 10) : 0;
    if (number < 1 || number > of || *end != '\0') {
        std::fprintf(stderr, "Expected a share such as 1/2 but received '%s'.\n", text);
        std::exit(2);
    }
    return {number - 1, of};
}

}  // namespace

int main(int argc, char** argv) {
    const spillway::ThreadCache::Use threads;  // all end before the process does
    const char* part = argc > 1 ? argv[1] : "";
    const Share share = argc > 2 ? share_of(argv[2]) : Share{};
    int passed = 0;
    int failed = 0;
    unsigned long number = 0;
    for (const auto& test : spillway::test::cases()) {
        if (std::strstr(test.name, part) == nullptr) continue;
        if (number++ % share.of != share.first) continue;
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
    // A share of few tests may be empty.
    return failed == 0 && (passed > 0 || share.of > 1) ? 0 : 1;
}
