// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "device/stream.hpp"
#include "gpu_test.hpp"

namespace spillway::cuda {

using gpu_test::test_device;

namespace {

__global__ void wait_kernel(int64_t cycles) {
    const int64_t begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

__global__ void set_after_kernel(uint32_t* value, uint32_t set, int64_t cycles) {
    const int64_t begin = clock64();
    while (clock64() - begin < cycles) {
    }
    *value = set;
}

__global__ void copy_value_kernel(const uint32_t* from, uint32_t* to) {
    *to = *from;
}

constexpr int64_t kCycles = 20'000'000;  // some 10 ms

}  // namespace

GPU_TEST("stream: phases are timed without waiting, repeated ones add up") {
    Device& device = test_device();
    PhaseTimer timer(device.stream());
    for (int round = 0; round < 3; ++round) {
        timer.begin("transform");
        launch(wait_kernel, dim3(1), dim3(1), 0, device.stream(), kCycles);
        timer.begin("match");
    }
    timer.end();
    Event event;
    event.record(device.stream());
    CHECK(!event.done());  // nothing so far has waited for the device
    const double transform_ms = timer.milliseconds("transform");
    CHECK(transform_ms > 3 * 5.0);
    CHECK(timer.milliseconds("match") < transform_ms);
    CHECK(timer.milliseconds("materialize") == 0);
    const std::vector<PhaseTimer::Phase> phases = timer.milliseconds();
    CHECK(phases.size() == 2);
    CHECK(phases[0].name == "transform");
    CHECK(phases[0].milliseconds == transform_ms);
    timer.reset();
    CHECK(timer.milliseconds().empty());
    timer.begin("materialize");
    CHECK(timer.milliseconds("materialize") >= 0);
}

GPU_TEST("stream: one waits for another") {
    Device& device = test_device();
    const Allocation values = device.memory().allocate(8, "test");
    auto* const first = values.as<uint32_t>();
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(first, 0, 8, device.stream()));
    Stream side;
    side.wait_for(device.stream());
    launch(set_after_kernel, dim3(1), dim3(1), 0, side.get(), first, 7, kCycles);
    Event joint;
    join_streams(side.get(), device.stream(), joint);
    launch(copy_value_kernel, dim3(1), dim3(1), 0, device.stream(), first, first + 1);
    uint32_t copied = 0;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&copied, first + 1, 4, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    CHECK(copied == 7);
    CHECK(joint.done());
}

GPU_TEST("stream: an event that was never recorded is done") {
    test_device().make_current();
    Event event;
    event.synchronize();
    CHECK(event.done());
    Event moved = std::move(event);
    CHECK(moved.done());
}

}  // namespace spillway::cuda
