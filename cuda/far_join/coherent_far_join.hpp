// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "far_join/far_join.hpp"

namespace spillway::cuda {

// CoherentJoin behind the interface of this room: the same join, but by kernels that read and write far memory
// themselves where OutOfCoreJoin has copy engines.
std::unique_ptr<FarJoin> open_coherent_join(Device& device, const FarJoinSpec& spec);

}  // namespace spillway::cuda
