// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct NumaNode {
    int node = 0;
    std::string cpus;  // as the system writes it: "0-15,32-47"
    uint64_t memory_bytes = 0;
    uint64_t available_bytes = 0;  // free, or held by file pages that the system can drop
};

// What the planner needs to know about this machine, as this process may use it: a container's limits count.
struct Machine {
    int cores = 1;           // hardware threads: affinity mask, lowered by the control group's CPU quota
    int physical_cores = 1;  // distinct cores among the hardware threads of the affinity mask
    std::string cpu_model;
    std::string architecture;       // "x86_64", "aarch64", "ppc64le", ...
    std::vector<std::string> simd;  // extensions that the engine has code for and this processor has
    uint64_t l1_bytes = 0;          // data cache of one core
    uint64_t l2_bytes = 0;          // of one core
    uint64_t l3_bytes = 0;          // the cache that this process's first core shares with its neighbours
    uint64_t cache_line_bytes = 0;
    uint64_t memory_bytes = 0;                   // of the host: without that of GPUs
    uint64_t available_bytes = 0;                // what the system could give of it now without swapping
    std::optional<uint64_t> memory_limit_bytes;  // of control groups, or of the NUMA nodes it may use
    uint64_t page_bytes = 0;
    uint64_t huge_page_bytes = 0;
    std::string transparent_huge_pages;  // "always", "madvise", "never"
    std::vector<NumaNode> numa_nodes;    // of host memory
};

// Reads /proc and /sys below `root` (tests hand in a folder of their own). Never throws: what cannot be read keeps a
// cautious default.
Machine read_machine(const std::string& root = "");

}  // namespace spillway
