// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/job_control.hpp"
#include "device/gpu_table.hpp"
#include "executor/kept_pinned.hpp"
#include "transfer/source.hpp"

namespace spillway {

struct UploadColumn {
    int32_t column = 0;
    bool decode = false;  // dictionary columns: the values instead of the indices
    // Values of 1, 2, 4, 8 or 16 bytes, and indices, cross the link in as many bits as they need
    // (api/packed_block.hpp).
    bool packed = false;
};

struct UploadSpec {
    std::vector<UploadColumn> columns;
    uint64_t staging_bytes = 0;  // pinned memory of all workers
    int32_t workers = 1;
};

// Types of columns that can be uploaded: everything but nested ones and unions.
bool can_upload(const ColumnType& type);

struct Uploaded {
    GpuTable table;
    uint64_t sent_bytes = 0;  // over the link
};

// Columns of a source as a table in GPU memory, in the order of the source's rows. Bools become bytes, dictionary
// columns their indices (or values), strings of any kind offsets and bytes.
//
// Workers take chunks of rows that begin at multiples of 64, whatever the batches of the source are: each chunk's
// bitmaps are whole bytes, and its place on the GPU is known. Places of strings are found by a pass over offsets.
Uploaded upload_table(Source& source, const UploadSpec& spec, KeptPinned& pinned, JobControl& control);

}  // namespace spillway
