// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "baseline_join/baseline_join_algorithm.hpp"
#include "device/device.hpp"
#include "stream/stream_operator.hpp"

// Other ways to join relations that are larger than GPU memory: what staged_join/ is measured against, on the same
// chunks, with the same results. No plan chooses them for speed.
namespace spillway::cuda { inline namespace baseline_join {

struct BaselineSpec {
    // Sides, result and sizes, each algorithm using what it needs. All but kStaged make inner joins alone.
    StagedJoinSpec join;
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
    // kTriton, with build_rows; its shares are `shares`.
    uint64_t probe_rows = 0;
    CoherentOptions coherent;
    // kStaged, kStagedUncached: a device whose memory takes spilled rows instead of the host's, as StagedJoin's;
    // kTriton: pages.
    Device* peer = nullptr;
};

// What every baseline demands.
inline void check_inner(const StagedJoinSpec& spec) {
    if (!spec.kind.inner()) throw Error(ErrorCode::kInvalid, "this algorithm makes inner joins alone");
}

// The build side, then the probe side. Takes the memory that the join keeps.
std::unique_ptr<StreamOperator> open_baseline_join(Device& device, BaselineAlgorithm algorithm,
                                                   const BaselineSpec& spec);

}}  // namespace spillway::cuda::baseline_join
