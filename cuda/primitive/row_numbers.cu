// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/row_numbers.hpp"
#include "primitive/row_numbers_policy.hpp"

namespace spillway::cuda { inline namespace primitive {

namespace {

template <class Body>
__device__ void for_numbers(uint64_t count, const Body& body) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

// Bytes: 4 or 8 written per row.
template <class Number>
__global__ void __launch_bounds__(kNumberThreads) number_rows_kernel(uint64_t rows, Number* numbers) {
    for_numbers(rows, [&](uint64_t row) { numbers[row] = static_cast<Number>(row); });
}

// Bytes: a bit written per row.
__global__ void __launch_bounds__(kNumberThreads) mark_first_kernel(uint64_t count, uint64_t keyed, uint32_t* words) {
    for_numbers(count, [&](uint64_t word) {
        const uint64_t first = word * 32;
        words[word] = keyed >= first + 32 ? ~0U : keyed <= first ? 0 : (1U << (keyed - first)) - 1;
    });
}

dim3 number_grid(const Device& device, uint64_t items) {
    return grid_over(device, items, kNumberThreads, kNumberBlocksPerMultiprocessor);
}

}  // namespace

void number_rows(Device& device, uint64_t rows, uint32_t width, void* numbers) {
    count_moved(device, rows * width);
    const dim3 grid = number_grid(device, rows);
    if (width == 4) {
        launch(number_rows_kernel<uint32_t>, grid, dim3(kNumberThreads), 0, device.stream(), rows,
               static_cast<uint32_t*>(numbers));
    } else {
        launch(number_rows_kernel<uint64_t>, grid, dim3(kNumberThreads), 0, device.stream(), rows,
               static_cast<uint64_t*>(numbers));
    }
}

void mark_first_rows(Device& device, uint64_t rows, uint64_t keyed, uint32_t* words) {
    const uint64_t count = (rows + 31) / 32;
    count_moved(device, count * sizeof(uint32_t));
    launch(mark_first_kernel, number_grid(device, count), dim3(kNumberThreads), 0, device.stream(), count, keyed,
           words);
}

}}  // namespace spillway::cuda::primitive
