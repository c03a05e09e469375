// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/nearest_mean.cuh"
#include "staged_group_by/group_columns.hpp"
#include "staged_group_by/staged_group_policy.hpp"
#include "stream/write_result.cuh"

namespace spillway::cuda { inline namespace staged_group_by {

namespace {

static_assert(sizeof(RowsToColumns) <= 4096 && sizeof(GroupsToWrite) <= 4096, "parameters of a kernel");
static_assert(kTileRows % kStreamThreads == 0, "all lanes of a warp take part in every round");

// A block per tile. Rows of a slice get their places by one atomic operation per warp and round.
template <int kKeyWords>
__global__ void rows_to_columns_kernel(const __grid_constant__ RowsToColumns pass) {
    const RowTile tile = row_tile(pass.tiles);
    const uint64_t begin = pass.tiles.piece[tile.piece].begin + tile.offset;
    for (uint32_t i = threadIdx.x; i < kTileRows; i += kStreamThreads) {
        const uint32_t* const row = pass.rows + (begin + i) * pass.row_words;
        bool wanted = i < tile.rows;
        uint64_t place = pass.first_row[tile.piece] + tile.offset + i;
        if (pass.slice.bits > 0) {
            if (wanted) {
                wanted =
                    bucket_of<kKeyWords>(row_key<kKeyWords>(row), pass.radix_bits, pass.slice.bits) == pass.slice.value;
            }
            const uint32_t lanes = __ballot_sync(kFullWarp, wanted);
            unsigned long long first = 0;
            if (lane_index() == 0 && lanes != 0) {
                first = atomicAdd(pass.count, static_cast<unsigned long long>(__popc(lanes)));
            }
            place = __shfl_sync(kFullWarp, first, 0) + __popc(lanes & lanes_below());
        }
        if (wanted && place < pass.columns.rows) write_result<kKeyWords>(pass.columns, place, row, nullptr, true);
    }
}

__device__ inline uint64_t widened(const void* from, uint32_t width, ValueKind kind, uint64_t row) {
    const bool is_signed = kind == ValueKind::kSigned;
    switch (width) {
        case 1: {
            const uint8_t value = static_cast<const uint8_t*>(from)[row];
            return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(value))) : value;
        }
        case 2: {
            const uint16_t value = static_cast<const uint16_t*>(from)[row];
            return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int16_t>(value))) : value;
        }
        default: {
            const uint32_t value = static_cast<const uint32_t*>(from)[row];
            if (kind == ValueKind::kFloat) {
                return static_cast<uint64_t>(__double_as_longlong(static_cast<double>(__uint_as_float(value))));
            }
            return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value))) : value;
        }
    }
}

template <class Body>
__device__ inline void for_each_index(uint64_t count, const Body& body) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

__global__ void widen_kernel(const void* from, uint32_t width, ValueKind kind, uint64_t rows, uint64_t* to) {
    for_each_index(rows, [&](uint64_t row) { to[row] = widened(from, width, kind, row); });
}

__global__ void fill_ones_kernel(uint64_t* to, uint64_t rows) {
    for_each_index(rows, [&](uint64_t row) { to[row] = 1; });
}

template <int kKeyWords>
__global__ void mix_kernel(const void* keys, void* to, uint64_t rows) {
    using Mixed = MixedKey<kKeyWords>;
    const auto* const key = static_cast<const typename Mixed::Key*>(keys);
    auto* const mixed = static_cast<typename Mixed::Key*>(to);
    for_each_index(rows, [&](uint64_t row) { mixed[row] = Mixed::mix(key[row]); });
}

template <int kKeyWords>
__global__ void unmix_kernel(void* keys, uint64_t rows) {
    using Mixed = MixedKey<kKeyWords>;
    auto* const key = static_cast<typename Mixed::Key*>(keys);
    for_each_index(rows, [&](uint64_t row) { key[row] = Mixed::unmix(key[row]); });
}

__global__ void invert_kernel(const uint32_t* from, uint32_t* to, uint64_t words) {
    for_each_index(words, [&](uint64_t word) { to[word] = ~from[word]; });
}

__device__ inline double mean_of(const GroupColumn& column, uint64_t at) {
    const uint64_t sum = static_cast<const uint64_t*>(column.from)[at];
    const uint64_t count = column.counts[at];
    if (column.field == GroupField::kMeanFloat) {
        return __longlong_as_double(static_cast<long long>(sum)) / static_cast<double>(count);
    }
    const bool is_signed = column.field == GroupField::kMeanSigned;
    return nearest_mean(is_signed ? __int128{static_cast<int64_t>(sum)} : __int128{sum}, count);
}

__device__ inline void copy_value(const GroupColumn& column, uint64_t from, uint64_t to) {
    const bool zero = column.from == nullptr;
    switch (column.width) {
        case 1:
            static_cast<uint8_t*>(column.to)[to] = zero ? 0 : static_cast<const uint8_t*>(column.from)[from];
            return;
        case 2:
            static_cast<uint16_t*>(column.to)[to] = zero ? 0 : static_cast<const uint16_t*>(column.from)[from];
            return;
        case 4:
            static_cast<uint32_t*>(column.to)[to] = zero ? 0 : static_cast<const uint32_t*>(column.from)[from];
            return;
        default:
            static_cast<uint64_t*>(column.to)[to] = zero ? 0 : static_cast<const uint64_t*>(column.from)[from];
    }
}

__global__ void write_groups_kernel(const __grid_constant__ GroupsToWrite groups) {
    for_each_index(groups.rows, [&](uint64_t row) {
        for (int32_t c = 0; c < groups.columns; ++c) {
            const GroupColumn& column = groups.column[c];
            if (column.field == GroupField::kCopy) {
                copy_value(column, groups.first + row, row);
            } else if (column.field == GroupField::kPresence) {
                static_cast<uint8_t*>(column.to)[row] = static_cast<uint8_t>(groups.has_key);
            } else {
                static_cast<double*>(column.to)[row] = mean_of(column, groups.first + row);
            }
        }
    });
}

dim3 grid_for(Device& device, uint64_t count) {
    return grid_over(device, count, kGroupColumnsThreads, kGroupColumnsBlocks);
}

}  // namespace

void rows_to_columns(Device& device, const RowsToColumns& pass) {
    launch(pass.columns.key_bytes == 4 ? rows_to_columns_kernel<1> : rows_to_columns_kernel<2>,
           dim3(static_cast<unsigned>(pass.tiles.tiles)), dim3(kStreamThreads), 0, device.stream(), pass);
}

void widen_values(Device& device, const DeviceColumn& from, ValueKind kind, uint64_t rows, void* to) {
    count_moved(device, rows * (from.width + 8));
    launch(widen_kernel, grid_for(device, rows), dim3(kGroupColumnsThreads), 0, device.stream(), from.data, from.width,
           kind, rows, static_cast<uint64_t*>(to));
}

void fill_ones(Device& device, uint64_t* to, uint64_t rows) {
    launch(fill_ones_kernel, grid_for(device, rows), dim3(kGroupColumnsThreads), 0, device.stream(), to, rows);
}

void mix_keys(Device& device, const void* keys, void* to, uint32_t key_bytes, uint64_t rows) {
    count_moved(device, 2 * rows * key_bytes);
    launch(key_bytes == 4 ? mix_kernel<1> : mix_kernel<2>, grid_for(device, rows), dim3(kGroupColumnsThreads), 0,
           device.stream(), keys, to, rows);
}

void unmix_keys(Device& device, void* keys, uint32_t key_bytes, uint64_t rows) {
    if (rows == 0) return;
    launch(key_bytes == 4 ? unmix_kernel<1> : unmix_kernel<2>, grid_for(device, rows), dim3(kGroupColumnsThreads), 0,
           device.stream(), keys, rows);
}

void invert_validity(Device& device, const uint32_t* from, uint32_t* to, uint64_t rows) {
    const uint64_t words = (rows + 31) / 32;
    launch(invert_kernel, grid_for(device, words), dim3(kGroupColumnsThreads), 0, device.stream(), from, to, words);
}

void write_groups(Device& device, const GroupsToWrite& groups) {
    launch(write_groups_kernel, grid_for(device, groups.rows), dim3(kGroupColumnsThreads), 0, device.stream(), groups);
}

}}  // namespace spillway::cuda::staged_group_by
