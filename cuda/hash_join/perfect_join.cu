// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "device/launch.hpp"
#include "hash_join/join_policy.hpp"
#include "hash_join/join_units.cuh"
#include "hash_join/join_warp.cuh"
#include "hash_join/perfect_join.hpp"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace hash_join {

namespace {

// A block takes one unit after the other: finds the range of the build rows' places, fills the array, and looks all
// probe rows of the unit up. A range of several arrays takes all of that once for each.
// Bytes: build rows twice, probe rows once, for each array.
template <int kKeyWords>
class PerfectJoin {
    using Key = typename MixedKey<kKeyWords>::Key;

  public:
    struct Shared {
        JoinUnit unit;
        long long low;  // places of its build rows
        long long high;
    };

    __device__ PerfectJoin(const PerfectPass& pass, uint4* memory, Shared& shared)
        : pass_(pass),
          shared_(shared),
          values_(reinterpret_cast<Key*>(memory)),
          filled_(reinterpret_cast<uint32_t*>(values_ + pass.slots)) {}

    __device__ void run() {
        for (;;) {
            if (warp_index() == 0) fetch_unit(pass_.join, shared_.unit);
            if (threadIdx.x == 0) shared_.low = shared_.high = 0;  // the place of the first row
            __syncthreads();
            unit_ = shared_.unit;
            if (unit_.probe_count == 0) break;
            join_unit();
            __syncthreads();
        }
        sums_.finish(pass_.join.sums);
    }

  private:
    struct Row {
        Key key;  // as it was
        Key value;
    };

    __device__ void join_unit() {
        find_places();
        const auto low = static_cast<uint64_t>(shared_.low);
        const uint64_t last = static_cast<uint64_t>(shared_.high) - low;
        if (last / pass_.slots >= kPerfectWindowsMax) {
            if (threadIdx.x == 0) atomicOr(pass_.refusals, kKeysSparse);
            return;
        }
        for (uint64_t first = 0; first <= last; first += pass_.slots) {
            first_ = low + first;
            slots_ = static_cast<uint32_t>(min(last - first + 1, static_cast<uint64_t>(pass_.slots)));
            for (uint32_t w = threadIdx.x; w * 32 < slots_; w += kPerfectThreads) filled_[w] = 0;
            __syncthreads();
            build();
            __syncthreads();
            probe();
            __syncthreads();
        }
    }

    __device__ static Row row_of(const JoinSide& side, uint64_t number) {
        if constexpr (kKeyWords == 1) {
            const uint2 words = reinterpret_cast<const uint2*>(side.rows)[number];
            return {reverse_bits(words.x), words.y};
        } else {
            const uint4 words = reinterpret_cast<const uint4*>(side.rows)[number];
            return {reverse_bits(words.x | static_cast<uint64_t>(words.y) << 32),
                    words.z | static_cast<uint64_t>(words.w) << 32};
        }
    }

    // body(row) for all rows; several are under way at once.
    template <class Body>
    __device__ static void for_each_row(const JoinSide& side, uint64_t first, uint32_t count, Body body) {
        for (uint32_t at = threadIdx.x; at < count; at += kPerfectRows * kPerfectThreads) {
            Row rows[kPerfectRows];
#pragma unroll
            for (uint32_t r = 0; r < kPerfectRows; ++r) {
                const uint32_t number = at + r * kPerfectThreads;
                if (number < count) rows[r] = row_of(side, first + number);
            }
#pragma unroll
            for (uint32_t r = 0; r < kPerfectRows; ++r) {
                if (at + r * kPerfectThreads < count) body(rows[r]);
            }
        }
    }

    // Counted from the first build row, modulo the width of keys, so that keys with and without a sign are alike. All
    // keys of a partition have the bits in common that are shifted out.
    __device__ long long place_of(Key key) const {
        using Difference = std::make_signed_t<Key>;
        return static_cast<Difference>(key - origin_) >> pass_.join.radix_bits;
    }
    // Modulo 2^64: what lies before the array is behind it.
    __device__ uint64_t slot_of(Key key) const {
        return static_cast<uint64_t>(place_of(key)) - first_;
    }

    __device__ void find_places() {
        origin_ = row_of(pass_.join.build, unit_.build_first).key;
        long long low = 0;
        long long high = 0;
        for_each_row(pass_.join.build, unit_.build_first, unit_.build_count, [&](const Row& row) {
            const long long place = place_of(row.key);
            low = min(low, place);
            high = max(high, place);
        });
#pragma unroll
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            low = min(low, __shfl_xor_sync(kFullWarp, low, distance));
            high = max(high, __shfl_xor_sync(kFullWarp, high, distance));
        }
        if (lane_index() == 0) {
            atomicMin(&shared_.low, low);
            atomicMax(&shared_.high, high);
        }
        __syncthreads();
    }

    __device__ void build() {
        bool repeats = false;
        for_each_row(pass_.join.build, unit_.build_first, unit_.build_count, [&](const Row& row) {
            const uint64_t slot = slot_of(row.key);
            if (slot >= slots_) return;
            const uint32_t bit = 1U << (slot % 32);
            repeats |= (atomicOr(&filled_[slot / 32], bit) & bit) != 0;
            values_[slot] = row.value;
        });
        if (repeats) atomicOr(pass_.refusals, kKeyRepeats);
    }

    __device__ void probe() {
        for_each_row(pass_.join.probe, unit_.probe_first, unit_.probe_count, [&](const Row& row) {
            const uint64_t slot = slot_of(row.key);
            if (slot >= slots_ || (filled_[slot / 32] >> (slot % 32) & 1) == 0) return;
            sums_.add(row.key, values_[slot], row.value);
        });
    }

    const PerfectPass& pass_;
    Shared& shared_;
    Key* const values_;
    uint32_t* const filled_;  // a bit per slot
    JoinUnit unit_;
    Key origin_;      // key of its first build row
    uint64_t first_;  // place of the first slot
    uint32_t slots_;  // in use
    MatchSums<kKeyWords> sums_;
};

template <int kKeyWords>
__global__ void __launch_bounds__(kPerfectThreads, 1) perfect_join_kernel(const __grid_constant__ PerfectPass pass) {
    extern __shared__ uint4 perfect_memory[];
    using Join = PerfectJoin<kKeyWords>;
    __shared__ typename Join::Shared shared;
    Join(pass, perfect_memory, shared).run();
}

}  // namespace

uint32_t perfect_slots(const GpuFacts& gpu, uint32_t key_words) {
    // 32 slots share a word of their fill bits.
    const uint64_t group_bytes = 32 * key_words * sizeof(uint32_t) + sizeof(uint32_t);
    return static_cast<uint32_t>((gpu.shared_bytes_per_block_optin - kPerfectReservedBytes) / group_bytes * 32);
}

void launch_perfect_sums(Device& device, uint64_t blocks, uint32_t key_words, const PerfectPass& pass) {
    const uint64_t shared = pass.slots * (key_words * sizeof(uint32_t)) + pass.slots / 32 * sizeof(uint32_t);
    launch(key_words == 1 ? perfect_join_kernel<1> : perfect_join_kernel<2>, dim3(static_cast<unsigned>(blocks)),
           dim3(kPerfectThreads), shared, device.stream(), pass);
}

}}  // namespace spillway::cuda::hash_join
