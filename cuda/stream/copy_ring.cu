// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/error.hpp"
#include "device/host_placement.hpp"
#include "device/launch.hpp"
#include "stream/copy_ring.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// A parameter of the kernel rather than memory that it reads: a list of its own would have to stay until the kernel has
// run, and be read over the link before the first piece.
struct PieceList {
    const uint4* from[kSmallPiecesTogether];
    uint32_t first[kSmallPiecesTogether + 1];  // words before each piece, then of all
    uint32_t count;
};
static_assert(sizeof(PieceList) + sizeof(uint4*) <= 4096, "what parameters of a kernel may take");
static_assert(kSmallPiecesTogether * kSmallPieceBytes <= UINT32_MAX, "words are counted in 32 bits");

// The last piece that begins at or before the word.
__device__ uint32_t piece_of(const uint32_t* first, uint32_t count, uint32_t word) {
    uint32_t low = 0;
    uint32_t high = count;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (first[middle] <= word ? low : high) = middle;
    }
    return low;
}

// Each thread has kPieceWords reads on their way at a time: the link's latency, some 1.5 us, times its rate is 80 KB.
__global__ void __launch_bounds__(kPieceThreads)
    gather_words(const __grid_constant__ PieceList pieces, uint4* __restrict__ to) {
    __shared__ const uint4* from[kSmallPiecesTogether];
    __shared__ uint32_t first[kSmallPiecesTogether + 1];
    for (uint32_t i = threadIdx.x; i <= pieces.count; i += blockDim.x) {
        if (i < pieces.count) from[i] = pieces.from[i];
        first[i] = pieces.first[i];
    }
    __syncthreads();
    const uint32_t words = first[pieces.count];
    const uint32_t block_words = kPieceThreads * kPieceWords;
    for (uint32_t begin = blockIdx.x * block_words; begin < words; begin += gridDim.x * block_words) {
        uint4 read[kPieceWords];
        uint32_t piece = piece_of(first, pieces.count, begin + threadIdx.x);
#pragma unroll
        for (uint32_t k = 0; k < kPieceWords; ++k) {
            const uint32_t word = begin + k * kPieceThreads + threadIdx.x;
            if (word >= words) break;
            while (first[piece + 1] <= word) ++piece;
            read[k] = from[piece][word - first[piece]];
        }
#pragma unroll
        for (uint32_t k = 0; k < kPieceWords; ++k) {
            const uint32_t word = begin + k * kPieceThreads + threadIdx.x;
            if (word < words) to[word] = read[k];
        }
    }
}

bool is_aligned(const void* data) {
    return reinterpret_cast<uintptr_t>(data) % sizeof(uint4) == 0;
}

}  // namespace

void CopyPieces::add(void* piece_to, const void* piece_from, uint64_t piece_bytes, bool piece_from_host) {
    to.push_back(piece_to);
    from.push_back(piece_from);
    bytes.push_back(piece_bytes);
    total_bytes += piece_bytes;
    from_host = from_host && piece_from_host;
}

bool CopyPieces::are_small() const {
    return total_bytes < count() * kSmallPieceBytes;
}

bool can_gather(const CopyPieces& pieces) {
    if (!pieces.from_host || pieces.count() == 0 || pieces.count() > kSmallPiecesTogether) return false;
    const uint8_t* next = static_cast<const uint8_t*>(pieces.to[0]);
    if (!is_aligned(next)) return false;
    for (size_t i = 0; i < pieces.count(); ++i) {
        if (pieces.to[i] != next || !is_aligned(pieces.from[i]) || pieces.bytes[i] % sizeof(uint4) != 0) return false;
        next += pieces.bytes[i];
    }
    return true;
}

void gather_pieces(const CopyPieces& pieces, cudaStream_t stream) {
    if (!can_gather(pieces) || !pieces.are_small()) throw Error(ErrorCode::kInternal, "pieces that no kernel gathers");
    PieceList list{};
    for (size_t i = 0; i < pieces.count(); ++i) {
        list.from[i] = static_cast<const uint4*>(pieces.from[i]);
        list.first[i + 1] = list.first[i] + static_cast<uint32_t>(pieces.bytes[i] / sizeof(uint4));
    }
    list.count = static_cast<uint32_t>(pieces.count());
    const uint32_t block_words = kPieceThreads * kPieceWords;
    const uint32_t blocks = std::min((list.first[list.count] + block_words - 1) / block_words, kPieceBlocks);
    launch(gather_words, dim3(blocks), dim3(kPieceThreads), 0, stream, list, static_cast<uint4*>(pieces.to[0]));
}

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

void CopyRing::copy_packed(uint32_t slot, uint64_t offset, const void* from, const PackedBlock* blocks, uint64_t bytes,
                           uint32_t width) {
    if (bytes == 0) return;
    count(offset, bytes);
    copied_bytes_ -= bytes;
    const uint64_t values = bytes / width;
    const uint64_t all = (values + kPackedValues - 1) / kPackedValues * packed_planes(width);
    for (uint64_t b = 0; b < all; ++b) copied_bytes_ += packed_bytes(blocks[b].bits) + sizeof(PackedBlock);
    // Kernels that pack write there, those that unpack do not.
    auto* const host = static_cast<uint8_t*>(const_cast<void*>(from));
    packed_.push_back({data(slot) + offset, host, const_cast<PackedBlock*>(blocks), bytes, width});
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
    unpacked_bytes_ += bytes;
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

void CopyRing::set(uint32_t slot, uint64_t offset, uint8_t value, uint64_t bytes) {
    if (offset + bytes > slot_bytes_) throw Error(ErrorCode::kInternal, "a chunk is larger than its slot");
    device_.make_current();
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(data(slot) + offset, value, bytes, stream_.get()));
}

void CopyRing::enqueue() {
    if (!packed_.empty()) {
        device_.make_current();
        send_to_device(std::exchange(packed_, {}), stream_.get());
    }
    enqueue_together();
}

void CopyRing::filled(uint32_t slot) {
    enqueue();
    slots_[slot].copied.record(stream_.get());
}

void CopyRing::wait_on_device(uint32_t slot) {
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), slots_[slot].copied.get(), 0));
}

void CopyRing::emptied(uint32_t slot) {
    slots_[slot].emptied.record(device_.stream());
}

}}  // namespace spillway::cuda::stream
