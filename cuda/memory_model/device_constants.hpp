// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

// Constants of kernels and operators that plans depend on, so that a planner never has numbers of its own for them.
namespace spillway::cuda { inline namespace memory_model {

struct DeviceConstant {
    const char* name;
    double value;  // exact: none is an integer above 2^53
};

std::vector<DeviceConstant> device_constants();

}}  // namespace spillway::cuda::memory_model
