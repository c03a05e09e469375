// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_plugin.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <memory>

#include "cuda/device/plugin.h"

namespace spillway {

namespace {

constexpr const char* kPluginName = "libspillway_cuda.so";

// Where the library that this code is part of was loaded from.
std::string own_folder() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&find_gpus), &info) == 0 || info.dli_fname == nullptr) return ".";
    const std::string path = info.dli_fname;
    const size_t slash = path.find_last_of('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string linker_message() {
    const char* message = ::dlerror();
    return message == nullptr ? "unknown error of the dynamic linker" : message;
}

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

Gpus no_gpus(std::string reason) {
    Gpus gpus;
    gpus.reason = std::move(reason);
    return gpus;
}

}  // namespace

Gpus find_gpus_in(const std::string& folder) {
    const std::string path = folder + "/" + kPluginName;
    if (::access(path.c_str(), F_OK) != 0) {
        return no_gpus("the CUDA plugin was not built (no CUDA compiler was found when the package was built)");
    }
    // RTLD_LOCAL: the static CUDA runtime inside must not meet another one that the user's process has loaded.
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return no_gpus("the CUDA plugin could not be loaded: " + linker_message());
    const auto version =
        reinterpret_cast<spillway_cuda_abi_version_fn>(::dlsym(library, SPILLWAY_CUDA_ABI_VERSION_SYMBOL));
    const auto list =
        reinterpret_cast<spillway_cuda_list_devices_fn>(::dlsym(library, SPILLWAY_CUDA_LIST_DEVICES_SYMBOL));
    if (version == nullptr || list == nullptr) return no_gpus(path + " is not a CUDA plugin of this package");
    if (version() != SPILLWAY_CUDA_ABI_VERSION) {
        return no_gpus("the CUDA plugin has interface version " + std::to_string(version()) + ", expected " +
                       std::to_string(SPILLWAY_CUDA_ABI_VERSION) + "; build the package again");
    }
    const auto devices = std::make_unique<spillway_cuda_devices>();
    list(devices.get());
    Gpus gpus;
    for (int32_t i = 0; i < devices->count && i < SPILLWAY_CUDA_DEVICES_MAX; ++i) {
        gpus.devices.push_back(to_gpu(devices->device[i]));
    }
    if (gpus.devices.empty()) gpus.reason = devices->reason;
    return gpus;
}

const Gpus& find_gpus() {
    static const Gpus gpus = find_gpus_in(own_folder());
    return gpus;
}

}  // namespace spillway
