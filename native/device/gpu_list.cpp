// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_list.hpp"

#include <memory>

#include "cuda/api/plugin.h"
#include "device/gpu_plugin.hpp"
#include "device/gpu_probe.hpp"

namespace spillway {

namespace {

Gpu to_gpu(const spillway_cuda_device& device) {
    Gpu gpu;
    gpu.ordinal = device.ordinal;
    gpu.name = device.name;
    gpu.pci_bus_id = device.pci_bus_id;
    gpu.memory_bytes = device.memory_bytes;
    gpu.multiprocessors = device.multiprocessors;
    gpu.compute_capability = std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor);
    gpu.l2_bytes = device.l2_bytes;
    gpu.pageable_access = device.pageable_access != 0;
    gpu.host_page_tables = device.host_page_tables != 0;
    gpu.host_numa_mapping = device.host_numa_mapping != 0;
    gpu.numa_node = device.numa_node;
    gpu.copy_engines = device.copy_engines;
    gpu.reason = device.reason;
    return gpu;
}

}  // namespace

Gpus find_gpus_in(const std::string& folder) {
    Gpus gpus;
    const auto found = std::make_unique<spillway_cuda_devices>();
    gpus.reason = probe_list(folder, *found, kProbeLimitMs);
    if (!gpus.reason.empty()) return gpus;
    for (int32_t i = 0; i < found->count && i < SPILLWAY_CUDA_DEVICES_MAX; ++i) {
        gpus.devices.push_back(to_gpu(found->device[i]));
    }
    if (gpus.devices.empty()) gpus.reason = found->reason;
    return gpus;
}

const Gpus& find_gpus() {
    static const Gpus gpus = find_gpus_in(gpu_plugin_folder());
    return gpus;
}

}  // namespace spillway
