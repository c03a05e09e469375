// SPDX-License-Identifier: Apache-2.0
// A program of its own, as no other test could use the GPU after it: a kernel writes to a wild address; the device must
// say so, refuse all later work with the same cause, and be destroyed without a crash. Exit code 0 = it does. With
// SPILLWAY_CUDA_SYNC=1 the text names the kernel.
#include <cstdint>
#include <cstdio>
#include <string>

#include "device/device.hpp"
#include "device/launch.hpp"

namespace {

using namespace spillway::cuda;

__global__ void wild_write_kernel(uint64_t address) {
    *reinterpret_cast<uint32_t*>(address) = 1;
}

template <class Body>
bool says_restart(const char* what, Body&& body) {
    try {
        body();
    } catch (const Error& error) {
        std::printf("%s: %s\n", what, error.what());
        return error.device_lost && std::string(error.what()).find("restart the process") != std::string::npos;
    }
    std::printf("%s: nothing was thrown\n", what);
    return false;
}

bool run() {
    Device device(0, 64 * kMiB);
    Allocation kept = device.memory().allocate(kMiB, "test");
    bool good = says_restart("the kernel", [&] {
        launch(wild_write_kernel, dim3(1), dim3(1), 0, device.stream(), uint64_t{0x10});
        device.synchronize();
    });
    good = says_restart("synchronize()", [&] { device.synchronize(); }) && good;
    good = says_restart("memory()", [&] { device.memory(); }) && good;
    good = says_restart("another Device", [&] { Device again(0, 64 * kMiB); }) && good;
    return !device.usable() && good;
}

}  // namespace

int main() {
    return run() ? 0 : 1;
}
