// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "group_by/tables/aggregate_tiles.cuh"
#include "group_by/tables/group_units.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr unsigned kThreads = 256;

// Partitions of more than `above` rows and at most `most` of them. Bytes: 16 per partition read, a unit written each.
__global__ void list_partitions(const uint64_t* begin, const uint64_t* end, uint64_t partitions, uint64_t above,
                                uint64_t most, uint64_t heavy_rows, uint64_t unit_rows, uint32_t tile_rows,
                                GroupUnit* units, unsigned long long* count) {
    const uint64_t p = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (p >= partitions || begin[p] >= end[p]) return;
    const uint64_t rows = end[p] - begin[p];
    if (rows <= above || rows > most) return;
    const bool is_heavy = rows > heavy_rows;
    const uint64_t each = is_heavy ? unit_rows : rows;
    const uint64_t parts = (rows + each - 1) / each;
    const unsigned long long first = atomicAdd(count, static_cast<unsigned long long>(parts));
    for (uint64_t part = 0; part < parts; ++part) {
        GroupUnit unit{};
        unit.begin = begin[p] + part * each;
        unit.end = min(unit.begin + each, end[p]);
        unit.step_rows = tile_rows;
        unit.merges = is_heavy;
        units[first + part] = unit;
    }
}

// Bytes: a unit written each.
__global__ void list_ranges(uint64_t rows, uint64_t unit_rows, uint32_t tile_rows, GroupUnit* units,
                            unsigned long long* count) {
    const uint64_t number = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t all = (rows + unit_rows - 1) / unit_rows;
    if (number == 0) *count = all;
    if (number >= all) return;
    GroupUnit unit{};
    unit.begin = number * unit_rows;
    unit.end = min(unit.begin + unit_rows, rows);
    unit.step_rows = tile_rows;
    unit.merges_edges = true;
    units[number] = unit;
}

GroupUnits allocate(Device& device, uint64_t most) {
    GroupUnits units;
    units.units = device.memory().allocate(most * sizeof(GroupUnit), "units of a group-by");
    units.numbers = device.memory().allocate(2 * sizeof(unsigned long long), "units of a group-by");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(units.numbers.as(), 0, units.numbers.bytes(), device.stream()));
    return units;
}

}  // namespace

UnitSizes UnitSizes::make(uint64_t rows, uint64_t multiprocessors, uint64_t tile_rows) {
    const double fair_rows = static_cast<double>(rows) / static_cast<double>(multiprocessors);
    UnitSizes sizes;
    sizes.unit_rows = (static_cast<uint64_t>(fair_rows * kUnitShare) / tile_rows + 8) * tile_rows;
    sizes.heavy_rows = std::max(static_cast<uint64_t>(fair_rows * kHeavyPartition), 2 * sizes.unit_rows);
    return sizes;
}

GroupUnits units_of_partitions(Device& device, const PartitionedRows& rows, uint64_t all_rows, const UnitSizes& sizes,
                               uint32_t tile_rows) {
    GroupUnits units = allocate(device, rows.partitions() + all_rows / sizes.unit_rows + 1);
    // Large ones first: one that is begun last keeps all other multiprocessors waiting.
    const auto list = [&](uint64_t above, uint64_t most) {
        launch(list_partitions, grid_of_threads(rows.partitions(), kThreads), dim3(kThreads), 0, device.stream(),
               rows.begin.as<const uint64_t>(), rows.end.as<const uint64_t>(), rows.partitions(), above, most,
               sizes.heavy_rows, sizes.unit_rows, tile_rows, units.units.as<GroupUnit>(),
               units.numbers.as<unsigned long long>());
    };
    const uint64_t large = sizes.heavy_rows / 2;
    list(large, all_rows);
    list(0, large);
    return units;
}

GroupUnits units_of_sorted_rows(Device& device, uint64_t rows, uint64_t unit_rows, uint32_t tile_rows) {
    const uint64_t all = (rows + unit_rows - 1) / unit_rows;
    GroupUnits units = allocate(device, all + 1);
    launch(list_ranges, grid_of_threads(all, kThreads), dim3(kThreads), 0, device.stream(), rows, unit_rows, tile_rows,
           units.units.as<GroupUnit>(), units.numbers.as<unsigned long long>());
    return units;
}

}}  // namespace spillway::cuda::grouping
