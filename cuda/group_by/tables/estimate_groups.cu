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
constexpr uint32_t kTileRows = kEstimateThreads * kEstimateRows;
// A sample has registers for one half of it and for the other, each of every second tile.
constexpr int kHalves = 2;

// Looks at every period-th tile of the keys. Bytes: those tiles once; a block's registers once more at its end, unless
// other blocks have seen as much before it.
template <int kKeyWords>
__global__ void __launch_bounds__(kEstimateThreads)
    count_leading_zeros(const typename MixedKey<kKeyWords>::Key* keys, const uint32_t* valid, uint64_t rows,
                        uint64_t period, uint32_t* longest) {
    using Key = typename MixedKey<kKeyWords>::Key;
    __shared__ unsigned int own[kHalves * kRegisters];
    for (uint32_t i = threadIdx.x; i < kHalves * kRegisters; i += kEstimateThreads) own[i] = 0;
    __syncthreads();
    const uint64_t tile_step = period * kTileRows;
    const uint64_t tiles = (rows + tile_step - 1) / tile_step;
    for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        unsigned int* const half = own + tile % kHalves * kRegisters;
        const uint64_t first = tile * tile_step + threadIdx.x;
        Key key[kEstimateRows];
        bool is_there[kEstimateRows];
#pragma unroll
        for (int r = 0; r < kEstimateRows; ++r) {
            const uint64_t row = first + r * kEstimateThreads;
            is_there[r] = row < rows && (valid == nullptr || (__ldg(&valid[row / 32]) >> (row % 32) & 1) != 0);
            key[r] = is_there[r] ? __ldcs(&keys[row]) : 0;
        }
#pragma unroll
        for (int r = 0; r < kEstimateRows; ++r) {
            if (!is_there[r]) continue;
            const auto top = static_cast<uint32_t>(MixedKey<kKeyWords>::mix(key[r]) >> (32 * (kKeyWords - 1)));
            // The bit below keeps keys that end in zeros finite.
            const uint32_t length = 1 + __clz(static_cast<int>(top << kEstimateBits | 1U << (kEstimateBits - 1)));
            unsigned int* const place = &half[top >> (32 - kEstimateBits)];
            if (length > BlockSlots<1>::look(place)) atomicMax(place, length);
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kHalves * kRegisters; i += kEstimateThreads) {
        if (own[i] > 0 && own[i] > __ldcg(&longest[i])) atomicMax(&longest[i], own[i]);
    }
}

using Registers = std::array<uint32_t, kRegisters>;
using HalfRegisters = std::array<Registers, kHalves>;

// A power for each length and not for each register, of which there are thousands: the device waits meanwhile.
double estimate_of(const Registers& longest) {
    std::array<uint32_t, 34> registers_of = {};
    for (const uint32_t length : longest) ++registers_of[length];
    double sum = 0;
    for (int length = 0; length < static_cast<int>(registers_of.size()); ++length) {
        sum += std::ldexp(static_cast<double>(registers_of[length]), -length);
    }
    const double empty = registers_of[0];
    constexpr double kCount = kRegisters;
    const double raw = 0.7213 / (1 + 1.079 / kCount) * kCount * kCount / sum;
    return raw <= 2.5 * kCount && empty > 0 ? kCount * std::log(kCount / empty) : raw;
}

double estimate_of_both(HalfRegisters longest) {
    for (uint32_t i = 0; i < kRegisters; ++i) longest[0][i] = std::max(longest[0][i], longest[1][i]);
    return estimate_of(longest[0]);
}

// Waits for the device.
HalfRegisters look_at_keys(Device& device, const GroupByRequest& request, uint64_t period) {
    const PhaseScope transform(device, Phase::kTransform);
    count_moved(device, request.rows / period * request.key.width);
    const cudaStream_t stream = device.stream();
    const Allocation registers = device.memory().allocate(sizeof(HalfRegisters), "estimate of groups");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(registers.as(), 0, registers.bytes(), stream));
    const dim3 grid = grid_over(device, request.rows / period + 1, kTileRows, 2);
    if (request.key.width == 4) {
        launch(count_leading_zeros<1>, grid, dim3(kEstimateThreads), 0, stream,
               static_cast<const uint32_t*>(request.key.data), request.key_valid, request.rows, period,
               registers.as<uint32_t>());
    } else {
        launch(count_leading_zeros<2>, grid, dim3(kEstimateThreads), 0, stream,
               static_cast<const uint64_t*>(request.key.data), request.key_valid, request.rows, period,
               registers.as<uint32_t>());
    }
    return read_published<HalfRegisters>(device, registers.as());
}

// Whether `rows` rows of `groups` groups that are all as frequent would have so many different keys.
bool agrees(double distinct, double rows, double groups) {
    const double expected = -groups * std::expm1(-rows / groups);
    return std::abs(distinct - expected) <= kTrustedDeviation * expected + 1;
}

}  // namespace

uint64_t estimate_groups(Device& device, const GroupByRequest& request) {
    // A group per row at most; for few rows that is all that is needed.
    if (request.rows <= kRegisters) return std::max<uint64_t>(request.rows, 1);
    const double groups = estimate_of_both(look_at_keys(device, request, 1));
    return std::min(static_cast<uint64_t>(groups) + 1, request.rows);
}

uint64_t check_groups(Device& device, const GroupByRequest& request, uint64_t groups) {
    // An attempt that fails costs less there than to ask.
    if (request.rows < kEstimateSamplePeriod * kEstimateSampleRowsMin) return groups;
    const HalfRegisters longest = look_at_keys(device, request, kEstimateSamplePeriod);
    const auto sampled = static_cast<double>(request.rows) / static_cast<double>(kEstimateSamplePeriod);
    const auto expected = static_cast<double>(std::max<uint64_t>(groups, 1));
    const bool is_plausible = agrees(estimate_of_both(longest), sampled, expected) &&
                              agrees(estimate_of(longest[0]), sampled / kHalves, expected);
    return is_plausible ? groups : estimate_groups(device, request);
}

}}  // namespace spillway::cuda::grouping
