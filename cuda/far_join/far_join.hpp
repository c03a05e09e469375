// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coherent_join/coherent_join.hpp"
#include "device/device.hpp"
#include "far_join/far_join_algorithm.hpp"
#include "out_of_core/out_of_core_join.hpp"
#include "tier/stripe_pattern.hpp"

// Other ways to join relations that are larger than GPU memory, behind one interface: what out_of_core/ is measured
// against, on the same chunks, with the same results. No plan chooses them for speed.
namespace spillway::cuda {

struct FarJoinSpec {
    // Sides, result and sizes, each algorithm using what it needs. All but kTriton make inner joins alone.
    OutOfCoreSpec join;
    // Joins with a table: build rows with a key at most, for which room is taken before they come.
    uint64_t build_rows = 0;
    // Linear probing: taken slots in a hundred at most.
    uint32_t load_percent = 50;
    // kNpjFar, kNpjFarPerfect: stripes of the table by tier; none: as much device memory as is free, then host memory.
    StripeShares shares;
    uint64_t stripe_bytes = 0;  // 0: kStripeBytes
    // kNpjFarPerfect: keys are first_key, first_key + 1, ..., so many, modulo 2^32 or 2^64; each once at most.
    uint64_t first_key = 0;
    uint64_t key_range = 0;
    // kCpuPartitioned: 0 = as many as the machine runs at once.
    uint32_t threads = 0;
    // kTritonCoherent, with build_rows; its shares are `shares`.
    uint64_t probe_rows = 0;
    CoherentOptions coherent;
    // kTriton, kTritonUncached: a device whose memory takes spilled rows instead of the host's, as OutOfCoreJoin's;
    // kTritonCoherent: pages.
    Device* peer = nullptr;
};

// One join: build(), then probe(). Both wait for the device. Errors are those of OutOfCoreJoin; after one the object
// can only be destroyed.
class FarJoin {
  public:
    FarJoin() = default;
    virtual ~FarJoin() = default;
    FarJoin(const FarJoin&) = delete;
    FarJoin& operator=(const FarJoin&) = delete;

    virtual void build(ChunkSource& source) = 0;
    // sink: nullptr unless rows are wanted.
    virtual const OutOfCoreReport& probe(ChunkSource& source, ResultSink* sink) = 0;
    // What stages took on the GPU, of joins that say so; they may overlap.
    virtual StageTimes stages() const { return {}; }
};

// Takes the memory that the join keeps.
std::unique_ptr<FarJoin> open_far_join(Device& device, FarJoinAlgorithm algorithm, const FarJoinSpec& spec);

}  // namespace spillway::cuda
