// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/tier_check.hpp"
#include "tier/stripe_driver.hpp"

// Interleaved ranges whose calls of the driver fail, one in each run.
namespace spillway::cuda {

using gpu_test::error_of;
using gpu_test::need_host_stripes;
using gpu_test::test_device;

namespace {

constexpr char kInjected[] = "a fault was injected";

// The driver, whose n-th call that does something fails before it is made.
class FailingDriver final : public MappingDriver {
  public:
    FailingDriver(StripeDriver& driver, int fails_in) : driver_(driver), fails_in_(fails_in) {}

    uint64_t create(PageTier tier, uint64_t bytes) override {
        step();
        return driver_.create(tier, bytes);
    }
    void release(PageTier tier, uint64_t handle) noexcept override { driver_.release(tier, handle); }
    uint64_t reserve_addresses(uint64_t bytes, uint64_t alignment_bytes) override {
        step();
        ++ranges;
        return driver_.reserve_addresses(bytes, alignment_bytes);
    }
    void free_addresses(uint64_t address, uint64_t bytes) noexcept override {
        --ranges;
        driver_.free_addresses(address, bytes);
    }
    void map(uint64_t address, uint64_t bytes, uint64_t handle) override {
        step();
        driver_.map(address, bytes, handle);
        ++mappings;
    }
    void unmap(uint64_t address, uint64_t bytes) noexcept override {
        --mappings;
        driver_.unmap(address, bytes);
    }
    void allow_devices(uint64_t address, uint64_t bytes) override {
        step();
        driver_.allow_devices(address, bytes);
    }
    void allow_host(uint64_t address, uint64_t bytes) override {
        step();
        driver_.allow_host(address, bytes);
    }
    void settle() noexcept override { driver_.settle(); }

    bool is_due() const { return fails_in_ > 0; }
    int ranges = 0;
    int mappings = 0;

  private:
    void step() {
        if (fails_in_ > 0 && --fails_in_ == 0) throw Error(ErrorCode::kCuda, kInjected);
    }

    StripeDriver& driver_;
    int fails_in_;
};

}  // namespace

GPU_TEST("interleaved range: every call of the driver failing leaves nothing behind") {
    Device& device = test_device();
    InterleavedMemory probe(device, kStripeBytesMin);
    need_host_stripes(probe);
    const uint64_t device_bytes = device.memory().used_bytes();
    const uint64_t host_bytes = device.staging().used_bytes();
    int call = 0;
    for (bool failed = true; failed;) {
        StripeDriver driver(device);
        FailingDriver failing(driver, ++call);
        StripePool pool(failing, kStripeBytesMin);
        failed = false;
        try {
            const StripeMapping mapping(failing, pool, StripePattern({1, 0, 1}), 5 * kStripeBytesMin);
            CHECK_EQ(failing.mappings, 5);
        } catch (const Error& error) {
            CHECK_EQ(std::string(error.what()), kInjected);
            failed = true;
        }
        CHECK_EQ(failing.is_due(), !failed);
        CHECK_EQ(failing.mappings, 0);
        CHECK_EQ(failing.ranges, 0);
        CHECK_EQ(driver.stripes(),
                 pool.stripes(PageTier::kDevice) + pool.stripes(PageTier::kHost));  // kept, all of them
        pool.trim();
        CHECK_EQ(driver.stripes(), 0);
        CHECK_EQ(device.memory().used_bytes(), device_bytes);
        CHECK_EQ(device.staging().used_bytes(), host_bytes);
    }
    CHECK_EQ(call, 5 + 1 + 5 + 1 + 3 + 1);  // stripes, addresses, mappings, devices, runs of the host, and none
    CHECK(device.usable());
}

GPU_TEST("interleaved range: pools that refuse a stripe") {
    Device& device = test_device();
    InterleavedMemory memory(device, kStripeBytesMin);
    need_host_stripes(memory);
    BlockPool* const pools[] = {&device.memory(), &device.staging()};
    for (BlockPool* const pool : pools) {
        const uint64_t used_bytes = pool->used_bytes();
        pool->fail_after(2);
        const Error error = error_of([&] { InterleavedRange(memory, {1, 0, 1}, 6 * kStripeBytesMin); });
        pool->fail_after(0);
        CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
        CHECK(!error.limit_reached);
        CHECK_EQ(memory.stripes().stripes_in_use(PageTier::kDevice), 0);
        CHECK_EQ(memory.stripes().stripes_in_use(PageTier::kHost), 0);
        memory.trim();
        CHECK_EQ(pool->used_bytes(), used_bytes);
    }
    const InterleavedRange range(memory, {1, 0, 1}, 6 * kStripeBytesMin);
    CHECK_EQ(range.stripes(), 6);
}

GPU_TEST("interleaved range: more than the driver has is refused and leaves no error behind") {
    Device& device = test_device();
    StripeDriver driver(device);
    const uint64_t used_bytes = device.memory().used_bytes();
    // Within the limit of a pool that allows it: the driver must refuse.
    Device vast(device.ordinal(), device.properties().memory_bytes);
    StripeDriver unlimited(vast);
    const uint64_t bytes = device.properties().memory_bytes / kStripeBytesMin * kStripeBytesMin;
    const Error error = error_of([&] { unlimited.create(PageTier::kDevice, bytes); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(!error.limit_reached);
    CHECK_EQ(error.wanted_bytes, bytes);
    CHECK_EQ(vast.memory().used_bytes(), 0);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    const uint64_t handle = driver.create(PageTier::kDevice, kStripeBytesMin);
    CHECK_EQ(driver.stripes(), 1);
    driver.release(PageTier::kDevice, handle);
    CHECK_EQ(device.memory().used_bytes(), used_bytes);
}

}  // namespace spillway::cuda
