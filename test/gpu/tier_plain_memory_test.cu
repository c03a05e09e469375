// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/staging.hpp"
#include "gpu_test.hpp"
#include "support/coherent_check.hpp"
#include "support/error_of.hpp"
#include "support/staged_group_by_check.hpp"
#include "support/staged_join_check.hpp"

// Host memory of a device that uses the host's page tables, on devices that need not do so: it is asked for by name.
namespace spillway::gpu_test {

using cuda::Allocation;
using cuda::Device;
using cuda::ErrorCode;
using cuda::HostPlacement;
using cuda::JoinResultKind;
using cuda::kGiB;
using cuda::kMiB;
using cuda::PinnedBlock;
using cuda::StagingPool;
using cuda::Tier;

namespace {

void need_kernels_that_reach_plain_memory() {
    int yes = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&yes, cudaDevAttrPageableMemoryAccess, test_device().ordinal()));
    if (yes == 0) gpu_test::leave_test_out("kernels of this GPU do not reach pageable memory");
}

uint64_t bytes_not(uint8_t value, const PinnedBlock& block) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < block.bytes(); ++i) wrong += block.as<uint8_t>()[i] != value;
    return wrong;
}

}  // namespace

GPU_TEST("plain memory: blocks grow, are kept and given back, and are never pinned") {
    Device& device = test_device();
    StagingPool pool(device.ordinal(), kGiB, HostPlacement::kPlain);
    CHECK(pool.placement() == HostPlacement::kPlain);
    for (const uint64_t bytes :
         {uint64_t{4096}, kMiB, 2 * kMiB, 2 * kMiB + 4096, small_or_full(17 * kMiB, 300 * kMiB)}) {
        PinnedBlock block = pool.allocate(bytes, "test");
        CHECK(!cuda::is_pinned(block.as<void>(), bytes));
        CHECK(pool.holds(block.as<void>(), bytes));
        std::memset(block.as<void>(), 0x5a, bytes);
        // Copy engines write it and read it.
        const Allocation there = device.memory().allocate(bytes, "test");
        CHECK_CUDA(cudaMemsetAsync(there.as<void>(), 0x77, bytes, device.stream()));
        device.synchronize();
        CHECK_CUDA(cudaMemcpyAsync(block.as<void>(), there.as<void>(), bytes / 2, cudaMemcpyDefault, device.stream()));
        device.synchronize();
        CHECK_EQ(block.as<uint8_t>()[0], 0x77);
        CHECK_EQ(block.as<uint8_t>()[bytes / 2 - 1], 0x77);
        CHECK_EQ(block.as<uint8_t>()[bytes / 2], 0x5a);
        std::memset(block.as<void>(), 0x11, bytes);
        CHECK_CUDA(cudaMemcpyAsync(there.as<void>(), block.as<void>(), bytes, cudaMemcpyDefault, device.stream()));
        device.synchronize();
        std::memset(block.as<void>(), 0, bytes);
        CHECK_CUDA(cudaMemcpyAsync(block.as<void>(), there.as<void>(), bytes, cudaMemcpyDefault, device.stream()));
        device.synchronize();
        CHECK_EQ(bytes_not(0x11, block), 0);
        const void* const address = block.as<void>();
        block.reset();
        CHECK(pool.holds(address, bytes));
        block = pool.allocate(bytes, "test");
        CHECK(block.as<void>() == address);
        block.reset();
        pool.trim();
        CHECK(!pool.holds(address, bytes));
        CHECK_EQ(pool.reserved_bytes(), 0);
    }
    CHECK(cudaPeekAtLastError() == cudaSuccess);
}

GPU_TEST("plain memory: the limit is exact, and more than the system has is refused") {
    StagingPool pool(test_device().ordinal(), 48 * kMiB, HostPlacement::kPlain);
    const PinnedBlock first = pool.allocate(32 * kMiB, "test");
    const PinnedBlock second = pool.allocate(16 * kMiB, "test");
    CHECK_EQ(pool.used_bytes(), 48 * kMiB);
    CHECK(pool.reserved_bytes() <= 48 * kMiB);
    const cuda::Error error = error_of([&] { pool.allocate(1, "spilled rows"); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(error.tier == Tier::kHost);
    CHECK(error.limit_reached);

    StagingPool vast(test_device().ordinal(), uint64_t{1} << 50, HostPlacement::kPlain);
    const cuda::Error refused = error_of([&] { vast.allocate(uint64_t{1} << 49, "too much"); });
    CHECK_EQ(refused.code(), ErrorCode::kOutOfMemory);
    CHECK(refused.tier == Tier::kHost);
    CHECK(!refused.limit_reached);
    CHECK_EQ(vast.used_bytes(), 0);
    CHECK_EQ(bytes_not(0, vast.allocate(9 * kMiB, "test")), 0);
}

GPU_TEST("plain memory: joins and group-bys out of core") {
    need_kernels_that_reach_plain_memory();
    const uint64_t rows = small_or_full(3000, 100000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const std::vector<uint64_t> probe_keys = foreign_keys(keys, 2 * rows, 0.8, test_seed());
    Device device(test_device().ordinal(), kGiB, 2 * kGiB, HostPlacement::kPlain);

    const KeyedRelation build(keys, 8, {8}, test_seed(), 0.02);
    const KeyedRelation probe(probe_keys, 8, {4}, test_seed() + 1);
    const StagedJoinCheck staged(build, probe, {JoinEmit::kPairs, false, true, true});
    for (const uint32_t resident : {0U, 3U}) {
        for (const auto result : {JoinResultKind::kRows, JoinResultKind::kCount}) {
            const StagedJoinSpec spec = staged.spec(result, spilled_sizes(rows, 3, resident));
            staged.check(spec, staged.run(device, spec), std::to_string(resident) + " resident partitions");
        }
    }

    const CoherentCheck coherent(keys, probe_keys);
    for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums}) {
        const BaselineSpec spec = coherent.spec(result, 3, rows / 3, kMixed);
        coherent.check().check(spec, coherent.run(spec, device), "kernels alone");
    }

    const StagedGroupByCheck groups(keyed_values(drawn_keys(4 * rows, rows, test_seed()), 8, 0.02),
                                    {{Aggregate::kSum, 1}, {Aggregate::kCountRows}}, true);
    groups.run(device, groups.spec(least_group_sizes(2)), "group-by");

    CHECK_EQ(device.staging().blocks(), 0);
    CHECK_EQ(device.memory().blocks(), 0);
    CHECK(device.staging().reserved_bytes() > 0);  // kept
    device.staging().trim();
    CHECK_EQ(device.staging().reserved_bytes(), 0);
}

}  // namespace spillway::gpu_test
