// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#include "api/plugin.h"
#include "device/host_placement.hpp"

// SPILLWAY_CUDA_OLDEST_CC (80 = compute capability 8.0): the oldest device the plugin holds code for, from CMake's list
// of architectures.

namespace {

template <size_t bytes>
void copy_text(char (&to)[bytes], const char* from) {
    std::snprintf(to, bytes, "%s", from);
}

// Number of a CUdevice_attribute whose name, HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, came with CUDA 12.4.
constexpr int kHostNumaMapping = 141;

void describe(int ordinal, const cudaDeviceProp& properties, spillway_cuda_device& device) {
    device.ordinal = ordinal;
    device.multiprocessors = properties.multiProcessorCount;
    device.compute_major = properties.major;
    device.compute_minor = properties.minor;
    device.copy_engines = properties.asyncEngineCount;
    device.pageable_access = properties.pageableMemoryAccess;
    device.host_page_tables = properties.pageableMemoryAccessUsesHostPageTables;
    device.memory_bytes = properties.totalGlobalMem;
    device.l2_bytes = static_cast<uint64_t>(properties.l2CacheSize);
    copy_text(device.name, properties.name);
    if (cudaDeviceGetPCIBusId(device.pci_bus_id, sizeof device.pci_bus_id, ordinal) != cudaSuccess) {
        copy_text(device.pci_bus_id, "");
    }
    device.numa_node = spillway::cuda::nearest_host_numa_node(ordinal);
    device.host_numa_mapping = spillway::cuda::driver_attribute(kHostNumaMapping, ordinal, 0);
    if (properties.major * 10 + properties.minor >= SPILLWAY_CUDA_OLDEST_CC) return;
    std::snprintf(device.reason, sizeof device.reason,
                  "compute capability %d.%d is below %d.%d, the oldest this build has code for", properties.major,
                  properties.minor, SPILLWAY_CUDA_OLDEST_CC / 10, SPILLWAY_CUDA_OLDEST_CC % 10);
}

// What a failed look at the devices means for the user.
void explain(cudaError_t status, spillway_cuda_devices& devices) {
    const char* advice = "";
    if (status == cudaErrorInsufficientDriver) {
        int driver = 0;
        cudaDriverGetVersion(&driver);
        if (driver == 0) {
            std::snprintf(devices.reason, sizeof devices.reason, "no NVIDIA driver is installed (%s)",
                          cudaGetErrorName(status));
            return;
        }
        std::snprintf(devices.reason, sizeof devices.reason,
                      "the NVIDIA driver is too old: it knows CUDA %d.%d, this build needs %d.%d (%s)", driver / 1000,
                      driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, cudaGetErrorName(status));
        return;
    }
    if (status == cudaErrorNoDevice) advice = "; CUDA_VISIBLE_DEVICES may hide them";
    std::snprintf(devices.reason, sizeof devices.reason, "%s (%s)%s", cudaGetErrorString(status),
                  cudaGetErrorName(status), advice);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) uint32_t spillway_cuda_abi_version(void) {
    return SPILLWAY_CUDA_ABI_VERSION;
}

extern "C" __attribute__((visibility("default"))) void spillway_cuda_list_devices(spillway_cuda_devices* devices) {
    std::memset(devices, 0, sizeof *devices);
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        explain(status == cudaSuccess ? cudaErrorNoDevice : status, *devices);
        cudaGetLastError();  // the error must not stay for the next call
        return;
    }
    for (int ordinal = 0; ordinal < count && devices->count < SPILLWAY_CUDA_DEVICES_MAX; ++ordinal) {
        cudaDeviceProp properties{};
        const cudaError_t asked = cudaGetDeviceProperties(&properties, ordinal);
        if (asked == cudaSuccess) {
            describe(ordinal, properties, devices->device[devices->count++]);
        } else if (devices->count == 0) {
            explain(asked, *devices);
        }
    }
    cudaGetLastError();
}
