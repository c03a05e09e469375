// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "base/error.hpp"

struct spillway_cuda_status;

namespace spillway {

// The detail of an error that the CPU engine would not end in.
inline std::pair<std::string, std::string> refused_by_device() {
    return {"reason", "deviceUnsupported"};
}

// Throws the Error that a status of the plugin stands for, nothing when it is SPILLWAY_CUDA_OK. While a device is being
// opened, whatever else goes wrong means that it cannot be used: kNoDevice.
enum class GpuCall { kOpening, kWorking };
void check_gpu(const spillway_cuda_status& status, int ordinal, GpuCall call = GpuCall::kWorking);

}  // namespace spillway
