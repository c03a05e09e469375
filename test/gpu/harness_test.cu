// SPDX-License-Identifier: Apache-2.0
// The harness itself: what its checks accept and say, and how a run of this very program ends when tests fail.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "gpu_test.hpp"

namespace spillway::gpu_test {

namespace {

enum class Color { kRed = 1, kBlue = 2 };

struct ColoredError : std::runtime_error {
    explicit ColoredError(Color given) : std::runtime_error("text"), color(given) {}
    Color code() const { return color; }
    Color color;
};

__global__ void write_to(int* address) {
    *address = 1;
}

template <class Body>
std::string failure_of(const Body& body) {
    try {
        body();
    } catch (const Failure& failure) {
        return failure.what();
    }
    return "";
}

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// Output and exit code of this program with these arguments.
std::string run_self(const std::string& arguments, int& code) {
    char path[4096] = {};
    CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    std::FILE* child = popen(("'" + std::string(path) + "' " + arguments + " 2>&1").c_str(), "r");
    CHECK(child != nullptr);
    std::string output;
    char part[512];
    while (std::fgets(part, sizeof part, child) != nullptr) output += part;
    const int status = pclose(child);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return output;
}

}  // namespace

template <>
struct ErrorWith<Color> {
    using type = ColoredError;
};

std::vector<Case> broken_cases() {
    return {{"broken: 0 is left out", [] { leave_test_out("it is broken"); }},
            {"broken: 1 passes", [] { leave_out("a part of it is broken"); }},
            {"broken: 2 fails a check", [] { CHECK_EQ(1 + 1, 3); }},
            {"broken: 3 leaves an error unread",
             [] {
                 void* memory = nullptr;
                 (void)cudaMalloc(&memory, std::numeric_limits<size_t>::max() / 2);
             }},
            {"broken: 4 writes outside", [] { write_to<<<1, 1>>>(reinterpret_cast<int*>(64)); }},
            {"broken: 5 is not run", [] {}}};
}

GPU_TEST("harness: checks pass what is equal and say what is not") {
    CHECK_EQ(uint64_t{3}, 3);
    CHECK_EQ(std::string("a"), "a");
    CHECK(!equal(-1, std::numeric_limits<uint64_t>::max()));
    CHECK(!equal(std::numeric_limits<uint32_t>::max(), int64_t{-1}));
    const std::string numbers = failure_of([] { CHECK_EQ(uint8_t{65}, -1); });
    CHECK(ends_with(numbers, ": 65 != -1"));
    CHECK(numbers.rfind("test/gpu/harness_test.cu:", 0) == 0);
    CHECK(ends_with(failure_of([] { CHECK(1 > 2); }), ": expected 1 > 2"));
    CHECK(contains(failure_of([] { CHECK_CUDA(cudaErrorInvalidValue); }), "cudaErrorInvalidValue"));
}

GPU_TEST("harness: an expected error is one with the expected code") {
    const auto throwing = [](Color color) -> int { throw ColoredError(color); };
    CHECK_THROWS(throwing(Color::kRed), Color::kRed);
    const std::string other = failure_of([&] { CHECK_THROWS(throwing(Color::kRed), Color::kBlue); });
    CHECK(ends_with(other, "throwing(Color::kRed) threw code 1, not 2: text"));
    CHECK(ends_with(failure_of([] { CHECK_THROWS(1, Color::kRed); }), ": 1 threw nothing"));
}

GPU_TEST("harness: the device opens once") {
    CHECK_EQ(&test_device(), &test_device());
}

GPU_TEST("harness: a broken context ends the run and is told from other failures") {
    // Not in the small suite: the tools that it is for would report the broken kernel as well.
    need_full_suite();
    int code = 0;
    const std::string output = run_self("--broken", code);
    CHECK_EQ(code, 1);
    CHECK(contains(output, "left out: broken: 0 is left out: it is broken\n"));
    CHECK(contains(output, "left out in part: broken: 1 passes: a part of it is broken\n"));
    CHECK(contains(output, "FAILED broken: 2 fails a check: test/gpu/harness_test.cu:"));
    CHECK(contains(output, "FAILED broken: 3 leaves an error unread: left an unread CUDA error: "));
    CHECK(contains(output, "FAILED broken: 4 writes outside: destroyed the CUDA context: cudaErrorIllegalAddress"));
    CHECK(ends_with(output, "not run: broken: 5 is not run\n1 left out\n1 passed, 3 failed\n"));
}

}  // namespace spillway::gpu_test
