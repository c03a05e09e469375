// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "api/error.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace stream {

// Sources and sinks may go as soon as an operator has thrown: before that it waits for copies from and to their memory.
template <class Work>
void StreamOperator::settled(const Work& work) {
    device_.make_current();
    try {
        work();
    } catch (...) {
        if (try_set_device(device_.ordinal())) discard(cudaDeviceSynchronize());
        throw;
    }
}

void ResultSink::take(const std::vector<const void*>&, uint64_t) {
    throw Error(ErrorCode::kInternal, "a sink outside of the GPU is to take rows there");
}

void ResultSink::take_sums(uint64_t, const std::vector<ExactSum>&) {
    throw Error(ErrorCode::kInternal, "a sink that wants rows is to take sums of them");
}

void StreamOperator::add_sums(uint64_t, const std::vector<ExactSum>&) {
    throw Error(ErrorCode::kInternal, "an operator that needs rows is to take sums of them");
}

void StreamOperator::run(int input, ChunkSource& source, ResultSink* sink) {
    begin(input, source, sink);
    settled([&] {
        for (;;) {
            Chunk chunk;
            if (!source.next(chunk)) break;
            read(chunk);
        }
        end_input();
    });
}

void StreamOperator::begin(int input, ChunkOwner& owner, ResultSink* sink) {
    settled([&] { begin_input(input, owner, sink); });
}

void StreamOperator::push(const Chunk& chunk) {
    settled([&] { read(chunk); });
}

void StreamOperator::end() {
    settled([&] { end_input(); });
}

void check_sizes(const StreamSizes& sizes) {
    if (sizes.radix_bits < 0 || sizes.radix_bits > kFirstPassBitsMax) {
        refuse("a first pass has 0 to " + std::to_string(kFirstPassBitsMax) + " radix bits");
    }
    if (sizes.chunk_rows == 0) refuse("chunks have at least a row");
}

void take_working_memory(Device& device, uint64_t planned_bytes, uint64_t before_bytes) {
    MemoryPool& memory = device.memory();
    const uint64_t used_bytes = memory.used_bytes() - before_bytes;
    const uint64_t rest_bytes = planned_bytes - std::min(planned_bytes, used_bytes);
    const bool peak_is_now = memory.peak_bytes() == memory.used_bytes();
    memory.allocate(std::min(rest_bytes, memory.free_bytes()), "chunks").reset();
    if (peak_is_now) memory.reset_peak();  // it was not used
}

}}  // namespace spillway::cuda::stream
