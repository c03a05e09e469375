// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <string>

#include "cuda/api/plugin.h"
#include "device/gpu_list.hpp"
#include "support/fake_gpu.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using test::contains;

}  // namespace

TEST(device_gpu_list_without_plugin) {
    const Gpus gpus = find_gpus_in("/nonexistent");
    EXPECT(gpus.devices.empty());
    EXPECT(contains(gpus.reason, "was not built"));
}

TEST(device_gpu_list_damaged_plugin) {
    const test::FakeGpuFolder folder;
    std::filesystem::remove(folder.file("libspillway_cuda.so"));
    std::ofstream(folder.file("libspillway_cuda.so")) << "no library";
    const Gpus gpus = find_gpus_in(folder.path());
    EXPECT(gpus.devices.empty());
    EXPECT(contains(gpus.reason, "could not be loaded"));
}

TEST(device_gpu_list_without_probe) {
    const test::FakeGpuFolder folder;
    std::filesystem::remove(folder.file("spillway_gpu_probe"));
    const Gpus gpus = find_gpus_in(folder.path());
    EXPECT(gpus.devices.empty());
    EXPECT(contains(gpus.reason, "could not be started"));
    EXPECT(contains(gpus.reason, "build the package again"));
}

TEST(device_gpu_list_foreign_probe) {
    const test::FakeGpuFolder folder;
    std::filesystem::remove(folder.file("spillway_gpu_probe"));
    std::filesystem::create_symlink("/bin/true", folder.file("spillway_gpu_probe"));
    EXPECT(contains(find_gpus_in(folder.path()).reason, "gave no answer"));
}

TEST(device_gpu_list_is_asked_once) {
    EXPECT(&find_gpus() == &find_gpus());
    EXPECT(find_gpus().devices.empty() != find_gpus().reason.empty());
}

TEST(device_gpu_list_of_plugin) {
    test::FakeGpuFolder folder;
    const Gpus gpus = find_gpus_in(folder.path());
    EXPECT_EQ(gpus.reason, "");
    EXPECT_EQ(gpus.devices.size(), 1u);
    EXPECT_EQ(gpus.devices[0].name, "Fake GPU");
    EXPECT_EQ(gpus.devices[0].compute_capability, "9.0");
    EXPECT_EQ(gpus.devices[0].memory_bytes, uint64_t{1} << 37);
    folder.behave("none");
    EXPECT_EQ(find_gpus_in(folder.path()).reason, "no driver");
    folder.behave("version");
    const std::string versions = "interface version " + std::to_string(SPILLWAY_CUDA_ABI_VERSION - 1) + ", expected " +
                                 std::to_string(SPILLWAY_CUDA_ABI_VERSION);
    EXPECT(contains(find_gpus_in(folder.path()).reason, versions.c_str()));
    folder.behave("incomplete");
    EXPECT(contains(find_gpus_in(folder.path()).reason, "lacks functions"));
}

}  // namespace spillway
