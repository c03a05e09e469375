// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/cuda_plugin.hpp"
#include "support/test.hpp"

namespace spillway {

TEST(base_cuda_plugin_absent) {
    const Gpus gpus = find_gpus_in("/nonexistent");
    EXPECT(gpus.devices.empty());
    EXPECT(gpus.reason.find("was not built") != std::string::npos);
}

TEST(base_cuda_plugin_damaged) {
    char name[] = "/tmp/spillway-plugin-XXXXXX";
    const std::string folder = ::mkdtemp(name);
    std::ofstream(folder + "/libspillway_cuda.so") << "no library";
    const Gpus gpus = find_gpus_in(folder);
    std::filesystem::remove_all(folder);
    EXPECT(gpus.devices.empty());
    EXPECT(gpus.reason.find("could not be loaded") != std::string::npos);
}

TEST(base_cuda_plugin_is_asked_once) {
    EXPECT(&find_gpus() == &find_gpus());
    EXPECT(find_gpus().devices.empty() != find_gpus().reason.empty());
}

}  // namespace spillway
