// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "gpu_test.hpp"

// Memory of every tier that kernels can write to, with guards around it.
namespace spillway::gpu_test {

enum class FarTier { kDevice, kHost, kPeer };

inline const char* tier_name(FarTier tier) {
    return tier == FarTier::kDevice ? "device memory" : tier == FarTier::kHost ? "host memory" : "a peer's memory";
}

inline constexpr const char* kNoPeer = "this machine has no second GPU that the first one reaches";

// Another GPU whose memory the test device reaches; -1: there is none.
inline int peer_ordinal() {
    static const int peer = [] {
        int devices = 0;
        CHECK_CUDA(cudaGetDeviceCount(&devices));
        const int own = test_device().ordinal();
        for (int other = 0; other < devices; ++other) {
            int reaches = 0;
            if (other != own) CHECK_CUDA(cudaDeviceCanAccessPeer(&reaches, own, other));
            if (reaches == 0) continue;
            test_device().make_current();
            const cudaError_t enabled = cudaDeviceEnablePeerAccess(other, 0);
            if (enabled == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
            if (enabled == cudaSuccess || enabled == cudaErrorPeerAccessAlreadyEnabled) return other;
            cudaGetLastError();
        }
        return -1;
    }();
    return peer;
}

inline std::vector<FarTier> far_tiers() {
    std::vector<FarTier> tiers = {FarTier::kDevice, FarTier::kHost};
    if (peer_ordinal() >= 0) {
        tiers.push_back(FarTier::kPeer);
    } else {
        leave_out(kNoPeer);
    }
    return tiers;
}

// The peer is the current device while this lives, where it is asked for.
class OnPeer {
  public:
    explicit OnPeer(bool wanted) {
        if (wanted) CHECK_CUDA(cudaSetDevice(peer_ordinal()));
    }
    ~OnPeer() { cudaSetDevice(test_device().ordinal()); }
    OnPeer(const OnPeer&) = delete;
    OnPeer& operator=(const OnPeer&) = delete;
};

class FarMemory {
  public:
    static constexpr uint64_t kGuardBytes = 4096;
    static constexpr uint8_t kFill = 0xa5;

    FarMemory(FarTier tier, uint64_t bytes) : tier_(tier), bytes_(bytes) {
        const uint64_t all_bytes = bytes + 2 * kGuardBytes;
        void* memory = nullptr;
        if (tier == FarTier::kHost) {
            CHECK_CUDA(cudaHostAlloc(&memory, all_bytes, cudaHostAllocPortable | cudaHostAllocMapped));
        } else {
            const OnPeer switched(tier == FarTier::kPeer);
            CHECK_CUDA(cudaMalloc(&memory, all_bytes));
        }
        memory_ = static_cast<char*>(memory);
        clear();
    }
    ~FarMemory() { tier_ == FarTier::kHost ? cudaFreeHost(memory_) : cudaFree(memory_); }
    FarMemory(const FarMemory&) = delete;
    FarMemory& operator=(const FarMemory&) = delete;

    char* data() const { return memory_ + kGuardBytes; }
    uint64_t bytes() const { return bytes_; }

    void clear() {
        CHECK_CUDA(cudaDeviceSynchronize());
        if (tier_ == FarTier::kHost) {
            std::memset(memory_, kFill, bytes_ + 2 * kGuardBytes);
            return;
        }
        const OnPeer switched(tier_ == FarTier::kPeer);
        CHECK_CUDA(cudaMemset(memory_, kFill, bytes_ + 2 * kGuardBytes));
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    void put(const void* from, uint64_t bytes) {
        if (bytes > 0) CHECK_CUDA(cudaMemcpy(data(), from, bytes, cudaMemcpyDefault));
        CHECK_CUDA(cudaDeviceSynchronize());
    }

    // A copy to look at: take() brings a row and leaves the filling in its place, so that a row that two partitions
    // claim is found as well as bytes that belong to no row.
    void look() {
        copy_.resize(bytes_ + 2 * kGuardBytes);
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK_CUDA(cudaMemcpy(copy_.data(), memory_, copy_.size(), cudaMemcpyDefault));
    }
    bool has(const char* address) const { return address >= data() && address < data() + bytes_; }
    void take(const char* address, void* row, uint64_t row_bytes) {
        std::memcpy(row, copy_.data() + (address - memory_), row_bytes);
        forget(address, row_bytes);
    }
    void forget(const char* address, uint64_t bytes) { std::memset(copy_.data() + (address - memory_), kFill, bytes); }
    // The first byte is the filling, and each the same as the one before it.
    bool is_untouched() const {
        return copy_[0] == kFill && std::memcmp(copy_.data(), copy_.data() + 1, copy_.size() - 1) == 0;
    }

  private:
    const FarTier tier_;
    const uint64_t bytes_;
    char* memory_ = nullptr;
    std::vector<uint8_t> copy_;
};

}  // namespace spillway::gpu_test
