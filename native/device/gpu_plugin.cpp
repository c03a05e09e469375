// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_plugin.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "cuda/api/plugin.h"

namespace spillway {

namespace {

constexpr const char* kPluginName = "libspillway_cuda.so";

std::string linker_message() {
    const char* message = ::dlerror();
    return message == nullptr ? "unknown error of the dynamic linker" : message;
}

template <class Function>
Function symbol_of(void* library, const char* name) {
    return reinterpret_cast<Function>(::dlsym(library, name));
}

Error version_error(uint32_t version) {
    return Error(ErrorCode::kNoDevice, "the CUDA plugin has interface version " + std::to_string(version) +
                                           ", expected " + std::to_string(SPILLWAY_CUDA_ABI_VERSION) +
                                           "; build the package again");
}

// A plugin built from half a checkout may have holes in its table.
bool is_complete(const spillway_cuda_functions& functions) {
    using Function = void (*)();
    static_assert(sizeof(spillway_cuda_functions) ==
                  offsetof(spillway_cuda_functions, open_device) + SPILLWAY_CUDA_FUNCTION_COUNT * sizeof(Function));
    if (functions.count != SPILLWAY_CUDA_FUNCTION_COUNT) return false;
    Function all[SPILLWAY_CUDA_FUNCTION_COUNT];
    std::memcpy(all, &functions.open_device, sizeof all);
    for (const Function function : all) {
        if (function == nullptr) return false;
    }
    return true;
}

}  // namespace

std::string gpu_plugin_folder() {
    const char* const named = std::getenv("SPILLWAY_GPU_FOLDER");
    if (named != nullptr && *named != '\0') return named;
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&gpu_plugin_folder), &info) == 0 || info.dli_fname == nullptr) {
        return ".";
    }
    const std::string path = info.dli_fname;
    const size_t slash = path.find_last_of('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string gpu_plugin_path(const std::string& folder) {
    std::string path = folder + "/" + kPluginName;
    if (::access(path.c_str(), F_OK) != 0) {
        throw Error(ErrorCode::kNoDevice,
                    "the CUDA plugin was not built (build with --cuda on, which needs the CUDA toolkit)");
    }
    return path;
}

GpuPlugin::GpuPlugin(const std::string& folder) {
    const std::string path = gpu_plugin_path(folder);
    // RTLD_LOCAL: the static CUDA runtime inside must not meet another one that the user's process has loaded.
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        throw Error(ErrorCode::kNoDevice, "the CUDA plugin could not be loaded: " + linker_message());
    }
    const auto version = symbol_of<spillway_cuda_abi_version_fn>(library, SPILLWAY_CUDA_ABI_VERSION_SYMBOL);
    if (version == nullptr) throw Error(ErrorCode::kNoDevice, path + " is not a CUDA plugin of this package");
    if (version() != SPILLWAY_CUDA_ABI_VERSION) throw version_error(version());
    list_devices_ = symbol_of<spillway_cuda_list_devices_fn>(library, SPILLWAY_CUDA_LIST_DEVICES_SYMBOL);
    const auto functions = symbol_of<spillway_cuda_get_functions_fn>(library, SPILLWAY_CUDA_GET_FUNCTIONS_SYMBOL);
    functions_ = functions == nullptr ? nullptr : functions();
    if (functions_ != nullptr && functions_->abi_version != SPILLWAY_CUDA_ABI_VERSION) {
        throw version_error(functions_->abi_version);
    }
    if (list_devices_ == nullptr || functions_ == nullptr || !is_complete(*functions_)) {
        throw Error(ErrorCode::kNoDevice, "the CUDA plugin " + path + " lacks functions; build the package again");
    }
}

const GpuPlugin& GpuPlugin::instance() {
    static const GpuPlugin plugin(gpu_plugin_folder());
    return plugin;
}

}  // namespace spillway
