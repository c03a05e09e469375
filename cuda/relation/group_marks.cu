// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "relation/group_marks.hpp"
#include "relation/relation_grid.hpp"
#include "relation/warp_rows.cuh"

namespace spillway::cuda { inline namespace relation {

namespace {

// Bytes: a row number and a random access per row that is marked.
__global__ void mark(const void* rows, uint32_t row_width, uint64_t count, uint8_t* marks) {
    for_rows(count, [&](uint64_t i) {
        marks[row_width == 4 ? static_cast<const uint32_t*>(rows)[i] : static_cast<const uint64_t*>(rows)[i]] = 1;
    });
}

}  // namespace

void mark_rows(Device& device, const void* rows, uint32_t row_width, uint64_t count, uint64_t of_rows, uint8_t* marks) {
    count_moved(device, count * row_width + sector_bytes(device, count, 1, of_rows));
    launch(mark, relation_grid(device, count), dim3(kRelationThreads), 0, device.stream(), rows, row_width, count,
           marks);
}

}}  // namespace spillway::cuda::relation
