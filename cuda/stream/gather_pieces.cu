// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/error.hpp"
#include "device/launch.hpp"
#include "stream/gather_pieces.hpp"
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

}}  // namespace spillway::cuda::stream
