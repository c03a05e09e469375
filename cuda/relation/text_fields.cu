// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "relation/byte_words.cuh"
#include "relation/relation_grid.cuh"
#include "relation/text_fields.hpp"

namespace spillway::cuda { inline namespace relation {

namespace {

// Columns that one launch looks at: 1 KiB of what a kernel may be given.
constexpr size_t kTextColumnsMax = 64;
struct TextColumns {
    TextColumn column[kTextColumnsMax];
};

// Bytes: the offsets once. A column for each row of blocks.
__global__ void __launch_bounds__(kRelationThreads)
    longest_texts_kernel(const __grid_constant__ TextColumns columns, unsigned long long* longest) {
    const TextColumn& column = columns.column[blockIdx.y];
    unsigned long long mine = 0;
    for_rows(column.rows, [&](uint64_t row) {
        const unsigned long long bytes = __ldg(&column.offsets[row + 1]) - __ldg(&column.offsets[row]);
        mine = max(mine, bytes);
    });
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        mine = max(mine, __shfl_xor_sync(kFullWarp, mine, distance));
    }
    if (lane_index() == 0 && mine > 0) atomicMax(&longest[blockIdx.y], mine);
}

// Bytes: offsets, validity and the bytes of the strings once, a field written.
template <int kWords>
__global__ void __launch_bounds__(kRelationThreads)
    text_fields_kernel(const uint8_t* __restrict__ values, const uint64_t* __restrict__ offsets,
                       const uint32_t* __restrict__ valid, uint64_t rows, uint32_t* __restrict__ fields) {
    for_rows(rows, [&](uint64_t row) {
        const uint64_t begin = __ldg(&offsets[row]);
        const uint64_t bytes = is_set(valid, row) ? __ldg(&offsets[row + 1]) - begin : 0;
        ByteWords text({values + begin, bytes});
        uint32_t word[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) word[w] = text.more() ? text.next() : 0;
        word[kWords - 1] |= static_cast<uint32_t>(bytes) << 24;
        if constexpr (kWords == 4) {
            reinterpret_cast<uint4*>(fields)[row] = make_uint4(word[0], word[1], word[2], word[3]);
        } else if constexpr (kWords == 2) {
            reinterpret_cast<uint2*>(fields)[row] = make_uint2(word[0], word[1]);
        } else {
            fields[row] = word[0];
        }
    });
}

}  // namespace

std::vector<uint64_t> longest_texts(Device& device, const std::vector<TextColumn>& columns) {
    std::vector<unsigned long long> longest(columns.size());
    if (columns.empty()) return {};
    const uint64_t bytes = longest.size() * sizeof(longest[0]);
    const Allocation memory = device.memory().allocate(bytes, "longest strings of columns");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, bytes, device.stream()));
    for (size_t first = 0; first < columns.size(); first += kTextColumnsMax) {
        TextColumns some;
        const size_t count = std::min(columns.size() - first, kTextColumnsMax);
        uint64_t rows = 0;
        for (size_t c = 0; c < count; ++c) {
            some.column[c] = columns[first + c];
            rows = std::max(rows, some.column[c].rows);
            count_moved(device, some.column[c].rows * sizeof(uint64_t));
        }
        if (rows == 0) continue;
        const dim3 grid(relation_grid(device, rows).x, static_cast<unsigned>(count));
        launch(longest_texts_kernel, grid, dim3(kRelationThreads), 0, device.stream(), some,
               memory.as<unsigned long long>() + first);
    }
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(longest.data(), memory.as(), bytes, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return {longest.begin(), longest.end()};
}

Allocation text_fields(Device& device, const TableColumn& column, uint64_t rows, uint32_t width) {
    Allocation fields = device.memory().allocate(rows * width, "fields of strings");
    count_moved(device, rows * (sizeof(uint64_t) + width) + column.bytes + (column.validity ? rows / 8 : 0));
    const auto kernel = width == 4 ? text_fields_kernel<1> : width == 8 ? text_fields_kernel<2> : text_fields_kernel<4>;
    launch(kernel, relation_grid(device, rows), dim3(kRelationThreads), 0, device.stream(),
           column.values.as<const uint8_t>(), column.offsets.as<const uint64_t>(), column.validity.as<const uint32_t>(),
           rows, fields.as<uint32_t>());
    return fields;
}

}}  // namespace spillway::cuda::relation
