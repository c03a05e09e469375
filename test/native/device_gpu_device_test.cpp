// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "device/gpu_device.hpp"
#include "device/gpu_list.hpp"
#include "device/gpu_plugin.hpp"
#include "support/fake_gpu.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

constexpr uint64_t kLimitBytes = 1 << 20;

std::string detail_of(const Error& error, const std::string& name) {
    for (const auto& [key, value] : error.details()) {
        if (key == name) return value;
    }
    return "none";
}

Error thrown_by(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error;
    }
    throw test::Failure("nothing was thrown");
}

int open_gpus(const test::FakeGpuFolder& folder) {
    void* const library = ::dlopen(folder.file("libspillway_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<int (*)()>(::dlsym(library, "spillway_fake_open_gpus"))();
}

}  // namespace

TEST(device_gpu_plugin_is_checked) {
    test::FakeGpuFolder folder("version");
    EXPECT_ERROR(kNoDevice, GpuPlugin plugin(folder.path()));
    folder.behave("incomplete");
    EXPECT_ERROR(kNoDevice, GpuPlugin plugin(folder.path()));
    EXPECT_ERROR(kNoDevice, GpuPlugin plugin("/nonexistent"));
    folder.behave("");
    GpuPlugin plugin(folder.path());
}

TEST(device_gpu_device_copies) {
    const test::FakeGpuFolder folder;
    const GpuPlugin plugin(folder.path());
    GpuDevice device(plugin, 0, kLimitBytes, kLimitBytes);
    GpuBuffer buffer = device.allocate(1000, "test");
    EXPECT_EQ(buffer.bytes(), 1000u);
    EXPECT(buffer.address() != 0);
    const std::vector<char> sent(600, 'x');
    std::vector<char> received(600);
    device.upload(buffer, 400, sent.data(), sent.size()).wait();
    GpuTransfer transfer = device.download(received.data(), buffer, 400, received.size());
    transfer.wait();
    transfer.wait();  // nothing is left to wait for
    EXPECT(received == sent);
    EXPECT_EQ(device.memory().used_bytes, 1000u);
    EXPECT_EQ(device.memory().free_bytes, kLimitBytes - 1000);
    buffer.reset();
    EXPECT_EQ(device.memory().used_bytes, 0u);
    EXPECT_EQ(device.memory().peak_bytes, 1000u);
    device.reset_peak();
    EXPECT_EQ(device.memory().peak_bytes, 0u);
    PinnedBlock pinned = device.allocate_pinned(64, "test");
    EXPECT(pinned.data() != nullptr);
    device.synchronize();
    device.trim();
}

// A buffer may outlive the GpuDevice it came from, and be moved.
TEST(device_gpu_device_closes_last) {
    const test::FakeGpuFolder folder;
    const GpuPlugin plugin(folder.path());
    const int before = open_gpus(folder);
    GpuBuffer kept;
    {
        GpuDevice device(plugin, 0, kLimitBytes, kLimitBytes);
        kept = device.allocate(8, "test");
        GpuBuffer other = device.allocate(8, "test");
        kept = std::move(other);
        EXPECT_EQ(device.memory().used_bytes, 8u);
    }
    EXPECT_EQ(open_gpus(folder), before + 1);
    kept.reset();
    EXPECT_EQ(open_gpus(folder), before);
}

TEST(device_gpu_device_out_of_memory) {
    test::FakeGpuFolder folder;
    const GpuPlugin plugin(folder.path());
    GpuDevice device(plugin, 0, kLimitBytes, kLimitBytes);
    GpuBuffer buffer = device.allocate(kLimitBytes - 10, "test");
    const Error limit = thrown_by([&] { device.allocate(11, "hash table"); });
    EXPECT(limit.code() == ErrorCode::kBudgetTooSmall);
    EXPECT_EQ(limit.message(), "hash table; raise 'memory.device', or first end queries whose results are open");
    EXPECT_EQ(detail_of(limit, "tier"), "device");
    EXPECT_EQ(detail_of(limit, "wantedBytes"), "11");
    EXPECT_EQ(detail_of(limit, "freeBytes"), "10");
    EXPECT_EQ(detail_of(limit, "limitBytes"), std::to_string(kLimitBytes));
    EXPECT_EQ(detail_of(limit, "option"), "memory.device");
    folder.behave("refuse");
    EXPECT(thrown_by([&] { device.allocate(1, "hash table"); }).code() == ErrorCode::kOutOfMemory);
    const Error pinned = thrown_by([&] { device.allocate_pinned(1, "staging"); });
    EXPECT(pinned.code() == ErrorCode::kOutOfMemory);
    EXPECT_EQ(detail_of(pinned, "tier"), "host");
    EXPECT_EQ(detail_of(pinned, "option"), "memory.host");
}

TEST(device_gpu_device_errors) {
    test::FakeGpuFolder folder;
    const GpuPlugin plugin(folder.path());
    EXPECT_ERROR(kNoDevice, GpuDevice(plugin, 7, kLimitBytes, kLimitBytes));
    GpuDevice device(plugin, 0, kLimitBytes, kLimitBytes);
    device.set_cancelled(true);
    EXPECT_ERROR(kAborted, device.synchronize());
    device.set_cancelled(false);
    device.synchronize();
    folder.behave("lost");
    const Error lost = thrown_by([&] { device.synchronize(); });
    EXPECT(lost.code() == ErrorCode::kNoDevice);
    EXPECT_EQ(detail_of(lost, "cudaError"), "700");
    EXPECT_EQ(detail_of(lost, "device"), "0");
}

TEST(device_gpu_device_open) {
    if (!find_gpus().devices.empty()) return;  // the tests of the GPU open it
    EXPECT_ERROR(kNoDevice, GpuDevice::open(0, kLimitBytes, kLimitBytes));
    EXPECT_ERROR(kNoDevice, GpuDevice::open(0, kLimitBytes, kLimitBytes));  // remembered
}

}  // namespace spillway
