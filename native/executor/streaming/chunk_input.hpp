// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transfer/source.hpp"
#include "transfer/source_stream.hpp"

namespace spillway {

// What an operator beyond GPU memory reads.
struct ChunkInput {
    Source* source = nullptr;        // its rows, or only the columns of a stream
    SourceStream* stream = nullptr;  // the rows, where nobody knows how many there are; else nullptr
};

// So many slots serve chunks of an input: a small relation has no use for all.
inline uint64_t useful_slots(const ChunkInput& input, uint64_t slots, uint64_t chunk_rows) {
    if (input.stream != nullptr) return slots;
    return std::min(slots, static_cast<uint64_t>(input.source->rows()) / chunk_rows + 1);
}

}  // namespace spillway
