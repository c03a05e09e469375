// SPDX-License-Identifier: Apache-2.0
// spillway_native_tests [NAME_PART]: runs the tests whose name contains NAME_PART; exit code 1 when one fails.
// spillway_native_tests NAME_PART I/N: of these the I-th of every N, so that processes side by side share them.
// --time-limit=SECONDS: a test that takes longer fails and ends the process; otherwise 120 s, 600 under a sanitizer.
// Tests with "on_request" in their name run only if NAME_PART has it as well.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/thread_cache.hpp"
#include "support/test.hpp"
#include "support/time_limit.hpp"

namespace {

// A line for what a sanitizer makes dear: such a test may want fewer rows there (fewer_if_sanitized).
constexpr double kSlowSeconds = 4;
constexpr const char* kTimeLimitOption = "--time-limit=";
constexpr const char* kOnRequest = "on_request";

struct Share {
    unsigned long first = 0;
    unsigned long of = 1;
};

struct Arguments {
    const char* part = "";
    Share share;
    std::chrono::duration<double> time_limit = spillway::test::kTimeLimit;
};

[[noreturn]] void refuse(const char* what, const char* text) {
    std::fprintf(stderr, "Expected %s but received '%s'.\n", what, text);
    std::exit(2);
}

// Every N-th instead of neighbours: the slow tests of a file are spread.
Share share_of(const char* text) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(text, &end, 10);
    const unsigned long of = *end == '/' ? std::strtoul(end + 1, &end, 10) : 0;
    if (number < 1 || number > of || *end != '\0') refuse("a share such as 1/2", text);
    return {number - 1, of};
}

Arguments arguments_of(int argc, char** argv) {
    Arguments arguments;
    std::vector<const char*> plain;
    for (int i = 1; i < argc; ++i) {
        if (std::strncmp(argv[i], "--", 2) != 0) {
            plain.push_back(argv[i]);
            continue;
        }
        const size_t length = std::strlen(kTimeLimitOption);
        const bool known = std::strncmp(argv[i], kTimeLimitOption, length) == 0;
        const auto limit = known ? spillway::test::time_limit_of(argv[i] + length) : std::nullopt;
        if (!limit) refuse("an option such as --time-limit=90", argv[i]);
        arguments.time_limit = *limit;
    }
    if (!plain.empty()) arguments.part = plain[0];
    if (plain.size() > 1) arguments.share = share_of(plain[1]);
    return arguments;
}

bool is_chosen(const char* name, const char* part) {
    if (std::strstr(name, part) == nullptr) return false;
    return std::strstr(name, kOnRequest) == nullptr || std::strstr(part, kOnRequest) != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    const Arguments arguments = arguments_of(argc, argv);
    const spillway::ThreadCache::Use threads;  // all end before the process does
    int passed = 0;
    int failed = 0;
    // The threads of the test go on until the process ends, which is now: nothing can be destroyed under them.
    spillway::test::TimeLimit limit(arguments.time_limit, [&](const char* test) {
        std::printf("FAILED %s: still running after %g s\n", test, arguments.time_limit.count());
        std::printf("%d passed, %d failed\n", passed, failed + 1);
        std::fflush(stdout);
        std::_Exit(1);
    });
    unsigned long number = 0;
    for (const auto& test : spillway::test::cases()) {
        if (!is_chosen(test.name, arguments.part)) continue;
        if (number++ % arguments.share.of != arguments.share.first) continue;
        const auto start = std::chrono::steady_clock::now();
        limit.begin(test.name);
        try {
            test.run();
            limit.end();
            ++passed;
        } catch (const std::exception& error) {
            limit.end();
            ++failed;
            std::printf("FAILED %s: %s\n", test.name, error.what());
        }
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        if (seconds.count() > kSlowSeconds) std::printf("slow %s: %.1f s\n", test.name, seconds.count());
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    // A share of few tests may be empty.
    return failed == 0 && (passed > 0 || arguments.share.of > 1) ? 0 : 1;
}
