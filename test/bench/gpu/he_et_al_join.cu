// SPDX-License-Identifier: Apache-2.0
// A stand-in of ours for the radix hash join of B. He et al. ("Relational Joins on Graphics Processors", SIGMOD 2008),
// none of their code: it is made for GPUs without atomic operations. Pairs of a key and a row number are split by some
// radix bits in each of several passes. Every thread counts its own tuples in a histogram of its own in shared memory;
// a prefix sum over the histograms of all threads says where each of them writes; it writes tuple by tuple, without
// locks and without combining writes. Then each pair of partitions is joined by a block in a nested loop, twice:
// threads count their matches, a prefix sum gives them places, and they write pairs of row numbers, by which columns
// are gathered.
#include <algorithm>
#include <utility>

#include "algorithm.hpp"
#include "device/launch.hpp"
#include "gftr_join/partition_keys.cuh"
#include "materialize/match_pairs.hpp"
#include "primitive/prefix_sum.hpp"

namespace spillway::gpu_bench {

namespace he_et_al {

namespace {

// Radix bits of a pass, threads of a block: their histograms have 16 KiB, the shared memory of the paper's GPU.
constexpr int kPassBits = 6;
constexpr uint32_t kBins = 1U << kPassBits;
constexpr int kSplitThreads = 64;
constexpr uint64_t kThreadTuples = 256;  // neighbours, so that the order of tuples of a bin stays
constexpr uint64_t kPartitionTuples = 512;
constexpr int kRadixBitsMax = 20;
constexpr int kJoinThreads = 128;
constexpr uint32_t kBuildPart = 1024;

template <class Key>
struct Tuples {
    cuda::Allocation keys;  // mixed
    cuda::Allocation rows;  // 4 bytes each
    uint64_t count = 0;

    Tuples(cuda::Device& device, uint64_t tuples) : count(tuples) {
        keys = device.memory().allocate(tuples * sizeof(Key), "tuples of a stand-in");
        rows = device.memory().allocate(tuples * sizeof(uint32_t), "tuples of a stand-in");
    }
};

template <class Key>
__global__ void __launch_bounds__(kSplitThreads)
    list_kernel(const Key* from, uint64_t count, Key* keys, uint32_t* rows) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * kSplitThreads;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * kSplitThreads + threadIdx.x; row < count; row += step) {
        keys[row] = cuda::MixedKey<sizeof(Key) / 4>::mix(from[row]);
        rows[row] = static_cast<uint32_t>(row);
    }
}

template <class Key>
struct Split {
    const Key* keys;
    const uint32_t* rows;
    uint64_t count;
    uint64_t threads;
    uint32_t shift;  // of the digit
    uint32_t mask;
    uint64_t* offsets;  // [bins][threads] counted by the first kernel, summed up for the second
    Key* keys_out;
    uint32_t* rows_out;

    __device__ uint32_t digit(Key key) const { return static_cast<uint32_t>(key >> shift) & mask; }
};

template <class Key>
__global__ void __launch_bounds__(kSplitThreads) split_count_kernel(const Split<Key> split) {
    __shared__ uint32_t histogram[kBins][kSplitThreads];
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * kSplitThreads + threadIdx.x;
    for (uint32_t bin = 0; bin < kBins; ++bin) histogram[bin][threadIdx.x] = 0;
    const uint64_t end = min((thread + 1) * kThreadTuples, split.count);
    for (uint64_t i = thread * kThreadTuples; i < end; ++i) ++histogram[split.digit(split.keys[i])][threadIdx.x];
    for (uint32_t bin = 0; bin <= split.mask; ++bin) {
        if (thread < split.threads) split.offsets[bin * split.threads + thread] = histogram[bin][threadIdx.x];
    }
}

template <class Key>
__global__ void __launch_bounds__(kSplitThreads) split_write_kernel(const Split<Key> split) {
    __shared__ uint32_t places[kBins][kSplitThreads];
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * kSplitThreads + threadIdx.x;
    if (thread >= split.threads) return;
    for (uint32_t bin = 0; bin <= split.mask; ++bin) {
        places[bin][threadIdx.x] = static_cast<uint32_t>(split.offsets[bin * split.threads + thread]);
    }
    const uint64_t end = min((thread + 1) * kThreadTuples, split.count);
    for (uint64_t i = thread * kThreadTuples; i < end; ++i) {
        const Key key = split.keys[i];
        const uint32_t place = places[split.digit(key)][threadIdx.x]++;
        split.keys_out[place] = key;
        split.rows_out[place] = split.rows[i];
    }
}

template <class Key>
struct NestedLoop {
    const Key* build_keys;
    const uint32_t* build_rows;
    const Key* probe_keys;
    const uint32_t* probe_rows;
    const uint64_t* build_begin;  // [partitions + 1]
    const uint64_t* probe_begin;
    uint64_t* places;  // [partitions * kJoinThreads + 1]
    uint32_t* build_out;
    uint32_t* probe_out;
};

template <class Key, bool kWrites>
__global__ void __launch_bounds__(kJoinThreads) nested_loop_kernel(const NestedLoop<Key> join) {
    __shared__ Key keys[kBuildPart];
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * kJoinThreads + threadIdx.x;
    const uint64_t build_end = join.build_begin[blockIdx.x + 1];
    const uint64_t probe_end = join.probe_begin[blockIdx.x + 1];
    uint64_t place = kWrites ? join.places[thread] : 0;
    for (uint64_t first = join.build_begin[blockIdx.x]; first < build_end; first += kBuildPart) {
        const auto count = static_cast<uint32_t>(min(build_end - first, uint64_t{kBuildPart}));
        __syncthreads();
        for (uint32_t b = threadIdx.x; b < count; b += kJoinThreads) keys[b] = join.build_keys[first + b];
        __syncthreads();
        for (uint64_t p = join.probe_begin[blockIdx.x] + threadIdx.x; p < probe_end; p += kJoinThreads) {
            const Key key = join.probe_keys[p];
            for (uint32_t b = 0; b < count; ++b) {
                if (keys[b] != key) continue;
                if constexpr (kWrites) {
                    join.build_out[place] = join.build_rows[first + b];
                    join.probe_out[place] = join.probe_rows[p];
                }
                ++place;
            }
        }
    }
    if (!kWrites) join.places[thread] = place;
}

template <class Key>
class RadixJoin {
  public:
    RadixJoin(cuda::Device& device, cuda::PhaseTimer& timer) : device_(device), timer_(timer) {}

    cuda::MatchPairs pairs(const cuda::DeviceRelation& build, const cuda::DeviceRelation& probe) {
        while (bits_ < kRadixBitsMax && build.rows >> bits_ > kPartitionTuples) ++bits_;
        const Tuples<Key> build_tuples = partition(build);
        const Tuples<Key> probe_tuples = partition(probe);
        const cuda::Allocation build_begin = bounds(build_tuples);
        const cuda::Allocation probe_begin = bounds(probe_tuples);
        timer_.begin(kJoinPhase);
        const uint64_t threads = (1ULL << bits_) * kJoinThreads;
        const cuda::Allocation places = device_.memory().allocate((threads + 1) * sizeof(uint64_t), "places of pairs");
        NestedLoop<Key> join = {build_tuples.keys.template as<Key>(),
                                build_tuples.rows.template as<uint32_t>(),
                                probe_tuples.keys.template as<Key>(),
                                probe_tuples.rows.template as<uint32_t>(),
                                build_begin.as<uint64_t>(),
                                probe_begin.as<uint64_t>(),
                                places.as<uint64_t>(),
                                nullptr,
                                nullptr};
        auto* const end = places.as<uint64_t>() + threads;
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(end, 0, sizeof(uint64_t), device_.stream()));
        const dim3 grid(1U << bits_);
        cuda::launch(nested_loop_kernel<Key, false>, grid, dim3(kJoinThreads), 0, device_.stream(), join);
        cuda::exclusive_sum(device_, places.as<uint64_t>(), threads + 1);
        cuda::MatchPairs found;
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(&found.count, end, sizeof found.count, cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        found.build_rows = device_.memory().allocate(found.count * sizeof(uint32_t), "pairs of row numbers");
        found.probe_rows = device_.memory().allocate(found.count * sizeof(uint32_t), "pairs of row numbers");
        join.build_out = found.build_rows.as<uint32_t>();
        join.probe_out = found.probe_rows.as<uint32_t>();
        cuda::launch(nested_loop_kernel<Key, true>, grid, dim3(kJoinThreads), 0, device_.stream(), join);
        return found;
    }

  private:
    // Passes from the lowest radix bits to the top ones, each of which keeps the order of those before.
    Tuples<Key> partition(const cuda::DeviceRelation& relation) const {
        Tuples<Key> tuples(device_, relation.rows);
        const uint64_t threads = (relation.rows + kThreadTuples - 1) / kThreadTuples;
        const dim3 grid = cuda::grid_of_threads(threads, kSplitThreads);
        cuda::launch(list_kernel<Key>, grid, dim3(kSplitThreads), 0, device_.stream(),
                     static_cast<const Key*>(relation.key.data), relation.rows, tuples.keys.template as<Key>(),
                     tuples.rows.template as<uint32_t>());
        for (int done = 0; done < bits_; done += kPassBits) {
            const int bits = std::min(kPassBits, bits_ - done);
            Tuples<Key> next(device_, relation.rows);
            const cuda::Allocation offsets =
                device_.memory().allocate((threads << bits) * sizeof(uint64_t), "histograms of threads");
            const Split<Key> split = {tuples.keys.template as<Key>(),
                                      tuples.rows.template as<uint32_t>(),
                                      relation.rows,
                                      threads,
                                      static_cast<uint32_t>(8 * sizeof(Key)) - bits_ + done,
                                      (1U << bits) - 1,
                                      offsets.as<uint64_t>(),
                                      next.keys.template as<Key>(),
                                      next.rows.template as<uint32_t>()};
            cuda::launch(split_count_kernel<Key>, grid, dim3(kSplitThreads), 0, device_.stream(), split);
            cuda::exclusive_sum(device_, offsets.as<uint64_t>(), threads << bits);
            cuda::launch(split_write_kernel<Key>, grid, dim3(kSplitThreads), 0, device_.stream(), split);
            tuples = std::move(next);
        }
        return tuples;
    }

    cuda::Allocation bounds(const Tuples<Key>& tuples) const {
        const uint64_t partitions = 1ULL << bits_;
        cuda::Allocation begin = device_.memory().allocate((partitions + 1) * sizeof(uint64_t), "partition offsets");
        const cuda::Allocation sizes = device_.memory().allocate(partitions * sizeof(uint64_t), "partition sizes");
        cuda::launch(cuda::find_bounds_kernel<Key>, cuda::grid_of_threads(partitions + 1, cuda::kGftrThreads),
                     dim3(cuda::kGftrThreads), 0, device_.stream(), tuples.keys.template as<const Key>(), tuples.count,
                     static_cast<uint32_t>(bits_), begin.as<uint64_t>(), sizes.as<uint64_t>());
        return begin;
    }

    cuda::Device& device_;
    cuda::PhaseTimer& timer_;
    int bits_ = 0;
};

// Transform: partitions of both sides. Join: finding the pairs, and gathering keys and payloads.
cuda::JoinResult join(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    const cuda::DeviceRelation& build = inputs.build.columns;
    const cuda::DeviceRelation& probe = inputs.probe.columns;
    timer.begin(kTransformPhase);
    cuda::JoinResult result =
        cuda::materialize_pairs(device, build, probe, {}, all_payloads(workload), [&](const cuda::MatchWish&) {
            return build.key.width == 4 ? RadixJoin<uint32_t>(device, timer).pairs(build, probe)
                                        : RadixJoin<uint64_t>(device, timer).pairs(build, probe);
        });
    timer.end();
    return result;
}

}  // namespace

}  // namespace he_et_al

const Algorithm kHeEtAlJoin = {"he-et-al", true, he_et_al::join, false, true};

}  // namespace spillway::gpu_bench
