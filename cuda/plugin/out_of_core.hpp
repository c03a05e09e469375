// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/plugin.h"

// The functions of plugin.h for joins of relations larger than GPU memory.
namespace spillway::cuda {

void out_of_core_bytes_call(const spillway_cuda_out_of_core_spec* spec, uint64_t* bytes, spillway_cuda_status* status);
void begin_out_of_core_call(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_spec* spec,
                            spillway_cuda_out_of_core** join, spillway_cuda_status* status);
void build_out_of_core_call(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                            const spillway_cuda_sink* sink, uint64_t* partition_rows, spillway_cuda_status* status);
void probe_out_of_core_call(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                            const spillway_cuda_sink* sink, uint64_t* sums, spillway_cuda_out_of_core_report* report,
                            spillway_cuda_status* status);
void free_out_of_core(spillway_cuda_out_of_core* join);

}  // namespace spillway::cuda
