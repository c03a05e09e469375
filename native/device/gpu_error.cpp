// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_error.hpp"

#include <string>
#include <utility>
#include <vector>

#include "cuda/api/plugin.h"

namespace spillway {

namespace {

using Details = std::vector<std::pair<std::string, std::string>>;

Error out_of_memory(const spillway_cuda_status& status) {
    const bool host = status.host_memory != 0;
    const std::string option = host ? "memory.host" : "memory.device";
    const bool limit_reached = status.limit_reached != 0;
    std::string advice = "; raise '" + option + "', or first end queries whose results are open";
    if (!limit_reached) {
        advice = "; lower '" + option + "' or end other programs that use " +
                 (host ? "the memory of this machine" : "this GPU");
    }
    return Error(limit_reached ? ErrorCode::kBudgetTooSmall : ErrorCode::kOutOfMemory, status.text + advice,
                 {{"tier", host ? "host" : "device"},
                  {"wantedBytes", std::to_string(status.wanted_bytes)},
                  {"freeBytes", std::to_string(status.free_bytes)},
                  {"limitBytes", std::to_string(status.limit_bytes)},
                  {"option", option}});
}

}  // namespace

void check_gpu(const spillway_cuda_status& status, int ordinal, GpuCall call) {
    if (status.code == SPILLWAY_CUDA_OK) return;
    if (status.code == SPILLWAY_CUDA_CANCELLED) throw Error(ErrorCode::kAborted, "the job was aborted");
    if (status.code == SPILLWAY_CUDA_OUT_OF_MEMORY) throw out_of_memory(status);
    if (status.code == SPILLWAY_CUDA_OVERFLOW) {
        throw Error(ErrorCode::kIntegerOverflow,
                    std::string(status.text) + "; cast the column to float64 or to a wider decimal before grouping");
    }
    if (status.code == SPILLWAY_CUDA_UNSUPPORTED) {
        throw Error(ErrorCode::kUnsupportedType, std::string(status.text) + "; run this query on the CPU",
                    {{"device", std::to_string(ordinal)}, refused_by_device()});
    }
    Details details{{"device", std::to_string(ordinal)}};
    if (status.cuda_error != 0) details.emplace_back("cudaError", std::to_string(status.cuda_error));
    const bool unusable = status.device_lost != 0 || call == GpuCall::kOpening;
    throw Error(unusable ? ErrorCode::kNoDevice : ErrorCode::kInternal, status.text, std::move(details));
}

}  // namespace spillway
