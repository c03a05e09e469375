// SPDX-License-Identifier: Apache-2.0
// spillway_gpu_bench --build-rows N --probe-rows N [--key-bytes 4|8] [--build-payload 4,4] [--probe-payload 4,4]
//     [--match-ratio X] [--zipf S] [--distinct N] [--type inner|left|right|full|semi|anti|right-semi|right-anti]
//     [--algorithm NAME ...] [--row-words-max N] [--radix-bits N]
//     [--samples N] [--warmup N] [--memory-limit BYTES] [--seed N] [--device N]
// Generates two relations in the memory of a GPU, joins them some times there by each algorithm, checks its last result
// and writes a line of JSON. Exit code 1: the result is wrong, or the run failed; 2: no GPU, or an option is wrong.
// spillway_gpu_bench group-by --rows N --groups N [--key-bytes 4|8] [--payload 4,4] [--zipf S] --algorithm NAME ...
//     [--samples N] [--warmup N] [--memory-limit BYTES] [--seed N] [--device N]
// The same of a group-by, a line of JSON for each algorithm.
// spillway_gpu_bench out-of-core --build-rows N --probe-rows N [--payload-values dense|random]
//     [--result count|sums|rows] [--inputs host|peer] [--spill host|peer] [--memory-limit BYTES] --radix-bits N
//     --chunk-rows N --chunk-slots N --page-rows N --pages N --result-rows N --result-slots N --spill-block-bytes N
//     --spill-bytes N --resident-partitions N --filter-words N [--budget-ms N] [--busy-multiprocessors N]
//     [--algorithm triton --partitioner NAME --grid N --gather-grid N --gather-alone 0|1 --gather-probe 0|1
//     --second-pass 0|1 --group-rows N --device-pages K --far-pages M]
// The same of a join of relations in pinned host memory or in another GPU's, 8-byte columns unless said otherwise.
// Sizes have no default: npm run bench:gpu passes those that the planner of the package chooses.
// spillway_gpu_bench out-of-core-group-by --rows N --groups N [--aggregate sum|max|min|count] [--payload 4|8]
//     [--value-bits N] [--zipf S] [--pre-aggregation auto|always|never] [--memory-limit BYTES] --merge-rows N ...
//     and the other sizes of a join, but for resident partitions and a filter
// The same of a group-by of rows in pinned host memory.
// spillway_gpu_bench partition --rows N [--tuple-bytes 8|16] --bits N[..N][,N...] --partitioner NAME ...
//     [--source host|device|peer] [--destination host|device|peer] [--form pages|contiguous] [--histogram gpu|cpu]
//     [--page-bytes N] [--grid N] [--second-level-bytes N] [--buffer-bytes N] [--samples N] [--warmup N]
//     [--budget-ms N] [--memory-limit BYTES] [--seed N] [--device N]
// Partitioners over far memory, a line of JSON for each one and each number of bits.
// spillway_gpu_bench tiers [--bytes N] [--samples N] [--stripes 2,16,64] [--device N]
// What memory of each tier costs to get, and how fast kernels stream through it.
#include <cstdio>
#include <stdexcept>
#include <string>

#include "group_bench.hpp"
#include "measure.hpp"
#include "partition_bench.hpp"
#include "staged_group_bench.hpp"
#include "stream_bench.hpp"
#include "tier_bench.hpp"

namespace spillway::gpu_bench {

const Algorithm& find_algorithm(const std::string& name, const Workload& workload) {
    std::string names;
    std::vector<const Algorithm*> algorithms = {
        &kRadixHashJoin,   &kRadixHashCount,  &kBucketChainJoin,  &kSharedHistogramJoin,    &kNoPartitioningJoin,
        &kPerfectHashJoin, &kSortMergeGather, &kSortMergeColumns, &kSortMergeGatherAllBits, &kSortMergeColumnsAllBits,
        &kMergeSortJoin,   &kGftrJoin,        &kGftrJoinByBlock,  &kCubSortMerge,           &kCudfLikeJoin,
        &kHeEtAlJoin};
    for (const Algorithm& variant : kSharedHistogramVariants) algorithms.push_back(&variant);
    for (const Algorithm* algorithm : algorithms) {
        if (name == algorithm->name) {
            if (!workload.unique_build_keys() && !algorithm->m_to_n) {
                throw std::invalid_argument("Expected no --distinct: '" + name + "' joins unique build keys only.");
            }
            if (!workload.kind.inner() && algorithm->inner_only) {
                throw std::invalid_argument("Expected inner for --type: '" + name + "' does no other joins.");
            }
            return *algorithm;
        }
        names += std::string(names.empty() ? "'" : "', '") + algorithm->name;
    }
    throw std::invalid_argument("Expected one of " + names + "' for --algorithm but received '" + name + "'.");
}

std::string device_obstacle(int ordinal) {
    int count = 0;
    int driver = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && ordinal < count) return "";
    if (status == cudaSuccess) return "there are " + std::to_string(count) + " devices";
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "no NVIDIA driver is installed";
    return cudaGetErrorString(status);
}

namespace {

int run(int count, char** arguments) {
    const BenchOptions options = parse_bench_options(count, arguments);
    for (const std::string& name : options.algorithms) find_algorithm(name, options.workload);
    const std::string obstacle = device_obstacle(options.device);
    if (!obstacle.empty()) {
        std::fprintf(stderr, "Nothing was measured: no GPU can be used (%s).\n", obstacle.c_str());
        return kNothingRan;
    }
    cuda::Device device(options.device, options.memory_limit);
    const Inputs inputs = make_inputs(device, options.workload, options.seed);
    bool is_right = true;
    for (const std::string& name : options.algorithms) {
        const Algorithm& algorithm = find_algorithm(name, options.workload);
        const Measurement measurement = measure(device, algorithm, options, inputs);
        std::printf("%s\n", to_json(device, algorithm, options, measurement).c_str());
        std::fflush(stdout);  // what is measured stays so whatever comes next
        is_right = is_right && measurement.verdict.problem.empty();
    }
    return is_right ? 0 : 1;
}

}  // namespace

}  // namespace spillway::gpu_bench

int main(int count, char** arguments) {
    try {
        const std::string command = count > 1 ? arguments[1] : "";
        if (command == "group-by") return spillway::gpu_bench::run_group_bench(count, arguments);
        if (command == "out-of-core") return spillway::gpu_bench::run_out_of_core_bench(count, arguments);
        if (command == "out-of-core-group-by") {
            return spillway::gpu_bench::run_out_of_core_group_bench(count, arguments);
        }
        if (command == "partition") return spillway::gpu_bench::run_partition_bench(count, arguments);
        if (command == "tiers") return spillway::gpu_bench::run_tier_bench(count, arguments);
        return spillway::gpu_bench::run(count, arguments);
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return spillway::gpu_bench::kNothingRan;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "The run ended early: %s\n", error.what());
        return 1;
    }
}
