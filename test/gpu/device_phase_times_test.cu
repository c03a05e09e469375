// SPDX-License-Identifier: Apache-2.0
// Whose time is whose: scopes inside of scopes, nobody who listens, scopes that errors leave.
#include <chrono>
#include <cstdint>

#include "device/phase_times.hpp"
#include "gpu_test.hpp"

namespace spillway::cuda {

using gpu_test::small_or_full;
using gpu_test::test_device;

namespace {

struct Work {
    explicit Work(Device& on) : device(on), block(on.memory().allocate(bytes, "work to be timed")) {}
    void run() { SPILLWAY_CUDA_CHECK(cudaMemsetAsync(block.as(), 0, bytes, device.stream())); }

    const uint64_t bytes = small_or_full(1 << 20, 1 << 28);
    Device& device;
    Allocation block;
};

}  // namespace

GPU_TEST("phase times: time inside of a scope belongs to the innermost one") {
    Device& device = test_device();
    Work work(device);
    device.synchronize();
    PhaseTimes times(device);
    const auto start = std::chrono::steady_clock::now();
    {
        const PhaseScope outer(device, Phase::kMatch);
        for (int i = 0; i < 8; ++i) {
            const PhaseScope inner(device, Phase::kTransform);
            work.run();
        }
    }
    work.run();  // in no phase
    device.synchronize();
    const double elapsed_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    CHECK(times.milliseconds(Phase::kTransform) > 0);
    CHECK_EQ(times.milliseconds(Phase::kMaterialize), 0.0);
    const double both = times.milliseconds(Phase::kTransform) + times.milliseconds(Phase::kMatch);
    CHECK(both <= elapsed_ms + 0.002);
    CHECK(times.milliseconds(Phase::kMatch) >= 0);
}

GPU_TEST("phase times: bytes are those of the listener and of the innermost phase") {
    Device& device = test_device();
    count_moved(device, 7);  // nobody listens
    {
        PhaseTimes times(device);
        CHECK_EQ(times.moved_bytes(), uint64_t{0});
        CHECK_EQ(times.algorithm(), -1);
        count_moved(device, 5);
        count_moved(device, 6);
        note_algorithm(device, 3);
        CHECK_EQ(times.moved_bytes(), uint64_t{11});
        CHECK_EQ(times.algorithm(), 3);
        {
            const PhaseScope outer(device, Phase::kMatch);
            count_moved(device, 10);
            const PhaseScope inner(device, Phase::kTransform);
            count_moved(device, 100);
        }
        CHECK_EQ(times.moved_bytes(), uint64_t{121});
        CHECK_EQ(times.moved_bytes(Phase::kTransform), uint64_t{100});
        CHECK_EQ(times.moved_bytes(Phase::kMatch), uint64_t{10});
        CHECK_EQ(times.moved_bytes(Phase::kMaterialize), uint64_t{0});
    }
    CHECK(device.phase_times() == nullptr);
}

GPU_TEST("phase times: an error leaves its scopes, and the next listener starts anew") {
    Device& device = test_device();
    try {
        PhaseTimes times(device);
        const PhaseScope outer(device, Phase::kMatch);
        const PhaseScope inner(device, Phase::kMaterialize);
        throw Error(ErrorCode::kInvalid, "on purpose");
    } catch (const Error&) {
        CHECK(device.phase_times() == nullptr);
    }
    PhaseTimes times(device);
    CHECK_EQ(times.milliseconds(Phase::kMatch), 0.0);
}

}  // namespace spillway::cuda
