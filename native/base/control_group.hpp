// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway {

// Limits that a container or a service manager puts on this process: control groups version 2, else version 1.
struct ControlGroupLimits {
    std::optional<double> cpus;                 // quota / period
    std::optional<uint64_t> memory_bytes;       // the smallest limit, be it hard (the group is killed) or slowing
    std::optional<uint64_t> memory_free_bytes;  // the smallest that a group is below its limit; see take_memory()
};

// root: see read_machine(). Every group from the process's own to the top counts.
ControlGroupLimits read_control_group(const std::string& root);

}  // namespace spillway
