// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "device/error.hpp"
#include "device/host_placement.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

// Number of CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, whose name came with CUDA 12.2.
constexpr int kHostNumaId = 134;

bool attribute(cudaDeviceAttr which, int ordinal) {
    int value = 0;
    const cudaError_t status = cudaDeviceGetAttribute(&value, which, ordinal);
    discard(status);
    return status == cudaSuccess && value != 0;
}

}  // namespace

int driver_attribute(int attribute, int ordinal, int otherwise) {
    using GetAttribute = CUresult (*)(int*, CUdevice_attribute, CUdevice);
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuDeviceGetAttribute", &function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t status = cudaGetDriverEntryPoint("cuDeviceGetAttribute", &function, cudaEnableDefault, &found);
#endif
    discard(status);
    if (status != cudaSuccess || found != cudaDriverEntryPointSuccess || function == nullptr) {
        return otherwise;
    }
    int value = otherwise;
    // Without a context a CUdevice is the ordinal of the device.
    const auto get = reinterpret_cast<GetAttribute>(function);
    const CUresult result = get(&value, static_cast<CUdevice_attribute>(attribute), static_cast<CUdevice>(ordinal));
    return result == CUDA_SUCCESS ? value : otherwise;
}

int nearest_host_numa_node(int ordinal) {
    return driver_attribute(kHostNumaId, ordinal, -1);
}

int host_numa_node(int ordinal) {
    return std::max(nearest_host_numa_node(ordinal), 0);
}

HostPlacement host_placement_of(int ordinal) {
    return host_placement({attribute(cudaDevAttrPageableMemoryAccess, ordinal),
                           attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables, ordinal)});
}

}}  // namespace spillway::cuda::device
