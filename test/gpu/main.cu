// SPDX-License-Identifier: Apache-2.0
// spillway_gpu_tests [--filter TEXT]... [--suite small|full] [--part I/N] [--seed N] [--device N] [--json FILE]
// [--list] Exit code 0: all tests that were asked for passed, but for those that lack something here; 1: one failed or
// was not run; 2: no GPU, none that lacks nothing, or an option is wrong. All tests run in this process. An error that
// the context does not survive (a kernel read outside of its memory) would fail every test after it, so it ends the
// run: that test has failed, the others are "not run".
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "gpu_test.hpp"
#include "options.hpp"
#include "report.hpp"

namespace spillway::gpu_test {

uint64_t test_seed() {
    return options().seed;
}

bool full_suite() {
    return options().full;
}

bool watched_suite() {
    return options().watched;
}

namespace {

constexpr int kNothingRan = 2;
constexpr double kSlowMs = 5000;  // tests that take longer are named: under racecheck any may

std::string left_out_here;  // of the test that runs

// The process ends by the signal all the same; where it came from is on stderr then. backtrace() has been called
// before, since its first call loads a library.
void tell_where(int signal) {
    void* frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void tell_where_it_ends() {
    void* frame = nullptr;
    backtrace(&frame, 1);
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(signal, tell_where);
}

// Sorted, because the order of registration is that of the linker. Names are how receipts and filters know a test.
void sort_and_check_names() {
    std::vector<Case>& all = cases();
    std::sort(all.begin(), all.end(), [](const Case& a, const Case& b) { return std::strcmp(a.name, b.name) < 0; });
    for (size_t i = 0; i < all.size(); ++i) {
        if (std::strstr(all[i].name, ": ") == nullptr) {
            throw std::invalid_argument(std::string("Expected a name 'room: what' of a test but found '") +
                                        all[i].name + "'.");
        }
        if (i > 0 && std::strcmp(all[i].name, all[i - 1].name) == 0) {
            throw std::invalid_argument(std::string("Two tests have the name '") + all[i].name + "'.");
        }
    }
}

// What is wrong with the device; empty = nothing.
std::string open_device(DeviceFacts& facts) {
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    const int ordinal = options().device;
    if (status == cudaSuccess && ordinal >= count) {
        return "there are " + std::to_string(count) + " devices, none has the number " + std::to_string(ordinal);
    }
    if (status == cudaSuccess) status = cudaSetDevice(ordinal);
    if (status == cudaSuccess) status = cudaGetDeviceProperties(&facts.properties, ordinal);
    if (status == cudaSuccess) status = cudaDriverGetVersion(&facts.driver);
    if (status == cudaSuccess) status = cudaRuntimeGetVersion(&facts.runtime);
    if (status == cudaSuccess) status = cudaFree(nullptr);  // makes the context, outside of the first test's time
    if (status == cudaSuccess) return "";
    if (facts.driver == 0 && cudaDriverGetVersion(&facts.driver) == cudaSuccess && facts.driver == 0) {
        return "no NVIDIA driver is installed";
    }
    return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
}

std::string what_went_wrong(const Case& test, bool& left_out) {
    try {
        test.run();
        return "";
    } catch (const LeftOut& reason) {
        leave_out(reason.what());
        left_out = true;
        return "";
    } catch (const std::exception& error) {
        const std::string text = error.what();
        return text.empty() ? "an exception without a text" : text;
    } catch (...) {
        return "something that is no std::exception was thrown";
    }
}

// Runs one test; false when the context did not survive it.
bool run_case(const Case& test, Result& result) {
    const auto start = std::chrono::steady_clock::now();
    cudaSetDevice(options().device);  // the test before may have left another one
    left_out_here.clear();
    bool left_out = false;
    result.message = what_went_wrong(test, left_out);
    result.left_out = left_out_here;
    cudaSetDevice(options().device);
    const cudaError_t left = cudaDeviceSynchronize();
    const cudaError_t unread = cudaGetLastError();
    result.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    const cudaError_t error = left != cudaSuccess ? left : unread;
    // Errors of a single call are gone once read; those of the context come back from every call.
    const bool alive = cudaDeviceSynchronize() == cudaSuccess;
    if (alive) trim_test_device();
    if (error != cudaSuccess) {
        if (!result.message.empty()) result.message += "; ";
        result.message += std::string(alive ? "left an unread CUDA error" : "destroyed the CUDA context") + ": " +
                          cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
    }
    result.status = !result.message.empty() ? "failed" : left_out ? "left out" : "passed";
    if (!result.left_out.empty()) {
        std::printf("left out%s: %s: %s\n", left_out ? "" : " in part", result.name, result.left_out.c_str());
    }
    if (!result.message.empty()) std::printf("FAILED %s: %s\n", result.name, result.message.c_str());
    if (result.ms > kSlowMs) std::printf("%.1f s: %s\n", result.ms / 1000, result.name);
    std::fflush(stdout);
    return alive;
}

// Runs the wanted tests; false when the context was lost on the way.
bool run_cases(const DeviceFacts& facts, const std::vector<Case>& wanted, std::vector<Result>& results) {
    for (size_t i = 0; i < wanted.size(); ++i) {
        results[i].status = "running";
        write_report(facts, results);
        if (!run_case(wanted[i], results[i])) return false;
    }
    return true;
}

int count_of(const std::vector<Result>& results, const char* status) {
    return static_cast<int>(std::count_if(
        results.begin(), results.end(), [&](const Result& result) { return std::strcmp(result.status, status) == 0; }));
}

// Parts take a few neighbours in turn. Large tests are neighbours, and so do not run beside each other; rooms whose
// tests are slow are shared out: parts of one run of neighbours each took 5 to 265 s on four H100s.
std::vector<Case> wanted_cases() {
    constexpr uint64_t kNeighbours = 4;
    std::vector<Case> wanted;
    uint64_t seen = 0;
    for (const Case& test : cases()) {
        if (!is_wanted(options(), test.name)) continue;
        if (seen++ / kNeighbours % options().parts == options().part - 1) wanted.push_back(test);
    }
    return wanted;
}

int run(int count, char** arguments) {
    parse_options(count, arguments, options());
    if (options().broken) cases() = broken_cases();
    sort_and_check_names();
    const std::vector<Case> wanted = wanted_cases();
    std::vector<Result> results;
    for (const Case& test : wanted) {
        results.push_back({test.name});
        if (options().list) std::printf("%s\n", test.name);
    }
    if (options().list) return 0;
    if (wanted.empty()) throw std::invalid_argument("No test has a name that contains one of the filters.");
    DeviceFacts facts;
    const std::string reason = open_device(facts);
    if (!reason.empty()) {
        std::fprintf(stderr, "No test was run: no GPU can be used (%s).\n", reason.c_str());
        return kNothingRan;
    }
    std::printf("%s, %s suite, seed %llu\n", facts.properties.name, suite_name(options()),
                static_cast<unsigned long long>(test_seed()));
    std::fflush(stdout);
    const bool alive = run_cases(facts, wanted, results);
    write_report(facts, results);
    for (const Result& result : results) {
        if (std::strcmp(result.status, "not run") == 0) std::printf("not run: %s\n", result.name);
    }
    const int passed = count_of(results, "passed");
    const int left_out = count_of(results, "left out");
    if (left_out > 0) std::printf("%d left out\n", left_out);
    std::printf("%d passed, %d failed\n", passed, count_of(results, "failed"));
    std::fflush(stdout);
    const bool green = passed + left_out == static_cast<int>(results.size());
    const int code = !green ? 1 : passed > 0 ? 0 : kNothingRan;
    // Destructors would call into the lost context and may throw.
    if (!alive) std::_Exit(code);
    close_test_device();
    cudaDeviceReset();  // leak checkers look at what is still allocated here
    return code;
}

}  // namespace

void leave_out(const std::string& why) {
    if (left_out_here.find(why) != std::string::npos) return;
    left_out_here += (left_out_here.empty() ? "" : "; ") + why;
}

}  // namespace spillway::gpu_test

int main(int count, char** arguments) {
    spillway::gpu_test::tell_where_it_ends();
    try {
        return spillway::gpu_test::run(count, arguments);
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return spillway::gpu_test::kNothingRan;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "The run ended early: %s\n", error.what());
        return 1;
    }
}
