// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/error.hpp"
#include "stream_memory.hpp"

namespace spillway::gpu_bench {

namespace {

constexpr uint64_t kHugePageBytes = 2ULL << 20;
constexpr uint64_t kSmallPageBytes = 4096;

// The system clears pages as they are touched, on the thread that does it.
void touch(char* data, uint64_t bytes) {
    const uint64_t count = std::max(1U, std::min(32U, std::thread::hardware_concurrency()));
    const uint64_t part_bytes = (bytes / count + kHugePageBytes) / kHugePageBytes * kHugePageBytes;
    std::vector<std::thread> threads;
    for (uint64_t begin = 0; begin < bytes; begin += part_bytes) {
        threads.emplace_back([=] {
            const uint64_t end = std::min(bytes, begin + part_bytes);
            for (uint64_t at = begin; at < end; at += kSmallPageBytes) static_cast<volatile char*>(data)[at] = 0;
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace

FarMemory FarMemory::on_host(uint64_t bytes) {
    FarMemory memory;
    const uint64_t whole_bytes = std::max<uint64_t>(1, (bytes + kHugePageBytes - 1) / kHugePageBytes) * kHugePageBytes;
    const uint64_t mapped_bytes = whole_bytes + kHugePageBytes;
    void* const mapping = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        throw cuda::Error(cuda::ErrorCode::kOutOfMemory,
                          "the system refused " + std::to_string(bytes) + " bytes of host memory");
    }
    memory.mapping_ = mapping;
    memory.mapped_bytes_ = mapped_bytes;
    const auto address = reinterpret_cast<uintptr_t>(mapping);
    memory.data_ = reinterpret_cast<void*>((address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
    // Without huge pages everything works, and takes longer.
    madvise(memory.data_, whole_bytes, MADV_HUGEPAGE);
    touch(static_cast<char*>(memory.data_), whole_bytes);
    SPILLWAY_CUDA_CHECK(cudaHostRegister(memory.data_, whole_bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
    memory.registered_ = true;
    void* seen_by_device = nullptr;
    SPILLWAY_CUDA_CHECK(cudaHostGetDevicePointer(&seen_by_device, memory.data_, 0));
    if (seen_by_device == memory.data_) return memory;
    throw cuda::Error(cuda::ErrorCode::kInvalid, "kernels of this device have other addresses for host memory");
}

FarMemory FarMemory::on_peer(uint64_t bytes, int ordinal, int peer) {
    int reaches = 0;
    SPILLWAY_CUDA_CHECK(cudaDeviceCanAccessPeer(&reaches, ordinal, peer));
    if (reaches == 0) {
        throw cuda::Error(cuda::ErrorCode::kInvalid, "device " + std::to_string(ordinal) +
                                                         " cannot reach the memory of device " + std::to_string(peer));
    }
    FarMemory memory;
    memory.ordinal_ = ordinal;
    cuda::set_device(peer);
    SPILLWAY_CUDA_CHECK(cudaMalloc(&memory.data_, std::max<uint64_t>(1, bytes)));
    memory.peer_ = peer;
    cuda::set_device(ordinal);
    const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
        cuda::discard(status);
    } else {
        SPILLWAY_CUDA_CHECK(status);
    }
    return memory;
}

FarMemory& FarMemory::operator=(FarMemory&& other) noexcept {
    if (this == &other) return *this;
    reset();
    data_ = std::exchange(other.data_, nullptr);
    mapping_ = std::exchange(other.mapping_, nullptr);
    mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
    registered_ = std::exchange(other.registered_, false);
    ordinal_ = other.ordinal_;
    peer_ = std::exchange(other.peer_, -1);
    return *this;
}

void FarMemory::reset() noexcept {
    if (registered_) cuda::discard(cudaHostUnregister(data_));
    if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
    if (peer_ >= 0 && cuda::try_set_device(peer_)) {
        cuda::discard(cudaFree(data_));
        cuda::try_set_device(ordinal_);
    }
    data_ = nullptr;
    mapping_ = nullptr;
    registered_ = false;
    peer_ = -1;
}

}  // namespace spillway::gpu_bench
