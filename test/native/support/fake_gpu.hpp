// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>

#include "support/temporary_folder.hpp"

namespace spillway::test {

// A folder with the plugin of test/native/fake_plugin and the program that tries it. `behaviour`: see there.
class FakeGpuFolder : public TemporaryFolder {
  public:
    explicit FakeGpuFolder(const char* behaviour = "") {
        std::filesystem::create_symlink(SPILLWAY_FAKE_PLUGIN, file("libspillway_cuda.so"));
        std::filesystem::create_symlink(SPILLWAY_GPU_PROBE, file("spillway_gpu_probe"));
        behave(behaviour);
    }
    ~FakeGpuFolder() { ::unsetenv("SPILLWAY_FAKE_GPU"); }

    void behave(const char* behaviour) { ::setenv("SPILLWAY_FAKE_GPU", behaviour, 1); }
};

}  // namespace spillway::test
