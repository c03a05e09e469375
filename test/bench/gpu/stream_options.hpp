// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "api/stream_spec.hpp"
#include "baseline_join/baseline_join_algorithm.hpp"
#include "workload.hpp"

namespace spillway::gpu_bench {

enum class FarPayloadValues { kDense, kRandom };  // the row's number, or a mix of it that no coding makes shorter
enum class FarResult { kCount, kSums, kRows };
// Only the first columns of a side are summed, as a join gives four sums at most. All columns pass the link.
constexpr size_t kSummedColumnsMax = 2;
enum class FarPlace { kHost, kPeer };  // where the relations lie

// Only triton has these choices. 0 leaves a choice to the join unless the field says otherwise.
struct CoherentChoices {
    cuda::FarPartitioner partitioner = cuda::FarPartitioner::kBest;
    uint64_t partition_grid = 0;
    uint64_t gather_grid = 0;
    uint64_t gather_alone = 1;  // 0: blocks that gather, or have the second pass, mix with those that join
    uint64_t gather_probe = 0;  // 1: probe rows are gathered, too
    uint64_t second_pass = 1;   // of both sides; 0: build rows are indexed
    uint64_t group_rows = 0;
    // Pages of GPU memory and of far memory, in turns of this proportion.
    uint64_t device_pages = 0;
    uint64_t far_pages = 0;
};

struct OutOfCoreOptions {
    BenchOptions bench;
    cuda::BaselineAlgorithm algorithm = cuda::BaselineAlgorithm::kStaged;
    FarPayloadValues payload_values = FarPayloadValues::kDense;
    FarResult result = FarResult::kSums;
    FarPlace inputs = FarPlace::kHost;
    std::optional<FarPlace> spill;  // where spilled rows go; where the inputs are, unless said otherwise
    cuda::StreamSizes sizes;        // --page-rows 0: triton chooses
    cuda::StreamProbe stream_probe = cuda::StreamProbe::kTable;
    uint64_t overlap = 1;        // of copies with joins, or with partitioning by the CPU
    uint64_t load_percent = 50;  // tables of linear probing
    // Stripes of a table by tier; none: as many of the device's as are free.
    uint64_t device_stripes = 0;
    uint64_t host_stripes = 0;
    uint64_t busy_multiprocessors = 0;  // that do something else while the join runs
    uint64_t threads = 0;               // of the CPU's partitioner; 0 = as many as there are cores
    uint64_t budget_ms = 10'000;        // once runs have taken so long, there is one more at most
    CoherentChoices coherent;

    int peer() const { return bench.device == 0 ? 1 : 0; }
    // The other algorithms know no peer.
    bool can_spill_to_peer() const {
        using Algorithm = cuda::BaselineAlgorithm;
        return algorithm == Algorithm::kStaged || algorithm == Algorithm::kStagedUncached ||
               algorithm == Algorithm::kTriton;
    }
    FarPlace spill_place() const { return can_spill_to_peer() ? spill.value_or(inputs) : FarPlace::kHost; }
    bool uses_peer() const { return inputs == FarPlace::kPeer || spill_place() == FarPlace::kPeer; }
    uint32_t build_row_bytes() const;  // key and columns
    uint32_t probe_row_bytes() const;
    uint64_t input_bytes() const {
        return bench.workload.build_rows * build_row_bytes() + bench.workload.probe_rows * probe_row_bytes();
    }
};

// Throws std::invalid_argument. The first argument is "out-of-core".
OutOfCoreOptions parse_out_of_core_options(int count, char** arguments);

}  // namespace spillway::gpu_bench
