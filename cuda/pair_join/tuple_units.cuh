// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "materialize/match_output.cuh"
#include "pair_join/pair_policy.hpp"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace pair_join {

// PartitionedTuples as a kernel sees them.
struct TupleSide {
    const void* keys = nullptr;
    const void* rows = nullptr;  // nullptr: the tuples' places
    const uint64_t* sizes = nullptr;
    const uint64_t* begin = nullptr;
    const uint32_t* bucket_list = nullptr;  // nullptr: partitions are contiguous
    // A bucket holds 2^bucket_bits tuples. 31 stands for contiguous partitions: then all tuples of a part lie in its
    // first bucket.
    uint32_t bucket_bits = 31;
};

struct TuplePass {
    TupleSide build;
    TupleSide probe;
    uint64_t partitions = 1;
    uint32_t radix_bits = 0;
    const uint64_t* first_unit = nullptr;  // [partitions + 1]
    unsigned long long* next_unit = nullptr;
    MatchOutput out;                        // columns: build row numbers, probe row numbers
    uint64_t* unit_matches = nullptr;       // [units] counted; nullptr: only all together
    const uint64_t* unit_places = nullptr;  // [units] where to write; nullptr: chunks of the output, one by one
    uint32_t* marks[kMatchSides] = {};      // bits of rows that have a match; nullptr: not wanted
};

// Returns how many units one co-partition makes: the tuples of both sides are cut into parts, those of the build side
// so that a block holds one, and each pair of two such parts is a unit.
template <class Parts>
__host__ __device__ uint64_t pair_units(uint64_t build_tuples, uint64_t probe_tuples) {
    return (build_tuples + Parts::kBuildTuples - 1) / Parts::kBuildTuples *
           ((probe_tuples + Parts::kProbeTuples - 1) / Parts::kProbeTuples);
}

// A part of a partition: tuple i is at base[i >> bucket_bits] plus the rest of i.
template <uint32_t kTuples>
struct TuplePart {
    uint64_t base[kTuples / kBucketTuplesMin];
    uint32_t count;  // 0 on the probe side: there is no unit left

    __device__ uint64_t place_of(uint32_t i, uint32_t bucket_bits) const {
        return base[i >> bucket_bits] + (i & ((1U << bucket_bits) - 1));
    }

    // By a warp; `first` is a multiple of kTuples and below the partition's size.
    __device__ void lay_out(const TupleSide& side, uint64_t partition, uint64_t first) {
        const uint32_t tuples =
            static_cast<uint32_t>(min(side.sizes[partition] - first, static_cast<uint64_t>(kTuples)));
        const uint64_t begin = side.begin[partition];
        if (side.bucket_list == nullptr) {
            if (lane_index() == 0) base[0] = begin + first;
        } else {
            const uint32_t buckets = (tuples + (1U << side.bucket_bits) - 1) >> side.bucket_bits;
            const uint32_t* const list = side.bucket_list + begin + (first >> side.bucket_bits);
            if (lane_index() < buckets)
                base[lane_index()] = static_cast<uint64_t>(list[lane_index()]) << side.bucket_bits;
        }
        if (lane_index() == 0) count = tuples;
    }
};

template <class Parts>
struct TupleUnit {
    static_assert(Parts::kProbeTuples / kBucketTuplesMin <= kWarpThreads, "a lane for each bucket of a part");

    uint64_t number;
    TuplePart<Parts::kBuildTuples> build;
    TuplePart<Parts::kProbeTuples> probe;
};

// By a warp: the unit with that number, which is one of partition p.
template <class Parts>
__device__ void lay_out_unit(const TuplePass& pass, uint64_t p, uint64_t number, TupleUnit<Parts>& unit) {
    const uint64_t parts = (pass.build.sizes[p] + Parts::kBuildTuples - 1) / Parts::kBuildTuples;
    const uint64_t within = number - pass.first_unit[p];
    unit.build.lay_out(pass.build, p, within % parts * Parts::kBuildTuples);
    unit.probe.lay_out(pass.probe, p, within / parts * Parts::kProbeTuples);
    if (lane_index() == 0) unit.number = number;
}

// Which units a block joins: each time the next one that no block has taken.
struct SharedUnits {
    // By a warp. Leaves a probe side without tuples when there is no unit left.
    template <class Parts>
    __device__ void next(const TuplePass& pass, TupleUnit<Parts>& unit) {
        unsigned long long number = 0;
        if (lane_index() == 0) number = atomicAdd(pass.next_unit, 1ULL);
        number = __shfl_sync(kFullWarp, number, 0);
        if (number >= pass.first_unit[pass.partitions]) {
            if (lane_index() == 0) unit.probe.count = 0;
            return;
        }
        // Partitions without units begin where the next one does: the last of them that begins here has some.
        lay_out_unit(pass, warp_last_not_above(pass.first_unit, pass.partitions, static_cast<uint64_t>(number)), number,
                     unit);
    }
};

}}  // namespace spillway::cuda::pair_join
