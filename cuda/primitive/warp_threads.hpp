// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/host_device.hpp"

namespace spillway::cuda { inline namespace primitive {

constexpr int kWarpThreads = 32;

}}  // namespace spillway::cuda::primitive
