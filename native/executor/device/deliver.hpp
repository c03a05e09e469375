// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/job_control.hpp"
#include "device/gpu_table.hpp"
#include "executor/kept_pinned.hpp"
#include "model/batch_sink.hpp"
#include "model/column_type.hpp"

namespace spillway {

struct DeliverColumn {
    TypePtr type;        // of the result column
    int32_t column = 0;  // of the table
};

struct DeliverSpec {
    std::vector<DeliverColumn> columns;
    uint64_t staging_bytes = 0;  // pinned memory of all workers
    int32_t workers = 1;
    // Values of 1, 2, 4, 8 or 16 bytes cross the link in as many bits as they need (api/packed_block.hpp).
    bool packed = false;
};

struct Delivered {
    uint64_t rows = 0;
    uint64_t sent_bytes = 0;  // over the link
};

// Does the GPU column hold what a result column of the type is made of?
bool can_deliver(const cuda::ColumnSpec& column, const ColumnType& type);

// Sends the rows of a table in GPU memory to a sink as Arrow batches of the size it wants.
Delivered deliver_table(const GpuTable& table, const DeliverSpec& spec, KeptPinned& pinned, BatchSink& sink,
                        JobControl& control);

}  // namespace spillway
