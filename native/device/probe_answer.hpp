// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/api/plugin.h"

namespace spillway {

// What the program spillway_gpu_probe writes to its standard output, as it lies in memory: program and library come
// from one build, and `bytes` differs when they do not.
struct ProbeAnswer {
    uint32_t magic = 0;
    uint32_t bytes = 0;
    char reason[1024] = {};  // why it did not work; empty = it did
    spillway_cuda_devices devices = {};
};

constexpr uint32_t kProbeMagic = 0x53504757;
constexpr const char* kProbeProgram = "spillway_gpu_probe";

// Arguments: list FOLDER, or open FOLDER ORDINAL.
constexpr const char* kProbeList = "list";
constexpr const char* kProbeOpen = "open";

}  // namespace spillway
