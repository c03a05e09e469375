// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "device/device.hpp"
#include "device/host_memory.hpp"
#include "device/host_placement.hpp"
#include "device/staging.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

void copy_on_this_thread(void* to, const void* from, uint64_t bytes) {
    std::memcpy(to, from, bytes);
}

// For the members that are made on the current device.
Device& made_current(Device& device) {
    device.make_current();
    return device;
}

bool is_pinned_at(const uint8_t* address) {
    cudaPointerAttributes attributes{};
    const cudaError_t status = cudaPointerGetAttributes(&attributes, address);
    discard(status);
    return status == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

bool is_registered_at_host_address(int ordinal) {
    int yes = 0;
    const cudaError_t status = cudaDeviceGetAttribute(&yes, cudaDevAttrCanUseHostPointerForRegisteredMem, ordinal);
    discard(status);
    return status == cudaSuccess && yes != 0;
}

}  // namespace

HostBacking::HostBacking(int ordinal, HostPlacement placement)
    : ordinal_(ordinal),
      placement_(placement),
      plain_(placement == HostPlacement::kPlain ? host_numa_node(ordinal) : 0) {}

void* HostBacking::acquire(uint64_t bytes) {
    set_device(ordinal_);
    return placement_ == HostPlacement::kPlain ? plain_.acquire(bytes) : acquire_pinned(bytes);
}

void* HostBacking::acquire_pinned(uint64_t bytes) {
    if (bytes >= kRegisteredBytesMin) {
        void* const registered = acquire_registered(bytes);
        if (registered != nullptr) return registered;
    }
    void* data = nullptr;
    const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (status == cudaErrorMemoryAllocation) {
        discard(status);
        return nullptr;
    }
    check(status, "cudaHostAlloc");
    return data;
}

// nullptr: the system or the driver does not give memory in this way, for whatever reason; cudaHostAlloc may.
void* HostBacking::acquire_registered(uint64_t bytes) {
    // Kernels are given the host's address, which not all systems let them use for registered memory.
    if (!is_registered_at_host_address(ordinal_) || bytes > available_host_bytes()) return nullptr;
    void* const data = map_host_memory(bytes);
    if (data == nullptr) return nullptr;
    cudaError_t status = cudaErrorMemoryAllocation;
    try {
        registered_.insert(data);
        if (touch_host_memory(data, bytes)) {
            status = cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
        }
    } catch (const std::bad_alloc&) {
    }
    if (status == cudaSuccess) return data;
    registered_.erase(data);
    unmap_host_memory(data, bytes);
    if (is_sticky(status)) check(status, "cudaHostRegister");
    discard(status);
    return nullptr;
}

void HostBacking::settle() noexcept {
    if (!try_set_device(ordinal_)) return;
    const cudaError_t status = cudaDeviceSynchronize();
    discard(status);
    lost_ = lost_ || status != cudaSuccess;
}

void HostBacking::release(void* data, uint64_t bytes) noexcept {
    // The memory of a lost device goes with the process.
    if (!try_set_device(ordinal_)) return;
    if (placement_ == HostPlacement::kPinned) {
        release_pinned(data, bytes);
    } else if (!lost_) {
        // Else the device may still reach it, and its address must not become that of other memory.
        plain_.release(data, bytes);
    }
}

void HostBacking::release_pinned(void* data, uint64_t bytes) noexcept {
    const auto registered = registered_.find(data);
    if (registered == registered_.end()) {
        discard(cudaFreeHost(data));
        return;
    }
    registered_.erase(registered);
    const cudaError_t status = cudaHostUnregister(data);
    discard(status);
    // What the device may still reach stays mapped: its address must not become that of other memory.
    if (status == cudaSuccess) unmap_host_memory(data, bytes);
}

StagingPool::StagingPool(int ordinal, uint64_t limit_bytes, std::optional<HostPlacement> placement)
    : HostBacking(ordinal, placement.value_or(host_placement_of(ordinal))),
      BlockPool(static_cast<HostBacking&>(*this), kPinnedBlockSizes, limit_bytes, Tier::kHost) {}

uint64_t StagingPool::backing_free_bytes() const {
    return limit_bytes();
}

CopyQueue::CopyQueue(Device& device, uint64_t chunk_bytes, HostCopy copy)
    : device_(made_current(device)),
      chunk_bytes_(chunk_bytes),
      copy_(copy ? std::move(copy) : HostCopy(copy_on_this_thread)) {
    if (chunk_bytes == 0) throw Error(ErrorCode::kInvalid, "chunks of staged copies must have at least one byte");
}

CopyQueue::~CopyQueue() {
    // The slots go back to the pool, which hands them out at once: nothing may still be reading or writing them.
    if (try_set_device(device_.ordinal())) discard(cudaStreamSynchronize(stream_.get()));
}

void CopyQueue::follow(cudaStream_t stream) {
    device_.make_current();
    join_streams(stream, stream_.get(), joint_);
}

void CopyQueue::precede(cudaStream_t stream) {
    device_.make_current();
    join_streams(stream_.get(), stream, joint_);
}

void CopyQueue::record(Event& event) {
    device_.make_current();
    event.record(stream_.get());
}

void CopyQueue::wait() {
    device_.make_current();
    stream_.synchronize();
}

void CopyQueue::begin() {
    device_.make_current();
    device_.check_cancelled();
}

void CopyQueue::prepare_slots() {
    for (Slot& slot : slots_) {
        if (!slot.block) slot.block = device_.staging().allocate(chunk_bytes_, "staging of copies");
    }
}

uint64_t CopyQueue::chunk_at(uint64_t offset, uint64_t bytes) const {
    return std::min(chunk_bytes_, bytes - offset);
}

void CopyQueue::enqueue(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind) {
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()));
}

Uploader::Uploader(Device& device, uint64_t chunk_bytes, HostCopy copy)
    : CopyQueue(device, chunk_bytes, std::move(copy)) {
    follow(device.stream());
}

void Uploader::upload(void* device_to, const void* host_from, uint64_t bytes) {
    begin();
    if (bytes > 0) prepare_slots();
    auto* const to = static_cast<uint8_t*>(device_to);
    const auto* const from = static_cast<const uint8_t*>(host_from);
    for (uint64_t offset = 0; offset < bytes; offset += chunk_bytes_) {
        device_.check_cancelled();
        Slot& slot = slots_[next_];
        next_ = (next_ + 1) % slots_.size();
        const uint64_t chunk = chunk_at(offset, bytes);
        slot.copied.synchronize();
        copy_(slot.block.as<void>(), from + offset, chunk);
        enqueue(to + offset, slot.block.as<void>(), chunk, cudaMemcpyHostToDevice);
        slot.copied.record(stream_.get());
    }
}

void Uploader::upload_pinned(void* device_to, const void* pinned_from, uint64_t bytes) {
    begin();
    if (bytes > 0) enqueue(device_to, pinned_from, bytes, cudaMemcpyHostToDevice);
}

Downloader::Downloader(Device& device, uint64_t chunk_bytes, HostCopy copy)
    : CopyQueue(device, chunk_bytes, std::move(copy)) {
    follow(device.stream());
}

void Downloader::download(void* host_to, const void* device_from, uint64_t bytes) {
    begin();
    if (bytes > 0) prepare_slots();
    auto* const to = static_cast<uint8_t*>(host_to);
    const auto* const from = static_cast<const uint8_t*>(device_from);
    const auto slot_of = [this](uint64_t offset) -> Slot& { return slots_[offset / chunk_bytes_ % slots_.size()]; };
    const auto start = [&](uint64_t offset) {
        Slot& slot = slot_of(offset);
        enqueue(slot.block.as<void>(), from + offset, chunk_at(offset, bytes), cudaMemcpyDeviceToHost);
        slot.copied.record(stream_.get());
    };
    if (bytes > 0) start(0);
    for (uint64_t offset = 0; offset < bytes; offset += chunk_bytes_) {
        device_.check_cancelled();
        // Into the other slot, whose bytes the last round has copied out.
        if (bytes - offset > chunk_bytes_) start(offset + chunk_bytes_);
        Slot& slot = slot_of(offset);
        slot.copied.synchronize();
        copy_(to + offset, slot.block.as<void>(), chunk_at(offset, bytes));
    }
}

void Downloader::download_pinned(void* pinned_to, const void* device_from, uint64_t bytes) {
    begin();
    if (bytes > 0) enqueue(pinned_to, device_from, bytes, cudaMemcpyDeviceToHost);
}

bool is_pinned(const void* data, uint64_t bytes) {
    if (data == nullptr || bytes == 0) return false;
    const auto* const first = static_cast<const uint8_t*>(data);
    // Both ends: a range may begin in one pinned block and end outside of it.
    return is_pinned_at(first) && is_pinned_at(first + bytes - 1);
}

}}  // namespace spillway::cuda::device
