// SPDX-License-Identifier: Apache-2.0
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

const std::vector<uint64_t>& StreamOperator::partition_rows() const {
    static const std::vector<uint64_t> none;
    return none;
}

}}  // namespace spillway::cuda::stream
