// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "memory_model/stream_memory.hpp"
#include "stream/parcels.hpp"

namespace spillway::cuda { inline namespace stream {

struct RowCopy {
    uint64_t from = 0;  // rows
    uint64_t to = 0;
    uint64_t rows = 0;
};
static_assert(sizeof(RowCopy) == kRowCopyBytes);

// Copies ranges of packed rows within device memory; the ranges do not overlap. Reads and writes each row once.
void copy_rows(Device& device, Parcels& parcels, const uint32_t* from, uint32_t* to, uint32_t row_words,
               const std::vector<RowCopy>& copies);

}}  // namespace spillway::cuda::stream
