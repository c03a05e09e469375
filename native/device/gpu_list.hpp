// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// One GPU as the CUDA plugin describes it.
struct Gpu {
    int ordinal = 0;
    std::string name;
    std::string pci_bus_id;
    uint64_t memory_bytes = 0;
    int multiprocessors = 0;
    std::string compute_capability;  // "9.0"
    uint64_t l2_bytes = 0;
    bool pageable_access = false;    // kernels reach pageable host memory
    bool host_page_tables = false;   // they do so through the host's page tables (coherent machines)
    bool host_numa_mapping = false;  // virtual memory management with host NUMA nodes
    int numa_node = -1;
    int copy_engines = 0;
    std::string reason;  // why the plugin has no code for it; empty = it has
};

struct Gpus {
    std::vector<Gpu> devices;
    std::string reason;  // why there is none; empty = there are
};

// What the CUDA plugin in the folder of this library finds, asked in a child process (gpu_probe.hpp): the driver is not
// loaded into this one. A process asks once, later calls return the same answer.
const Gpus& find_gpus();

// The same without the memory, from a plugin in `folder`; for tests.
Gpus find_gpus_in(const std::string& folder);

}  // namespace spillway
