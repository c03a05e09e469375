// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_device.hpp"

#include <map>
#include <mutex>
#include <string>

#include "cuda/api/plugin.h"
#include "device/gpu_error.hpp"
#include "device/gpu_probe.hpp"

namespace spillway {

namespace {

// Why the trial of a device failed, empty = it did not. Callers that come meanwhile wait for the same trial.
std::string trial_of(int ordinal) {
    static std::mutex mutex;
    static std::map<int, std::string> reasons;
    std::lock_guard<std::mutex> lock(mutex);
    const auto known = reasons.find(ordinal);
    if (known != reasons.end()) return known->second;
    return reasons.emplace(ordinal, probe_open(gpu_plugin_folder(), ordinal, kProbeLimitMs)).first->second;
}

}  // namespace

namespace detail {

OpenGpu::OpenGpu(const GpuPlugin& plugin, int device, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes)
    : functions(plugin.functions()), ordinal(device) {
    spillway_cuda_status status{};
    functions.open_device(ordinal, memory_limit_bytes, pinned_limit_bytes, &gpu, &status);
    check_gpu(status, ordinal, GpuCall::kOpening);
}

OpenGpu::~OpenGpu() {
    // Nothing of the device is left that it could refuse for.
    spillway_cuda_status ignored{};
    functions.close_device(gpu, &ignored);
}

template <>
void GpuOwned<spillway_cuda_buffer>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.free_buffer(std::exchange(handle_, nullptr));
    open_.reset();
}

template <>
void GpuOwned<spillway_cuda_pinned>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.free_pinned(std::exchange(handle_, nullptr));
    open_.reset();
}

template <>
void GpuOwned<spillway_cuda_transfer>::reset() noexcept {
    spillway_cuda_status ignored{};
    if (handle_ != nullptr) open_->functions.wait(std::exchange(handle_, nullptr), &ignored);
    open_.reset();
}

}  // namespace detail

void GpuTransfer::wait() {
    if (handle_ == nullptr) return;
    spillway_cuda_status status{};
    open_->functions.wait(std::exchange(handle_, nullptr), &status);
    check_gpu(status, open_->ordinal);
}

GpuDevice GpuDevice::open(int ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes) {
    const std::string reason = trial_of(ordinal);
    if (!reason.empty()) throw Error(ErrorCode::kNoDevice, reason, {{"device", std::to_string(ordinal)}});
    return GpuDevice(GpuPlugin::instance(), ordinal, memory_limit_bytes, pinned_limit_bytes);
}

GpuDevice::GpuDevice(const GpuPlugin& plugin, int ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes)
    : open_(std::make_shared<detail::OpenGpu>(plugin, ordinal, memory_limit_bytes, pinned_limit_bytes)) {}

GpuPeer GpuDevice::open_peer(int peer_ordinal, uint64_t memory_limit_bytes) {
    spillway_cuda_status status{};
    spillway_cuda_peer peer{};
    functions().open_peer(handle(), peer_ordinal, memory_limit_bytes, &peer, &status);
    check_gpu(status, ordinal(), GpuCall::kOpening);
    return {peer.memory_bytes, peer.read_bytes_per_ms, peer.write_bytes_per_ms};
}

GpuMemory GpuDevice::memory() const {
    spillway_cuda_memory told{};
    spillway_cuda_status status{};
    functions().memory_info(handle(), &told, &status);
    check_gpu(status, ordinal());
    GpuMemory memory;
    memory.used_bytes = told.used_bytes;
    memory.peak_bytes = told.peak_bytes;
    memory.limit_bytes = told.limit_bytes;
    memory.free_bytes = told.free_bytes;
    memory.reserved_bytes = told.reserved_bytes;
    memory.pinned_used_bytes = told.pinned_used_bytes;
    memory.pinned_peak_bytes = told.pinned_peak_bytes;
    memory.pinned_limit_bytes = told.pinned_limit_bytes;
    memory.pinned_reserved_bytes = told.pinned_reserved_bytes;
    return memory;
}

void GpuDevice::reset_peak() {
    functions().reset_peak(handle());
}

void GpuDevice::trim() {
    spillway_cuda_status status{};
    functions().trim(handle(), &status);
    check_gpu(status, ordinal());
}

void GpuDevice::set_cancelled(bool cancelled) noexcept {
    functions().set_cancelled(handle(), cancelled ? 1 : 0);
}

void GpuDevice::synchronize() {
    spillway_cuda_status status{};
    functions().synchronize(handle(), &status);
    check_gpu(status, ordinal());
}

GpuBuffer GpuDevice::allocate(uint64_t bytes, const char* purpose) {
    spillway_cuda_status status{};
    spillway_cuda_buffer* block = nullptr;
    uint64_t address = 0;
    functions().allocate(handle(), bytes, purpose, &block, &address, &status);
    check_gpu(status, ordinal());
    GpuBuffer buffer(open_, block);
    buffer.bytes_ = bytes;
    buffer.address_ = address;
    return buffer;
}

PinnedBlock GpuDevice::allocate_pinned(uint64_t bytes, const char* purpose) {
    spillway_cuda_status status{};
    spillway_cuda_pinned* block = nullptr;
    void* data = nullptr;
    functions().allocate_pinned(handle(), bytes, purpose, &block, &data, &status);
    check_gpu(status, ordinal());
    PinnedBlock pinned(open_, block);
    pinned.bytes_ = bytes;
    pinned.data_ = data;
    return pinned;
}

GpuTransfer GpuDevice::upload(GpuBuffer& to, uint64_t offset_bytes, const void* from, uint64_t bytes) {
    spillway_cuda_status status{};
    spillway_cuda_transfer* transfer = nullptr;
    functions().upload(handle(), to.handle_, offset_bytes, from, bytes, &transfer, &status);
    check_gpu(status, ordinal());
    return GpuTransfer(open_, transfer);
}

GpuTransfer GpuDevice::download(void* to, const GpuBuffer& from, uint64_t offset_bytes, uint64_t bytes) {
    spillway_cuda_status status{};
    spillway_cuda_transfer* transfer = nullptr;
    functions().download(handle(), to, from.handle_, offset_bytes, bytes, &transfer, &status);
    check_gpu(status, ordinal());
    return GpuTransfer(open_, transfer);
}

}  // namespace spillway
