// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/api/stream_spec.hpp"
#include "transfer/source.hpp"
#include "transfer/source_stream.hpp"

namespace spillway {

// What an operator beyond GPU memory reads.
struct ChunkInput {
    Source* source = nullptr;        // its rows, or only the columns of a stream
    SourceStream* stream = nullptr;  // the rows, where nobody knows how many there are; else nullptr
};

// So many slots serve chunks of an input: a small relation has no use for all.
inline uint64_t useful_slots(const ChunkInput& input, const cuda::StreamSizes& sizes) {
    if (input.stream != nullptr) return sizes.host_chunk_slots;
    const uint64_t chunks = static_cast<uint64_t>(input.source->rows()) / sizes.host_chunk_rows + 1;
    return std::min<uint64_t>(sizes.host_chunk_slots, chunks);
}

}  // namespace spillway
