// SPDX-License-Identifier: Apache-2.0
// HyperLogLog (Flajolet et al., AofA 2007) over the mixed keys, with linear counting for few groups. Bytes: the key
// column once, bound by bandwidth; the registers are in shared memory until a block ends. A look at the register tells
// nearly every row that it changes nothing, so that hot keys cost nothing.
#include <algorithm>
#include <array>
#include <cmath>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/estimate_groups.hpp"
#include "group_by/tables/slot_words.cuh"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr uint32_t kRegisters = 1U << kEstimateBits;

template <int kKeyWords>
__global__ void __launch_bounds__(kEstimateThreads)
    count_leading_zeros(const typename MixedKey<kKeyWords>::Key* keys, const uint32_t* valid, uint64_t rows,
                        uint32_t* longest) {
    __shared__ unsigned int own[kRegisters];
    for (uint32_t i = threadIdx.x; i < kRegisters; i += kEstimateThreads) own[i] = 0;
    __syncthreads();
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * kEstimateThreads;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * kEstimateThreads + threadIdx.x; row < rows; row += step) {
        if (valid != nullptr && (__ldg(&valid[row / 32]) >> (row % 32) & 1) == 0) continue;
        const auto mixed = MixedKey<kKeyWords>::mix(__ldcs(&keys[row]));
        const auto top = static_cast<uint32_t>(mixed >> (32 * (kKeyWords - 1)));
        // The bit below keeps keys that end in zeros finite.
        const uint32_t length = 1 + __clz(static_cast<int>(top << kEstimateBits | 1U << (kEstimateBits - 1)));
        unsigned int* const place = &own[top >> (32 - kEstimateBits)];
        if (length > BlockSlots<1>::look(place)) atomicMax(place, length);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kRegisters; i += kEstimateThreads) {
        if (own[i] > 0) atomicMax(&longest[i], own[i]);
    }
}

using Registers = std::array<uint32_t, kRegisters>;

uint64_t estimate_of(const Registers& longest) {
    double sum = 0;
    double empty = 0;
    for (const uint32_t length : longest) {
        sum += std::exp2(-static_cast<double>(length));
        if (length == 0) ++empty;
    }
    constexpr double kCount = kRegisters;
    const double raw = 0.7213 / (1 + 1.079 / kCount) * kCount * kCount / sum;
    const double estimate = raw <= 2.5 * kCount && empty > 0 ? kCount * std::log(kCount / empty) : raw;
    return static_cast<uint64_t>(estimate) + 1;
}

}  // namespace

uint64_t estimate_groups(Device& device, const GroupByRequest& request) {
    // A group per row at most; for few rows that is all that is needed.
    if (request.rows <= kRegisters) return std::max<uint64_t>(request.rows, 1);
    const PhaseScope transform(device, Phase::kTransform);
    count_moved(device, request.rows * request.key.width);
    const cudaStream_t stream = device.stream();
    const Allocation registers = device.memory().allocate(kRegisters * sizeof(uint32_t), "estimate of groups");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(registers.as(), 0, registers.bytes(), stream));
    const dim3 grid = grid_over(device, request.rows, kEstimateThreads, 2);
    if (request.key.width == 4) {
        launch(count_leading_zeros<1>, grid, dim3(kEstimateThreads), 0, stream,
               static_cast<const uint32_t*>(request.key.data), request.key_valid, request.rows,
               registers.as<uint32_t>());
    } else {
        launch(count_leading_zeros<2>, grid, dim3(kEstimateThreads), 0, stream,
               static_cast<const uint64_t*>(request.key.data), request.key_valid, request.rows,
               registers.as<uint32_t>());
    }
    return std::min(estimate_of(read_published<Registers>(device, registers.as())), request.rows);
}

}}  // namespace spillway::cuda::grouping
