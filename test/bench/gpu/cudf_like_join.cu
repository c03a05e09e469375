// SPDX-License-Identifier: Apache-2.0
// A stand-in of ours for the hash join of cuDF, none of its code: one table in GPU memory of all build rows, by open
// addressing, which tiles of threads fill and probe; a pass that counts the matches; one that writes pairs of row
// numbers; columns gathered by these. What it has of cuDF (cpp/src/join/hash_join, cuCollections' static_multiset):
// slots of a 32-bit hash and a 32-bit row number, twice as many as rows, Murmur hashes, double hashing by buckets of
// two slots and tiles of two threads, blocks of 128 threads, and pairs that wait in shared memory until many are
// written at once.
#include <stdexcept>

#include "algorithm.hpp"
#include "device/launch.hpp"
#include "materialize/match_pairs.hpp"
#include "primitive/warp.cuh"

namespace spillway::gpu_bench {

namespace cudf_like {

namespace {

constexpr int kThreads = 128;
constexpr int kBlocksPerMultiprocessor = 16;
constexpr int kTileThreads = 2;
constexpr int kBucketSlots = 2;
constexpr int kWindowSlots = kTileThreads * kBucketSlots;  // what a tile looks at in one step
constexpr uint64_t kSlotsPerRow = 2;
constexpr uint64_t kEmpty = ~0ULL;
constexpr uint32_t kBufferPairs = 192;  // of a warp

// 32-bit Murmur3 of the words of a key.
template <class Key>
__host__ __device__ uint32_t hash_of(Key key, uint32_t seed = 0) {
    uint32_t h = seed;
    for (uint32_t w = 0; w < sizeof(Key) / 4; ++w) {
        uint32_t k = static_cast<uint32_t>(static_cast<uint64_t>(key) >> (32 * w)) * 0xcc9e2d51U;
        k = (k << 15 | k >> 17) * 0x1b873593U;
        h ^= k;
        h = (h << 13 | h >> 19) * 5 + 0xe6546b64U;
    }
    h ^= sizeof(Key);
    h = (h ^ h >> 16) * 0x85ebca6bU;
    h = (h ^ h >> 13) * 0xc2b2ae35U;
    return h ^ h >> 16;
}

struct Table {
    uint64_t* slots;
    uint32_t windows;  // a prime, so that every step goes through all of them
};

// The places of a hash, one window after the other. A tile has one.
class Windows {
  public:
    __device__ Windows(const Table& table, uint32_t hash)
        : table_(table), window_(hash % table.windows), step_(1 + hash_of(hash, 1) % (table.windows - 1)) {}

    // The two slots of this thread in the window.
    __device__ uint64_t* slots(uint32_t thread) const {
        return table_.slots + static_cast<uint64_t>(window_) * kWindowSlots + thread * kBucketSlots;
    }
    __device__ void next() {
        const uint64_t to = static_cast<uint64_t>(window_) + step_;
        window_ = static_cast<uint32_t>(to >= table_.windows ? to - table_.windows : to);
    }

  private:
    const Table& table_;
    uint32_t window_;
    const uint32_t step_;
};

// Two neighbouring lanes, which do the same all the time.
__device__ uint32_t tile_mask() {
    return ((1U << kTileThreads) - 1) << (cuda::lane_index() / kTileThreads * kTileThreads);
}
__device__ uint32_t tile_rank() {
    return cuda::lane_index() % kTileThreads;
}
__device__ uint64_t first_row() {
    return (static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x) / kTileThreads;
}
__device__ uint64_t row_step() {
    return static_cast<uint64_t>(gridDim.x) * kThreads / kTileThreads;
}

__global__ void __launch_bounds__(kThreads) clear_kernel(ulonglong2* buckets, uint64_t count) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * kThreads;
    for (uint64_t b = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x; b < count; b += step) {
        buckets[b] = make_ulonglong2(kEmpty, kEmpty);
    }
}

// A key may come any number of times: each row takes the first empty slot on its way.
template <class Key>
__global__ void __launch_bounds__(kThreads) insert_kernel(const Key* keys, uint64_t rows, const Table table) {
    const uint32_t tile = tile_mask();
    for (uint64_t row = first_row(); row < rows; row += row_step()) {
        const uint32_t hash = hash_of(keys[row]);
        const unsigned long long value = static_cast<unsigned long long>(hash) << 32 | static_cast<uint32_t>(row);
        Windows at(table, hash);
        for (;;) {
            auto* const slots = reinterpret_cast<unsigned long long*>(at.slots(tile_rank()));
            const ulonglong2 seen = __ldcg(reinterpret_cast<const ulonglong2*>(slots));
            const int empty = seen.x == kEmpty ? 0 : seen.y == kEmpty ? 1 : -1;
            const uint32_t candidates = __ballot_sync(tile, empty >= 0);
            if (candidates == 0) {
                at.next();
                continue;
            }
            bool is_placed = false;
            if (cuda::lane_index() + 1 == static_cast<uint32_t>(__ffs(candidates))) {
                is_placed = atomicCAS(slots + empty, kEmpty, value) == kEmpty;
            }
            if (__any_sync(tile, is_placed)) break;
        }
    }
}

// Calls found(is a match, build row) for each slot that this thread looks at. All lanes of the warp call it at the same
// time, until no tile of the warp has a step left.
template <class Key, class Found>
__device__ void probe(const Key* build_keys, const Table& table, bool is_there, Key key, const Found& found) {
    const uint32_t tile = tile_mask();
    const uint32_t hash = hash_of(key);
    Windows at(table, hash);
    bool goes_on = is_there;
    while (__any_sync(cuda::kFullWarp, goes_on)) {
        uint32_t rows[kBucketSlots] = {};
        bool matches[kBucketSlots] = {};
        if (goes_on) {
            const ulonglong2 seen = __ldg(reinterpret_cast<const ulonglong2*>(at.slots(tile_rank())));
            const uint64_t slots[kBucketSlots] = {seen.x, seen.y};
            bool is_last = false;
            for (int s = 0; s < kBucketSlots; ++s) {
                is_last |= slots[s] == kEmpty;
                rows[s] = static_cast<uint32_t>(slots[s]);
                matches[s] = slots[s] != kEmpty && slots[s] >> 32 == hash && __ldg(build_keys + rows[s]) == key;
            }
            goes_on = !__any_sync(tile, is_last);
            at.next();
        }
        __syncwarp();
        for (int s = 0; s < kBucketSlots; ++s) found(matches[s], rows[s]);
    }
}

template <class Key>
__global__ void __launch_bounds__(kThreads) count_kernel(const Key* build_keys, const Key* probe_keys, uint64_t rows,
                                                         const Table table, unsigned long long* total) {
    unsigned long long mine = 0;
    for (uint64_t row = first_row(); __any_sync(cuda::kFullWarp, row < rows); row += row_step()) {
        const bool is_there = row < rows;
        probe(build_keys, table, is_there, is_there ? probe_keys[row] : Key{0},
              [&](bool is_match, uint32_t) { mine += is_match ? 1 : 0; });
    }
    for (int distance = cuda::kWarpThreads / 2; distance > 0; distance /= 2) {
        mine += __shfl_xor_sync(cuda::kFullWarp, mine, distance);
    }
    if (cuda::lane_index() == 0 && mine > 0) atomicAdd(total, mine);
}

// Pairs of a warp on their way to the result.
struct PairBuffer {
    uint32_t build[kBufferPairs];
    uint32_t probe[kBufferPairs];
};

template <class Key>
__global__ void __launch_bounds__(kThreads)
    write_kernel(const Key* build_keys, const Key* probe_keys, uint64_t rows, const Table table,
                 unsigned long long* written, uint32_t* build_rows, uint32_t* probe_rows) {
    __shared__ PairBuffer buffers[kThreads / cuda::kWarpThreads];
    PairBuffer& buffer = buffers[cuda::warp_index()];
    uint32_t held = 0;
    const auto flush = [&] {
        __syncwarp();
        unsigned long long first = 0;
        if (cuda::lane_index() == 0) first = atomicAdd(written, static_cast<unsigned long long>(held));
        first = __shfl_sync(cuda::kFullWarp, first, 0);
        for (uint32_t i = cuda::lane_index(); i < held; i += cuda::kWarpThreads) {
            build_rows[first + i] = buffer.build[i];
            probe_rows[first + i] = buffer.probe[i];
        }
        held = 0;
        __syncwarp();
    };
    for (uint64_t row = first_row(); __any_sync(cuda::kFullWarp, row < rows); row += row_step()) {
        const bool is_there = row < rows;
        probe(build_keys, table, is_there, is_there ? probe_keys[row] : Key{0}, [&](bool is_match, uint32_t build_row) {
            const uint32_t lanes = __ballot_sync(cuda::kFullWarp, is_match);
            if (is_match) {
                const uint32_t at = held + __popc(lanes & cuda::lanes_below());
                buffer.build[at] = build_row;
                buffer.probe[at] = static_cast<uint32_t>(row);
            }
            held += __popc(lanes);
            if (held > kBufferPairs - cuda::kWarpThreads) flush();
        });
    }
    if (held > 0) flush();
}

bool is_prime(uint32_t n) {
    for (uint64_t d = 2; d * d <= n; ++d) {
        if (n % d == 0) return false;
    }
    return true;
}

template <class Key>
cuda::MatchPairs find_pairs(cuda::Device& device, const cuda::DeviceRelation& build, const cuda::DeviceRelation& probe,
                            cuda::PhaseTimer& timer) {
    const auto* const build_keys = static_cast<const Key*>(build.key.data);
    const auto* const probe_keys = static_cast<const Key*>(probe.key.data);
    Table table;
    table.windows = static_cast<uint32_t>(build.rows * kSlotsPerRow / kWindowSlots) + 3;
    while (!is_prime(table.windows)) ++table.windows;
    const uint64_t buckets = uint64_t{table.windows} * kTileThreads;
    const cuda::Allocation slots = device.memory().allocate(buckets * sizeof(ulonglong2), "hash table of a stand-in");
    table.slots = slots.as<uint64_t>();
    const auto grid = [&](uint64_t threads) { return grid_over(device, threads, kThreads, kBlocksPerMultiprocessor); };
    const cudaStream_t stream = device.stream();
    cuda::launch(clear_kernel, grid(buckets), dim3(kThreads), 0, stream, slots.as<ulonglong2>(), buckets);
    cuda::launch(insert_kernel<Key>, grid(build.rows * kTileThreads), dim3(kThreads), 0, stream, build_keys, build.rows,
                 table);
    timer.begin(kJoinPhase);
    const cuda::Allocation counters = device.memory().allocate(2 * sizeof(unsigned long long), "pairs of a stand-in");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counters.as(), 0, counters.bytes(), stream));
    auto* const counts = counters.as<unsigned long long>();
    const dim3 probe_grid = grid(probe.rows * kTileThreads);
    cuda::launch(count_kernel<Key>, probe_grid, dim3(kThreads), 0, stream, build_keys, probe_keys, probe.rows, table,
                 counts);
    unsigned long long total = 0;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&total, counts, sizeof total, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    cuda::MatchPairs pairs;
    pairs.count = total;
    pairs.build_rows = device.memory().allocate(total * sizeof(uint32_t), "pairs of row numbers");
    pairs.probe_rows = device.memory().allocate(total * sizeof(uint32_t), "pairs of row numbers");
    cuda::launch(write_kernel<Key>, probe_grid, dim3(kThreads), 0, stream, build_keys, probe_keys, probe.rows, table,
                 counts + 1, pairs.build_rows.as<uint32_t>(), pairs.probe_rows.as<uint32_t>());
    return pairs;
}

// Transform: filling the table. Join: finding the pairs, and gathering keys and payloads.
cuda::JoinResult join(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    const cuda::DeviceRelation& build = inputs.build.columns;
    const cuda::DeviceRelation& probe = inputs.probe.columns;
    if (build.rows >= kEmpty >> 32 || probe.rows >= kEmpty >> 32) {
        throw std::invalid_argument("Expected fewer than 2^32 - 1 rows a side: row numbers here have 4 bytes.");
    }
    timer.begin(kTransformPhase);
    cuda::JoinResult result =
        cuda::materialize_pairs(device, build, probe, {}, all_payloads(workload), [&](const cuda::MatchWish&) {
            return build.key.width == 4 ? find_pairs<uint32_t>(device, build, probe, timer)
                                        : find_pairs<uint64_t>(device, build, probe, timer);
        });
    timer.end();
    return result;
}

}  // namespace

}  // namespace cudf_like

const Algorithm kCudfLikeJoin = {"cudf-like", true, cudf_like::join, false, true};

}  // namespace spillway::gpu_bench
