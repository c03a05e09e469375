// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "device/error.hpp"
#include "tier/driver_functions.hpp"

namespace spillway::cuda { inline namespace tier {

namespace {

constexpr unsigned kOldestVersion = 12000;

template <class Function>
void find(const char* name, Function*& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    SPILLWAY_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &found, kOldestVersion, cudaEnableDefault, &result));
#else
    SPILLWAY_CUDA_CHECK(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess || found == nullptr) {
        throw Error(ErrorCode::kCuda, std::string("the driver has no ") + name);
    }
    function = reinterpret_cast<Function*>(found);
}

DriverFunctions load() {
    DriverFunctions all{};
    find("cuDeviceGetAttribute", all.device_attribute);
    find("cuMemGetAllocationGranularity", all.granularity);
    find("cuMemCreate", all.create);
    find("cuMemRelease", all.release);
    find("cuMemAddressReserve", all.reserve_addresses);
    find("cuMemAddressFree", all.free_addresses);
    find("cuMemMap", all.map);
    find("cuMemUnmap", all.unmap);
    find("cuMemSetAccess", all.set_access);
    return all;
}

}  // namespace

const DriverFunctions& driver_functions() {
    static const DriverFunctions all = load();  // tried again by the next call when it throws
    return all;
}

void check_driver(CUresult result, const char* call) {
    if (result != CUDA_SUCCESS) check(static_cast<cudaError_t>(result), call);
}

}}  // namespace spillway::cuda::tier
