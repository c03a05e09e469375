// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

// Makes the device current and creates its context.
DeviceProperties open(int ordinal) {
    int count = 0;
    SPILLWAY_CUDA_CHECK(cudaGetDeviceCount(&count));
    if (ordinal < 0 || ordinal >= count) {
        throw Error(ErrorCode::kInvalid,
                    "there is no GPU " + std::to_string(ordinal) + ", only " + std::to_string(count));
    }
    set_device(ordinal);
    cudaDeviceProp found{};
    SPILLWAY_CUDA_CHECK(cudaGetDeviceProperties(&found, ordinal));
    if (found.major * 10 + found.minor < SPILLWAY_CUDA_OLDEST_CC) {
        throw Error(ErrorCode::kInvalid, "GPU " + std::to_string(ordinal) + " (" + found.name +
                                             ") is older than any this build has code for: compute capability " +
                                             std::to_string(found.major) + "." + std::to_string(found.minor));
    }
    DeviceProperties properties;
    properties.name = found.name;
    properties.ordinal = ordinal;
    properties.compute_major = found.major;
    properties.compute_minor = found.minor;
    properties.multiprocessors = found.multiProcessorCount;
    properties.warp_threads = found.warpSize;
    properties.threads_per_block_max = found.maxThreadsPerBlock;
    properties.threads_per_multiprocessor_max = found.maxThreadsPerMultiProcessor;
    properties.blocks_per_multiprocessor_max = found.maxBlocksPerMultiProcessor;
    properties.registers_per_multiprocessor = found.regsPerMultiprocessor;
    properties.copy_engines = found.asyncEngineCount;
    properties.shared_bytes_per_block = found.sharedMemPerBlock;
    properties.shared_bytes_per_block_optin = found.sharedMemPerBlockOptin;
    properties.shared_bytes_per_multiprocessor = found.sharedMemPerMultiprocessor;
    properties.l2_bytes = static_cast<uint64_t>(found.l2CacheSize);
    properties.memory_bytes = found.totalGlobalMem;
    return properties;
}

uint64_t limit_of(const DeviceProperties& properties, uint64_t asked_bytes) {
    if (asked_bytes > 0) return std::min(asked_bytes, properties.memory_bytes);
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    SPILLWAY_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    const auto threads = static_cast<uint64_t>(properties.multiprocessors) *
                         static_cast<uint64_t>(properties.threads_per_multiprocessor_max);
    const uint64_t reserve_bytes = kDriverReserveBytes + threads * kLocalBytesPerThread;
    return free_bytes > reserve_bytes ? free_bytes - reserve_bytes : 0;
}

}  // namespace

Device::Device(int ordinal, uint64_t memory_limit_bytes, uint64_t staging_limit_bytes,
               std::optional<HostPlacement> staging_placement)
    : properties_(open(ordinal)) {
    stream_ = std::make_unique<Stream>();  // before the memory is looked at: it creates the rest of the context
    memory_ = std::make_unique<MemoryPool>(ordinal, limit_of(properties_, memory_limit_bytes));
    staging_ = std::make_unique<StagingPool>(ordinal, staging_limit_bytes, staging_placement);
}

Device::~Device() {
    // Nothing may still use the pools' memory, nor the stream.
    if (try_set_device(properties_.ordinal)) discard(cudaDeviceSynchronize());
}

MemoryPool& Device::memory() {
    make_current();
    return *memory_;
}

StagingPool& Device::staging() {
    make_current();
    return *staging_;
}

cudaStream_t Device::stream() {
    make_current();
    return stream_->get();
}

void Device::make_current() {
    set_device(properties_.ordinal);
}

void Device::synchronize() {
    make_current();
    stream_->synchronize();
}

}}  // namespace spillway::cuda::device
