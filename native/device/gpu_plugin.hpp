// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

struct spillway_cuda_devices;
struct spillway_cuda_functions;

namespace spillway {

// libspillway_cuda.so, opened and checked: its version, that no function is missing. Opening it loads the driver of the
// GPU as soon as something is called, so a trial in a child process comes first (gpu_probe.hpp). It stays open for
// good: the CUDA runtime inside cannot be unloaded safely.
class GpuPlugin {
  public:
    // Throws kNoDevice with what is wrong and what to do.
    explicit GpuPlugin(const std::string& folder);

    // That of gpu_plugin_folder(), opened by the first caller; throws again for each later one when it cannot be.
    static const GpuPlugin& instance();

    // Valid until the process ends.
    const spillway_cuda_functions& functions() const { return *functions_; }
    void list_devices(spillway_cuda_devices& devices) const { list_devices_(&devices); }

  private:
    const spillway_cuda_functions* functions_ = nullptr;
    void (*list_devices_)(spillway_cuda_devices*) = nullptr;
};

// Where the plugin and the program that tries it lie: beside the library that this code is part of, or in the folder
// that the environment variable SPILLWAY_GPU_FOLDER names.
std::string gpu_plugin_folder();

// The plugin's file in `folder`; throws kNoDevice when there is none.
std::string gpu_plugin_path(const std::string& folder);

}  // namespace spillway
