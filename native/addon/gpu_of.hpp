// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "addon/engine.hpp"

namespace spillway::addon {

// The GPU of a runtime; throws kInvalidArgument where none was opened.
std::shared_ptr<OpenedGpu> gpu_of(const Engine& engine);

}  // namespace spillway::addon
