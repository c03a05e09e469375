// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <memory>

#include "cuda/api/plugin.h"
#include "device/gpu_probe.hpp"
#include "support/fake_gpu.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using namespace std::chrono_literals;
using test::contains;

}  // namespace

TEST(device_gpu_probe_opens) {
    const test::FakeGpuFolder folder;
    EXPECT_EQ(probe_open(folder.path(), 0, kProbeLimitMs), "");
    EXPECT_EQ(probe_open(folder.path(), 1, kProbeLimitMs), "there is no such GPU");
    EXPECT(contains(probe_open("/nonexistent", 0, kProbeLimitMs), "was not built"));
}

// The driver dies in the child and not in this process.
TEST(device_gpu_probe_survives_a_crash) {
    const test::FakeGpuFolder folder("crash");
    const auto devices = std::make_unique<spillway_cuda_devices>();
    // Address sanitizer turns the signal into an exit without an answer.
    const char* expected = test::kSanitized ? "" : "ended a trial process";
    EXPECT(contains(probe_list(folder.path(), *devices, kProbeLimitMs), expected));
    EXPECT(contains(probe_open(folder.path(), 0, kProbeLimitMs), expected));
    EXPECT(!probe_open(folder.path(), 0, kProbeLimitMs).empty());
}

TEST(device_gpu_probe_ends_a_hang) {
    const test::FakeGpuFolder folder("hang");
    const auto begin = std::chrono::steady_clock::now();
    EXPECT(contains(probe_open(folder.path(), 0, 300ms), "did not answer within 300 ms"));
    EXPECT(std::chrono::steady_clock::now() - begin < 10s);
}

TEST(device_gpu_probe_fails_at_work) {
    test::FakeGpuFolder folder("lost");
    EXPECT(contains(probe_open(folder.path(), 0, kProbeLimitMs), "illegal memory access"));
    folder.behave("refuse");
    EXPECT(contains(probe_open(folder.path(), 0, kProbeLimitMs), "end other programs"));
}

// A process that ignores SIGCHLD never sees how its children end.
TEST(device_gpu_probe_without_exit_status) {
    const test::FakeGpuFolder folder;
    const auto before = std::signal(SIGCHLD, SIG_IGN);
    const std::string reason = probe_open(folder.path(), 0, kProbeLimitMs);
    std::signal(SIGCHLD, before);
    EXPECT_EQ(reason, "");
}

}  // namespace spillway
