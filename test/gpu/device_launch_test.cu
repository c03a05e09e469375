// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"

namespace spillway::cuda {

using gpu_test::error_of;
using gpu_test::test_device;

namespace {

struct Numbers {
    uint64_t first;
    uint32_t second;
};

__global__ void nothing_kernel() {}

__global__ void arguments_kernel(uint64_t* result, Numbers numbers, double factor, bool doubled) {
    *result = static_cast<uint64_t>(static_cast<double>(numbers.first + numbers.second) * factor) * (doubled ? 2 : 1);
}

// Every thread writes its share of the block's dynamic shared memory and reads its neighbour's.
__global__ void shared_memory_kernel(uint64_t* sum, uint32_t words) {
    extern __shared__ uint32_t shared_words[];
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) shared_words[i] = i;
    __syncthreads();
    uint64_t own = 0;
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) own += shared_words[words - 1 - i];
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(own));
}

__global__ void static_and_dynamic_kernel(uint64_t* sum, uint32_t words) {
    __shared__ uint32_t fixed_words[8 * 1024];
    extern __shared__ uint32_t dynamic_words[];
    for (uint32_t i = threadIdx.x; i < 8 * 1024; i += blockDim.x) fixed_words[i] = 1;
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) dynamic_words[i] = 1;
    __syncthreads();
    if (threadIdx.x == 0) *sum = fixed_words[8 * 1024 - 1] + dynamic_words[words - 1];
}

uint64_t read(Device& device, const Allocation& block) {
    uint64_t value = 0;
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&value, block.as<void>(), sizeof value, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return value;
}

Allocation zeroed(Device& device) {
    Allocation block = device.memory().allocate(sizeof(uint64_t), "test");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(block.as<void>(), 0, sizeof(uint64_t), device.stream()));
    return block;
}

}  // namespace

GPU_TEST("launch: arguments are converted to the parameters' types") {
    Device& device = test_device();
    const Allocation result = zeroed(device);
    launch(nothing_kernel, dim3(1), dim3(1), 0, device.stream());
    const Numbers numbers{uint64_t{1} << 40, 2};
    launch(arguments_kernel, dim3(1), dim3(1), 0, device.stream(), result.as<uint64_t>(), numbers, 3, true);
    CHECK(read(device, result) == ((uint64_t{1} << 40) + 2) * 6);
}

GPU_TEST("launch: a grid without blocks launches nothing") {
    Device& device = test_device();
    const Allocation result = zeroed(device);
    launch(arguments_kernel, dim3(0), dim3(1), 0, device.stream(), result.as<uint64_t>(), Numbers{1, 1}, 1.0, false);
    launch(arguments_kernel, dim3(1, 0), dim3(1), 0, device.stream(), result.as<uint64_t>(), Numbers{1, 1}, 1.0, false);
    CHECK(read(device, result) == 0);
}

GPU_TEST("launch: dynamic shared memory up to what a block can opt in to") {
    Device& device = test_device();
    const uint64_t most_bytes = device.properties().shared_bytes_per_block_optin;
    for (const uint64_t bytes : {uint64_t{4} * 1024, uint64_t{48} * 1024, uint64_t{64} * 1024, most_bytes}) {
        const uint64_t words = bytes / 4;
        const Allocation sum = zeroed(device);
        launch(shared_memory_kernel, dim3(1), dim3(256), bytes, device.stream(), sum.as<uint64_t>(), words);
        CHECK(read(device, sum) == words * (words - 1) / 2);
    }
}

GPU_TEST("launch: static and dynamic shared memory together above 48 KiB") {
    Device& device = test_device();
    const Allocation sum = zeroed(device);
    const uint64_t bytes = 32 * kKiB;  // beside 32 KiB static ones
    launch(static_and_dynamic_kernel, dim3(1), dim3(256), bytes, device.stream(), sum.as<uint64_t>(), bytes / 4);
    CHECK(read(device, sum) == 2);
}

GPU_TEST("launch: what the device cannot do is an error that names the kernel and goes away") {
    Device& device = test_device();
    const Allocation sum = zeroed(device);
    const uint64_t too_many_bytes = device.properties().shared_bytes_per_block_optin + 1024;
    const Error shared = error_of([&] {
        launch(shared_memory_kernel, dim3(1), dim3(256), too_many_bytes, device.stream(), sum.as<uint64_t>(), 1);
    });
    CHECK(shared.code() == ErrorCode::kCuda);
    const Error block = error_of([&] { launch(nothing_kernel, dim3(1), dim3(4096), 0, device.stream()); });
    CHECK(block.code() == ErrorCode::kCuda);
#if CUDART_VERSION >= 12030
    CHECK(std::string(shared.what()).find("shared_memory_kernel") != std::string::npos);
    CHECK(std::string(block.what()).find("nothing_kernel") != std::string::npos);
#endif
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(device.usable());
    launch(shared_memory_kernel, dim3(1), dim3(256), 400, device.stream(), sum.as<uint64_t>(), 100);
    CHECK(read(device, sum) == 4950);
}

}  // namespace spillway::cuda
