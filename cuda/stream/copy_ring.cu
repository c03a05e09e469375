// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device/host_placement.hpp"
#include "stream/copy_ring.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// Programs for compute-sanitizer's initcheck have single copies: it takes what a batch has written for memory that
// nobody has.
#if CUDART_VERSION >= 13000 && !defined(SPILLWAY_CUDA_PLAIN_COPIES)
#define SPILLWAY_CUDA_BATCHED_COPIES 1
#else
#define SPILLWAY_CUDA_BATCHED_COPIES 0
#endif

// One call for all. false: the driver has none.
bool copy_batch(const CopyPieces& copies, cudaStream_t stream) {
#if SPILLWAY_CUDA_BATCHED_COPIES
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
    const std::vector<const void*> to(copies.to.begin(), copies.to.end());
    const cudaError_t status =
        cudaMemcpyBatchAsync(const_cast<const void**>(to.data()), const_cast<const void**>(copies.from.data()),
                             copies.bytes.data(), copies.count(), &attributes, &first, 1, stream);
    if (status == cudaErrorNotSupported || status == cudaErrorCallRequiresNewerDriver) {
        discard(status);
        return false;
    }
    check(status, "cudaMemcpyBatchAsync");
    return true;
#else
    static_cast<void>(copies);
    static_cast<void>(stream);
    return false;
#endif
}

}  // namespace

// Memory that is not pinned is left to the copies that have always taken it.
CopyRing::CopyRing(Device& device, uint32_t slots, uint64_t slot_bytes)
    : device_(device),
      slot_bytes_(slot_bytes),
      stream_(StreamPriority::kUrgent),
      pinned_(device.staging().placement() == HostPlacement::kPinned),
      can_batch_(SPILLWAY_CUDA_BATCHED_COPIES != 0 && pinned_) {
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
    count(offset, bytes);
    device_.make_current();
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(data(slot) + offset, from, bytes, cudaMemcpyDefault, stream_.get()));
}

void CopyRing::copy_together(uint32_t slot, uint64_t offset, const void* from, uint64_t bytes, bool from_host) {
    if (bytes == 0) return;
    count(offset, bytes);
    together_.add(data(slot) + offset, from, bytes, from_host && pinned_);
    const uint64_t most = together_.are_small() ? kSmallPiecesTogether : kCopiesTogether;
    if (together_.count() >= most) enqueue_together();
}

void CopyRing::count(uint64_t offset, uint64_t bytes) {
    if (offset + bytes > slot_bytes_) throw Error(ErrorCode::kInternal, "a chunk is larger than its slot");
    copied_bytes_ += bytes;
}

void CopyRing::enqueue_together() {
    const CopyPieces copies = std::exchange(together_, {});
    if (copies.count() == 0) return;
    device_.make_current();
    if (copies.are_small() && can_gather(copies)) return gather_pieces(copies, stream_.get());
    if (can_batch_ && copies.count() > 1) {
        can_batch_ = copy_batch(copies, stream_.get());
        if (can_batch_) return;
    }
    for (size_t i = 0; i < copies.count(); ++i) {
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(copies.to[i], copies.from[i], copies.bytes[i], cudaMemcpyDefault, stream_.get()));
    }
}

void CopyRing::filled(uint32_t slot) {
    enqueue_together();
    slots_[slot].copied.record(stream_.get());
}

void CopyRing::wait_on_device(uint32_t slot) {
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), slots_[slot].copied.get(), 0));
}

void CopyRing::emptied(uint32_t slot) {
    slots_[slot].emptied.record(device_.stream());
}

}}  // namespace spillway::cuda::stream
