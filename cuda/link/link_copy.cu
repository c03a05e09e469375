// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/error.hpp"
#include "device/launch.hpp"
#include "link/link_copy.hpp"
#include "link/link_policy.hpp"
#include "link/packed_values.cuh"

namespace spillway::cuda { inline namespace link {

namespace {

constexpr uint64_t kTileWords = uint64_t{kLinkThreads} * kLinkLoads;  // of 16 bytes

struct Copies {
    LinkCopy copy[kLinkCopiesMax];
    uint32_t end_tile[kLinkCopiesMax];
    int count = 0;
};
static_assert(sizeof(Copies) <= 4000, "a parameter of a kernel");

// The copy that a tile is of, and which one it is of that.
struct Place {
    int copy;
    uint32_t tile;
};

__device__ Place place_of(const Copies& copies, uint32_t tile) {
    int at = 0;
    while (tile >= copies.end_tile[at]) ++at;
    return {at, at == 0 ? tile : tile - copies.end_tile[at - 1]};
}

// Words of 16 bytes, and with the first and the last of them the bytes before and behind.
__device__ void copy_tile(uint8_t* to, const uint8_t* from, uint64_t bytes, uint32_t tile) {
    const uint32_t thread = threadIdx.x;
    const uint64_t gap = (16 - reinterpret_cast<uint64_t>(to) % 16) % 16;
    const uint64_t head = gap < bytes ? gap : bytes;
    const uint64_t words = (bytes - head) / 16;
    const auto* const in = reinterpret_cast<const uint4*>(from + head);
    auto* const out = reinterpret_cast<uint4*>(to + head);
    const uint64_t first = tile * kTileWords + thread;
    uint4 value[kLinkLoads];
#pragma unroll
    for (int i = 0; i < kLinkLoads; ++i) {
        if (first + i * kLinkThreads < words) value[i] = in[first + i * kLinkThreads];
    }
#pragma unroll
    for (int i = 0; i < kLinkLoads; ++i) {
        if (first + i * kLinkThreads < words) out[first + i * kLinkThreads] = value[i];
    }
    if (tile == 0 && thread < head) to[thread] = from[thread];
    const uint64_t tail = head + words * 16;
    if ((tile + 1) * kTileWords >= words && thread < bytes - tail) to[tail + thread] = from[tail + thread];
}

// A tile of which a block's threads have asked for what is on the host's side before they come to it.
struct HostTile {
    const LinkCopy* copy = nullptr;  // nullptr: there is none, or what it is of is plain
    uint32_t tile = 0;
    PackedBlock block{};
    PackedWords words{};

    // The header alone: `words` come when it is there, by ask_for_words().
    __device__ HostTile(const Copies& copies, uint64_t number) {
        if (number >= copies.end_tile[copies.count - 1]) return;
        const Place place = place_of(copies, static_cast<uint32_t>(number));
        if (copies.copy[place.copy].blocks == nullptr) return;
        copy = &copies.copy[place.copy];
        tile = place.tile;
        block = copy->blocks[tile];
    }
    __device__ void ask_for_words() {
        if (copy != nullptr) words = load_words(copy->host, block);
    }
};

// Each byte of the host's memory read once, each of the device's written once. While a tile is unpacked, the words of
// the next and the header of the one behind it are on their way: each would else be waited for, some 1.5 us.
__global__ void __launch_bounds__(kLinkThreads) send_tiles(const __grid_constant__ Copies copies) {
    __shared__ StagedWords staged;
    const uint32_t tiles = copies.end_tile[copies.count - 1];
    HostTile now(copies, blockIdx.x);
    HostTile next(copies, uint64_t{blockIdx.x} + gridDim.x);
    now.ask_for_words();
    for (uint64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        if (now.copy != nullptr) store_words(now.words, now.block, staged);
        __syncthreads();
        next.ask_for_words();
        const HostTile behind(copies, number + 2 * uint64_t{gridDim.x});
        if (now.copy != nullptr) {
            const LinkCopy& copy = *now.copy;
            unpack_block(staged, now.block, copy.width, copy.bytes / copy.width, now.tile, copy.device);
        } else {
            const Place place = place_of(copies, static_cast<uint32_t>(number));
            const LinkCopy& copy = copies.copy[place.copy];
            copy_tile(copy.device, copy.host, copy.bytes, place.tile);
        }
        __syncthreads();
        now = next;
        next = behind;
    }
}

// The other way round; of packed values only the words cross the link, and 16 bytes for each block.
__global__ void __launch_bounds__(kLinkThreads) fetch_tiles(const __grid_constant__ Copies copies) {
    const uint32_t tiles = copies.end_tile[copies.count - 1];
    for (uint32_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Place place = place_of(copies, number);
        const LinkCopy& copy = copies.copy[place.copy];
        if (copy.blocks == nullptr) {
            copy_tile(copy.host, copy.device, copy.bytes, place.tile);
        } else {
            pack_block(copy.device, copy.width, copy.bytes / copy.width, place.tile, copy.host, copy.blocks);
        }
    }
}

uint64_t tiles_of(const LinkCopy& copy) {
    if (copy.blocks == nullptr) return std::max<uint64_t>((copy.bytes / 16 + kTileWords - 1) / kTileWords, 1);
    const uint64_t values = copy.bytes / copy.width;
    return (values + kPackedValues - 1) / kPackedValues * packed_planes(copy.width);
}

void launch_all(void (*kernel)(Copies), const std::vector<LinkCopy>& copies, cudaStream_t stream) {
    constexpr uint64_t kTilesMax = uint64_t{1} << 30;
    Copies some;
    uint64_t tiles = 0;
    const auto flush = [&] {
        const uint64_t blocks = std::min<uint64_t>(tiles, kLinkBlocks);
        launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kLinkThreads), 0, stream, some);
        some.count = 0;
        tiles = 0;
    };
    for (const LinkCopy& copy : copies) {
        if (copy.bytes == 0) continue;
        const uint64_t more = tiles_of(copy);
        if (more > kTilesMax) throw Error(ErrorCode::kInvalid, "a copy has more tiles than a kernel counts");
        if (some.count == kLinkCopiesMax || tiles + more > kTilesMax) flush();
        tiles += more;
        some.copy[some.count] = copy;
        some.end_tile[some.count] = static_cast<uint32_t>(tiles);
        ++some.count;
    }
    if (some.count > 0) flush();
}

}  // namespace

void send_to_device(const std::vector<LinkCopy>& copies, cudaStream_t stream) {
    launch_all(send_tiles, copies, stream);
}

void fetch_to_host(const std::vector<LinkCopy>& copies, cudaStream_t stream) {
    launch_all(fetch_tiles, copies, stream);
}

}}  // namespace spillway::cuda::link
