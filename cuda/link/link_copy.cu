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
    const uint32_t thread = threadIdx.x % kLinkThreads;
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

// Tiles of a kernel's copies, one for each group of threads at a time: all groups of a block begin and end together.
template <class Use>
__device__ void for_tiles(const Copies& copies, Use use) {
    const uint32_t tiles = copies.end_tile[copies.count - 1];
    const uint32_t group = threadIdx.x / kLinkThreads;
    for (uint32_t first = blockIdx.x * kLinkGroups; first < tiles; first += gridDim.x * kLinkGroups) {
        const uint32_t tile = first + group;
        const bool has_tile = tile < tiles;
        const Place place = has_tile ? place_of(copies, tile) : Place{0, 0};
        use(copies.copy[place.copy], place.tile, has_tile);
    }
}

// Each byte of the host's memory read once, each of the device's written once.
__global__ void __launch_bounds__(kLinkThreads* kLinkGroups) send_tiles(const __grid_constant__ Copies copies) {
    for_tiles(copies, [](const LinkCopy& copy, uint32_t tile, bool has_tile) {
        const bool packed = has_tile && copy.blocks != nullptr;
        if (has_tile && !packed) copy_tile(copy.device, copy.host, copy.bytes, tile);
        unpack_block(copy.host, packed ? copy.blocks + tile : nullptr, copy.width, copy.bytes / copy.width, tile,
                     copy.device);
    });
}

// The other way round; of packed values only the words cross the link, and 16 bytes for each block.
__global__ void __launch_bounds__(kLinkThreads* kLinkGroups) fetch_tiles(const __grid_constant__ Copies copies) {
    for_tiles(copies, [](const LinkCopy& copy, uint32_t tile, bool has_tile) {
        const bool packed = has_tile && copy.blocks != nullptr;
        if (has_tile && !packed) copy_tile(copy.host, copy.device, copy.bytes, tile);
        pack_block(copy.device, copy.width, copy.bytes / copy.width, tile, copy.host, packed ? copy.blocks : nullptr);
    });
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
        const uint64_t blocks = std::min<uint64_t>((tiles + kLinkGroups - 1) / kLinkGroups, kLinkBlocks);
        launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kLinkThreads * kLinkGroups), 0, stream, some);
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
