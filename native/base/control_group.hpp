// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway {

// Limits that a container or a service manager puts on this process: control groups version 2, else version 1.
struct ControlGroupLimits {
    std::optional<double> cpus;                 // quota / period
    std::optional<uint64_t> memory_bytes;       // hard limit
    std::optional<uint64_t> memory_used_bytes;  // of the group with that limit, without file pages it can drop
};

// root: see read_machine(). The tightest limit on the way from the process's group to the top counts.
ControlGroupLimits read_control_group(const std::string& root);

}  // namespace spillway
