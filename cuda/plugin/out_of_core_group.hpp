// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/plugin.h"

// The functions of plugin.h for group-bys of relations larger than GPU memory.
namespace spillway::cuda {

void out_of_core_group_bytes_call(const spillway_cuda_out_of_core_group_spec* spec, uint64_t* bytes,
                                  spillway_cuda_status* status);
void begin_out_of_core_group_call(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_group_spec* spec,
                                  spillway_cuda_out_of_core_group** group, spillway_cuda_status* status);
void run_out_of_core_group_call(spillway_cuda_out_of_core_group* group, const spillway_cuda_source* source,
                                const spillway_cuda_sink* sink, spillway_cuda_out_of_core_group_report* report,
                                spillway_cuda_status* status);
void free_out_of_core_group(spillway_cuda_out_of_core_group* group);

}  // namespace spillway::cuda
