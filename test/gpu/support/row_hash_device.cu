// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "support/device_array.hpp"

namespace spillway::gpu_test {

namespace {

constexpr int kBlockThreads = 256;
constexpr int kBlocks = 1024;  // enough for any device of today; the rows are strided over them
constexpr size_t kColumnsMax = 64;

struct KernelColumns {
    HashColumn column[kColumnsMax];
    uint32_t count;
};

struct States {
    unsigned long long low;
    unsigned long long high;
};

__device__ void take(uint64_t word, uint64_t step, States& state) {
    uint64_t x = (state.low ^ word) + step;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    state.low = x ^ (x >> 31);
    uint64_t y = (state.high ^ word) + step;
    y = (y ^ (y >> 33)) * 0xff51afd7ed558ccdULL;
    y = (y ^ (y >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    state.high = y ^ (y >> 33);
}

__device__ uint64_t first_word(const HashColumn& column, uint64_t row) {
    switch (column.width) {
        case 1:
            return static_cast<const uint8_t*>(column.values)[row];
        case 2:
            return static_cast<const uint16_t*>(column.values)[row];
        case 4:
            return static_cast<const uint32_t*>(column.values)[row];
        case 8:
            return static_cast<const uint64_t*>(column.values)[row];
        default:
            return static_cast<const uint64_t*>(column.values)[2 * row];
    }
}

__global__ void sum_row_hashes(const __grid_constant__ KernelColumns columns, uint64_t rows, States* sums) {
    States sum{0, 0};
    const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t row = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < rows; row += stride) {
        States state{kLowStart, kHighStart};
        for (uint32_t c = 0; c < columns.count; ++c) {
            const HashColumn& column = columns.column[c];
            if (column.valid_bits != nullptr && ((column.valid_bits[row / 8] >> (row % 8)) & 1) == 0) {
                take(0, kNullStep, state);
                continue;
            }
            take(first_word(column, row), kValueStep, state);
            if (column.width == 16) {
                take(static_cast<const uint64_t*>(column.values)[2 * row + 1], kValueStep, state);
            }
        }
        sum.low += state.low;
        sum.high += state.high;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        sum.low += __shfl_down_sync(0xffffffffu, sum.low, lanes);
        sum.high += __shfl_down_sync(0xffffffffu, sum.high, lanes);
    }
    if (threadIdx.x % 32 != 0) return;
    atomicAdd(&sums->low, sum.low);
    atomicAdd(&sums->high, sum.high);
}

}  // namespace

RowHash device_row_hash(const std::vector<HashColumn>& columns, uint64_t rows, cudaStream_t stream) {
    if (columns.size() > kColumnsMax) throw std::invalid_argument("more columns than a row hash takes");
    KernelColumns given{};
    given.count = static_cast<uint32_t>(columns.size());
    for (size_t c = 0; c < columns.size(); ++c) {
        check_hash_width(columns[c].width);
        const uint64_t alignment = columns[c].width == 16 ? 8 : columns[c].width;
        if (reinterpret_cast<uintptr_t>(columns[c].values) % alignment != 0) {
            throw std::invalid_argument("a column does not lie at a multiple of its width");
        }
        given.column[c] = columns[c];
    }
    DeviceArray<States> sums(1);
    CHECK_CUDA(cudaMemsetAsync(sums.data(), 0, sizeof(States), stream));
    if (rows > 0) {
        sum_row_hashes<<<kBlocks, kBlockThreads, 0, stream>>>(given, rows, sums.data());
        CHECK_CUDA(cudaGetLastError());
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    const States found = download(sums).front();
    return {found.low, found.high};
}

}  // namespace spillway::gpu_test
