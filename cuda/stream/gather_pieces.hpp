// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::cuda { inline namespace stream {

// Pieces of memory that are copied together, as cudaMemcpyBatchAsync wants them.
struct CopyPieces {
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<size_t> bytes;
    uint64_t total_bytes = 0;
    bool from_host = true;  // all of it pinned memory of the host

    size_t count() const { return bytes.size(); }
    void add(void* piece_to, const void* piece_from, uint64_t piece_bytes, bool piece_from_host);
    // Small ones in the mean, of which a kernel reads more at a time than copy engines do.
    bool are_small() const;
};

// Whether gather_pieces() can take them: from the host, side by side where they go, whole words of 16 bytes, and no
// more than kSmallPiecesTogether.
bool can_gather(const CopyPieces& pieces);

// Enqueues a kernel that reads pieces of pinned host memory over the link and writes them to device memory. Each block
// looks the piece of a word up, so that it is as fast for pieces of 128 bytes as for any.
void gather_pieces(const CopyPieces& pieces, cudaStream_t stream);

}}  // namespace spillway::cuda::stream
