// SPDX-License-Identifier: Apache-2.0
#include "out_of_core/copy_ring.hpp"

namespace spillway::cuda {

CopyRing::CopyRing(Device& device, uint32_t slots, uint64_t slot_bytes) : device_(device), slot_bytes_(slot_bytes) {
    if (slots < 2) throw Error(ErrorCode::kInvalid, "a ring of chunks has two slots at least");
    slots_.resize(slots);
    for (Slot& slot : slots_) slot.memory = device.memory().allocate(slot_bytes, "chunks on their way");
    // The blocks may have been used by what the device still has to do.
    stream_.wait_for(device.stream());
}

CopyRing::~CopyRing() {
    try {
        stream_.synchronize();
    } catch (const Error&) {  // a lost device copies nothing any more
    }
}

uint32_t CopyRing::take() {
    const uint32_t slot = next_;
    next_ = (next_ + 1) % slots();
    if (slots_[slot].used) stream_.wait(slots_[slot].emptied);
    slots_[slot].used = true;
    return slot;
}

void CopyRing::copy(uint32_t slot, uint64_t offset, const void* from, uint64_t bytes) {
    if (bytes == 0) return;
    if (offset + bytes > slot_bytes_) throw Error(ErrorCode::kInternal, "a chunk is larger than its slot");
    device_.make_current();
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(data(slot) + offset, from, bytes, cudaMemcpyDefault, stream_.get()));
    copied_bytes_ += bytes;
}

void CopyRing::filled(uint32_t slot) {
    slots_[slot].copied.record(stream_.get());
}

void CopyRing::wait_on_device(uint32_t slot) {
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), slots_[slot].copied.get(), 0));
}

void CopyRing::emptied(uint32_t slot) {
    slots_[slot].emptied.record(device_.stream());
}

}  // namespace spillway::cuda
