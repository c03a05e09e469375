// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "coherent_join/row_gatherer.hpp"
#include "device/launch.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

// Reads each row once, from far memory or near, and writes it once to near memory. A block takes one copy after the
// other, a page each at most, so that all have about as much to do. Words as wide as rows are aligned; row_words: of
// such words.
template <class Word>
__global__ void __launch_bounds__(kGatherThreads)
    gather_rows_kernel(const Word* from, Word* to, uint32_t row_words, const RowCopy* copies, uint64_t count) {
    for (uint64_t c = blockIdx.x; c < count; c += gridDim.x) {
        const RowCopy copy = copies[c];
        const uint64_t words = copy.rows * row_words;
        const Word* const source = from + copy.from * row_words;
        Word* const target = to + copy.to * row_words;
        uint64_t i = threadIdx.x;
        // Several loads under way, as each takes some microseconds.
        for (; i + (kGatherLoads - 1) * kGatherThreads < words; i += kGatherLoads * kGatherThreads) {
            Word held[kGatherLoads];
#pragma unroll
            for (uint32_t n = 0; n < kGatherLoads; ++n) held[n] = source[i + n * kGatherThreads];
#pragma unroll
            for (uint32_t n = 0; n < kGatherLoads; ++n) target[i + n * kGatherThreads] = held[n];
        }
        for (; i < words; i += kGatherThreads) target[i] = source[i];
    }
}

template <class Word>
void launch_gather(dim3 grid, uint64_t shared_bytes, cudaStream_t stream, const char* from, uint32_t* to,
                   uint32_t row_words, const RowCopy* copies, uint64_t count) {
    launch(gather_rows_kernel<Word>, grid, dim3(kGatherThreads), shared_bytes, stream,
           reinterpret_cast<const Word*>(from), reinterpret_cast<Word*>(to),
           static_cast<uint32_t>(row_words * sizeof(uint32_t) / sizeof(Word)), copies, count);
}

uint32_t grid_for(const Device& device, uint32_t wanted) {
    if (wanted > 0) return wanted;
    const auto multiprocessors = static_cast<uint32_t>(device.properties().multiprocessors);
    return std::max(1U, multiprocessors / kGatherMultiprocessorShare);
}

}  // namespace

RowGatherer::RowGatherer(Device& device, uint32_t grid, bool alone)
    : device_(device),
      grid_(grid_for(device, grid)),
      shared_bytes_(alone ? device.properties().shared_bytes_per_block_optin : 0),
      timer_(stream_.get()) {}

RowGatherer::~RowGatherer() {
    // Not for the slots' events: where one could not be recorded, the copies before it are under way all the same. A
    // lost device copies nothing any more.
    discard(cudaStreamSynchronize(stream_.get()));
}

const RowCopy* RowGatherer::send(Slot& slot, const std::vector<RowCopy>& copies) {
    const uint64_t bytes = copies.size() * sizeof(RowCopy);
    if (slot.host.bytes() < bytes) {
        slot.host.reset();
        slot.device.reset();
        slot.host = device_.staging().allocate(bytes + bytes / 2, "lists of rows to be gathered");
        slot.device = device_.memory().allocate(bytes + bytes / 2, "lists of rows to be gathered");
    }
    std::memcpy(slot.host.as(), copies.data(), bytes);
    // Behind the last user of the list's memory, and of the memory that is written.
    join_streams(device_.stream(), stream_.get(), joint_);
    // Nothing else goes into the device by a copy engine, so that it waits for nothing.
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(slot.device.as(), slot.host.as(), bytes, cudaMemcpyHostToDevice, stream_.get()));
    return slot.device.as<const RowCopy>();
}

uint32_t RowGatherer::gather(const char* from, uint32_t* to, uint32_t row_words, const std::vector<RowCopy>& copies) {
    const uint32_t ticket = next_;
    next_ = (next_ + 1) % slots_.size();
    Slot& slot = slots_[ticket];
    slot.gathered.synchronize();  // of its last use, which was joined long ago
    if (!copies.empty()) {
        const RowCopy* const list = send(slot, copies);
        const dim3 grid(static_cast<unsigned>(std::min<uint64_t>(grid_, copies.size())));
        const auto launch_by = row_words % 4 == 0   ? launch_gather<uint4>
                               : row_words % 2 == 0 ? launch_gather<uint2>
                                                    : launch_gather<uint32_t>;
        timer_.begin("gather");
        launch_by(grid, shared_bytes_, stream_.get(), from, to, row_words, list, copies.size());
        timer_.end();
    }
    slot.gathered.record(stream_.get());
    return ticket;
}

void RowGatherer::wait_on_device(uint32_t ticket) {
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), slots_[ticket].gathered.get(), 0));
}

}}  // namespace spillway::cuda::coherent_join
