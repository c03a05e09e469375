// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/sorted/dictionary.hpp"
#include "staged_group_by/group_partials.hpp"
#include "staged_group_by/staged_group_policy.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

namespace {

// Values of a column that counts where another one has its group's extreme.
struct DecidedValues {
    const uint32_t* group_of = nullptr;   // of each row; nullptr: all are of group 0
    const uint32_t* key_valid = nullptr;  // a bit per row; nullptr: all have keys
    const void* by = nullptr;             // [rows]
    const void* extremes = nullptr;       // [groups]
    const void* values = nullptr;         // [rows]
    void* decided = nullptr;              // [groups]
    uint64_t rows = 0;
    uint32_t by_width = 8;
    uint32_t width = 8;
    GroupAggregateKind kind = GroupAggregateKind::kFirst;
};

__device__ inline bool is_extreme(const DecidedValues& pass, uint64_t row, uint64_t group) {
    if (pass.by_width == 4) {
        return static_cast<const uint32_t*>(pass.by)[row] == static_cast<const uint32_t*>(pass.extremes)[group];
    }
    return static_cast<const uint64_t*>(pass.by)[row] == static_cast<const uint64_t*>(pass.extremes)[group];
}

// Only one row of each group comes here.
__device__ inline void store_value(const DecidedValues& pass, uint64_t row, uint64_t group) {
    switch (pass.width) {
        case 1:
            static_cast<uint8_t*>(pass.decided)[group] = static_cast<const uint8_t*>(pass.values)[row];
            return;
        case 2:
            static_cast<uint16_t*>(pass.decided)[group] = static_cast<const uint16_t*>(pass.values)[row];
            return;
        case 4:
            static_cast<uint32_t*>(pass.decided)[group] = static_cast<const uint32_t*>(pass.values)[row];
            return;
        default:
            static_cast<uint64_t*>(pass.decided)[group] = static_cast<const uint64_t*>(pass.values)[row];
    }
}

// A look tells most rows of a hot group that they change nothing: of n rows in any order some ln(n) do.
__device__ inline void compare_value(const DecidedValues& pass, uint64_t row, uint64_t group) {
    auto* const place = static_cast<unsigned long long*>(pass.decided) + group;
    const unsigned long long value = static_cast<const unsigned long long*>(pass.values)[row];
    if (pass.kind == GroupAggregateKind::kMin) {
        if (value < __ldcg(place)) atomicMin(place, value);
    } else if (value > __ldcg(place)) {
        atomicMax(place, value);
    }
}

// Bytes: the group of a row and its value in the column that decides, and random accesses to that group's extreme and,
// where it has it, to its value.
__global__ void __launch_bounds__(kGroupColumnsThreads)
    decide_values_kernel(const __grid_constant__ DecidedValues pass) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < pass.rows; row += step) {
        if (pass.key_valid != nullptr && (pass.key_valid[row / 32] >> (row % 32) & 1) == 0) continue;
        const uint64_t group = pass.group_of == nullptr ? 0 : pass.group_of[row];
        if (!is_extreme(pass, row, group)) continue;
        if (pass.kind == GroupAggregateKind::kFirst) {
            store_value(pass, row, group);
        } else {
            compare_value(pass, row, group);
        }
    }
}

// Puts the values of the rows with the extremes in the place of those that the group-by took. Enqueued on the device's
// stream.
void decide_values(Device& device, const GroupShape& shape, const GroupByRequest& request, GroupByResult& groups) {
    if (groups.groups == 0) return;
    Allocation group_of;
    if (groups.groups > 1) {
        group_of = encode_keys(device, request.key, request.rows, groups.keys.as(), groups.groups);
    }
    for (const DecidedPartial& decided : shape.decided) {
        const PartialColumn& partial = shape.partials[decided.value];
        const DeviceColumn& by = request.aggregates[decided.by].values;
        const DeviceColumn& values = request.aggregates[decided.value].values;
        DecidedValues pass;
        pass.group_of = group_of.as<const uint32_t>();
        pass.key_valid = request.key_valid;
        pass.by = by.data;
        pass.extremes = groups.values[decided.by].as();
        pass.values = values.data;
        pass.decided = groups.values[decided.value].as();
        pass.rows = request.rows;
        pass.by_width = by.width;
        pass.width = values.width;
        pass.kind = partial.kind;
        if (partial.kind != GroupAggregateKind::kFirst) {
            const int worst = partial.kind == GroupAggregateKind::kMin ? 0xff : 0;
            SPILLWAY_CUDA_CHECK(
                cudaMemsetAsync(pass.decided, worst, groups.groups * sizeof(uint64_t), device.stream()));
        }
        count_moved(device, request.rows * (by.width + (pass.group_of == nullptr ? 0 : sizeof(uint32_t))) +
                                sector_bytes(device, request.rows, by.width, groups.groups * by.width) +
                                groups.groups * (kSectorBytes + values.width));
        launch(decide_values_kernel, grid_over(device, request.rows, kGroupColumnsThreads, kGroupColumnsBlocks),
               dim3(kGroupColumnsThreads), 0, device.stream(), pass);
    }
}

}  // namespace

GroupByResult group_partials(Device& device, const GroupShape& shape, const GroupByRequest& request) {
    GroupByResult groups = group_by(device, request);
    if (groups.has_sum_overflow()) throw Error(ErrorCode::kOverflow, "a sum of integers does not fit 64 bits");
    if (!shape.decided.empty()) decide_values(device, shape, request, groups);
    return groups;
}

}}  // namespace spillway::cuda::staged_group_by
