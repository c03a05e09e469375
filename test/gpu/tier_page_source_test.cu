// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/tier_check.hpp"
#include "tier/interleaved_range.hpp"
#include "tier/page_pool.hpp"

// What both forms of a page source promise, and what each of them does with memory.
namespace spillway::cuda {

using gpu_test::error_of;
using gpu_test::has_host_stripes;
using gpu_test::open_peer;
using gpu_test::test_device;

namespace {

constexpr uint64_t kSmallPage = 64 * kKiB;

__host__ __device__ uint64_t page_word(uint64_t id, uint64_t word) {
    return (id + 1) * 0x9E3779B97F4A7C15u + word;
}

// A block for each page, found by its id.
__global__ void write_pages_kernel(uint8_t* const* directory, const uint64_t* ids, uint64_t page_words) {
    const uint64_t id = ids[blockIdx.x];
    auto* const words = reinterpret_cast<uint64_t*>(directory[id]);
    for (uint64_t i = threadIdx.x; i < page_words; i += blockDim.x) words[i] = page_word(id, i);
}

// The same pages, found by their addresses.
__global__ void count_wrong_pages_kernel(uint8_t* const* addresses, const uint64_t* ids, uint64_t page_words,
                                         unsigned long long* wrong) {
    const uint64_t id = ids[blockIdx.x];
    const auto* const words = reinterpret_cast<const uint64_t*>(addresses[blockIdx.x]);
    for (uint64_t i = threadIdx.x; i < page_words; i += blockDim.x) {
        if (words[i] != page_word(id, i)) atomicAdd(wrong, 1ull);
    }
}

template <class T>
Allocation uploaded(Device& device, const std::vector<T>& values) {
    Allocation block = device.memory().allocate(values.size() * sizeof(T), "test");
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(block.as<void>(), values.data(), block.bytes(), cudaMemcpyHostToDevice, device.stream()));
    return block;
}

uint64_t wrong_on_host(const std::vector<Page>& pages, uint64_t page_words) {
    uint64_t wrong = 0;
    for (const Page& page : pages) {
        if (page.tier != PageTier::kHost) continue;
        const auto* const words = reinterpret_cast<const uint64_t*>(page.data);
        for (uint64_t i = 0; i < page_words; ++i) wrong += words[i] != page_word(page.id, i);
    }
    return wrong;
}

// Kernels write the pages by their ids and read them by their addresses, the host reads its own.
void check_pages(Device& device, PageSource& source, const std::vector<Page>& pages) {
    const uint64_t page_words = source.page_bytes() / sizeof(uint64_t);
    std::vector<uint64_t> ids;
    std::vector<uint8_t*> addresses;
    for (const Page& page : pages) {
        ids.push_back(page.id);
        addresses.push_back(page.data);
    }
    PageDirectory directory(device);
    directory.update(source);
    CHECK(directory.pages() >= pages.size());
    const Allocation device_ids = uploaded(device, ids);
    const Allocation device_addresses = uploaded(device, addresses);
    const Allocation wrong = uploaded(device, std::vector<unsigned long long>{0});
    const dim3 blocks(static_cast<unsigned>(pages.size()));
    launch(write_pages_kernel, blocks, dim3(256), 0, device.stream(), directory.addresses(), device_ids.as<uint64_t>(),
           page_words);
    launch(count_wrong_pages_kernel, blocks, dim3(256), 0, device.stream(), device_addresses.as<uint8_t*>(),
           device_ids.as<uint64_t>(), page_words, wrong.as<unsigned long long>());
    unsigned long long count = 0;
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&count, wrong.as<void>(), sizeof count, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    CHECK_EQ(count, 0);
    CHECK_EQ(wrong_on_host(pages, page_words), 0);
}

std::vector<uint8_t*> sorted_addresses(const std::vector<Page>& pages) {
    std::vector<uint8_t*> addresses;
    for (const Page& page : pages) addresses.push_back(page.data);
    std::sort(addresses.begin(), addresses.end());
    return addresses;
}

void check_tier(PageSource& source, PageTier tier) {
    const uint64_t limit = source.limit_pages(tier);
    if (limit == 0) return;
    std::vector<Page> pages;
    take_pages(source, tier, limit, pages, "test");
    CHECK_EQ(pages.size(), limit);
    for (const Page& page : pages) CHECK(page.tier == tier);
    const Error error = error_of([&] { take_pages(source, tier, 1, pages, "pages of a spill"); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(error.limit_reached);
    CHECK(error.tier == (tier == PageTier::kHost ? Tier::kHost : Tier::kDevice));
    CHECK_EQ(error.limit_bytes, limit * source.page_bytes());
    CHECK_EQ(error.free_bytes, 0);
    CHECK_EQ(pages.size(), limit);
    // Given back one by one and in a batch, they are taken again.
    const std::vector<uint8_t*> before = sorted_addresses(pages);
    source.give_back(pages.back());
    pages.pop_back();
    source.give_back(pages);
    pages.clear();
    CHECK_THROWS(reserve_pages(source, tier, limit + 1, "test"), ErrorCode::kOutOfMemory);
    PageReservation all = reserve_pages(source, tier, limit, "test");
    CHECK(!source.try_take(tier, 1, pages));
    CHECK(all.take(limit, pages));
    CHECK(sorted_addresses(pages) == before);
    source.give_back(pages);
    CHECK_EQ(source.pages_free(tier), limit);
}

// Everything that a source promises whatever is behind it. All of its tiers must be preferred.
void check_source(Device& device, PageSource& source) {
    uint64_t limit = 0;
    for (const PageTier tier : source.preference()) {
        check_tier(source, tier);
        limit += source.limit_pages(tier);
    }
    CHECK(limit > 0);
    std::vector<Page> pages;
    CHECK(!source.try_take(limit + 1, pages));
    CHECK(!source.try_take(PageTier::kDisk, 1, pages));
    CHECK(pages.empty());
    CHECK(source.try_take(limit, pages));
    for (size_t i = 1; i < pages.size(); ++i) CHECK(pages[i - 1].tier <= pages[i].tier);  // as preferred
    std::vector<uint8_t*> addresses = sorted_addresses(pages);
    for (size_t i = 1; i < addresses.size(); ++i) {
        CHECK(static_cast<uint64_t>(addresses[i] - addresses[i - 1]) >= source.page_bytes());
    }
    check_pages(device, source, pages);
    source.give_back(pages);
    bool refused = false;
    try {
        source.give_back(pages.front());
    } catch (const std::logic_error&) {
        refused = true;
    }
    CHECK(refused);
}

}  // namespace

GPU_TEST("page source: pages of slabs") {
    Device& device = test_device();
    const uint64_t device_bytes = device.memory().used_bytes();
    const uint64_t host_bytes = device.staging().used_bytes();
    for (const uint64_t page_bytes : {kSmallPage, kTierPageBytesMax}) {
        PagePoolSpec spec;
        spec.page_bytes = page_bytes;
        spec.device_bytes = 2 * page_bytes + 5 * kMiB + 1;  // what is no whole page does not count
        spec.host_bytes = 3 * page_bytes;
        PagePool pool(device, spec);
        CHECK_EQ(pool.limit_pages(PageTier::kDevice), (2 * page_bytes + 5 * kMiB) / page_bytes);
        check_source(device, pool);
        pool.trim();
        CHECK_EQ(device.memory().used_bytes(), device_bytes);
        CHECK_EQ(device.staging().used_bytes(), host_bytes);
        check_source(device, pool);  // with slabs of their own again
    }
    CHECK_EQ(device.memory().used_bytes(), device_bytes);
    CHECK_EQ(device.staging().used_bytes(), host_bytes);
}

GPU_TEST("page source: pages of an interleaved range") {
    Device& device = test_device();
    InterleavedMemory memory(device, kStripeBytesMin);
    const bool host = has_host_stripes(memory);
    for (const uint64_t page_bytes : {kSmallPage, kStripeBytesMin}) {
        InterleavedPages pages(memory, {1, 0, host ? 2u : 0u}, 5 * kStripeBytesMin, page_bytes);
        const uint64_t stripe_pages = kStripeBytesMin / page_bytes;
        CHECK_EQ(pages.limit_pages(PageTier::kDevice), (host ? 1 : 5) * stripe_pages);
        CHECK_EQ(pages.limit_pages(PageTier::kHost), (host ? 4 : 0) * stripe_pages);
        check_source(device, pages);
        pages.trim();
        check_source(device, pages);
        std::vector<Page> all;
        CHECK(pages.try_take(5 * stripe_pages, all));
        const std::vector<uint8_t*> addresses = sorted_addresses(all);
        for (size_t i = 0; i < addresses.size(); ++i) {
            CHECK(addresses[i] == pages.range().as<uint8_t>() + i * page_bytes);  // the range, without a gap
        }
        pages.give_back(all);
    }
    CHECK_THROWS(InterleavedPages(memory, {1, 0, 0}, kMiB, 2 * kStripeBytesMin), ErrorCode::kInvalid);
    CHECK_THROWS(InterleavedPages(memory, {1, 0, 0}, kMiB, 96 * kKiB), ErrorCode::kInvalid);
    CHECK_EQ(memory.stripes().stripes_in_use(PageTier::kDevice), 0);
}

GPU_TEST("page source: pages of a peer") {
    Device& device = test_device();
    const std::unique_ptr<Device> peer = open_peer(64 * kMiB);
    PagePoolSpec spec;
    spec.page_bytes = kSmallPage;
    spec.device_bytes = kMiB;
    spec.peer_bytes = 2 * kMiB;
    spec.host_bytes = kMiB;
    {
        PagePool pool(device, spec, peer.get());
        check_source(device, pool);
        CHECK_EQ(peer->memory().used_bytes(), 2 * kMiB);
        InterleavedMemory memory(device, kStripeBytesMin, peer.get());
        InterleavedPages pages(memory, {1, 2, 0}, 6 * kStripeBytesMin, kSmallPage);
        CHECK_EQ(pages.limit_pages(PageTier::kPeer), 4 * kStripeBytesMin / kSmallPage);
        check_source(device, pages);
    }
    CHECK_EQ(peer->memory().used_bytes(), 0);
}

GPU_TEST("page source: memory that is refused goes to the next tier, or is told") {
    Device& device = test_device();
    PagePoolSpec spec;
    spec.page_bytes = kSmallPage;
    spec.device_bytes = kMiB;
    spec.host_bytes = 2 * kMiB;
    PagePool pool(device, spec);
    std::vector<Page> pages;
    device.memory().fail_after(1);
    const Error error = error_of([&] { take_pages(pool, PageTier::kDevice, 16, pages, "test"); });
    CHECK_EQ(error.code(), ErrorCode::kOutOfMemory);
    CHECK(!error.limit_reached);
    CHECK(pages.empty());
    device.memory().fail_after(1);
    CHECK(pool.try_take(16, pages));
    device.memory().fail_after(0);
    for (const Page& page : pages) CHECK(page.tier == PageTier::kHost);
    CHECK_EQ(pool.pages_in_use(PageTier::kDevice), 0);
    // What is preferred is refused and taken in one go: a slab as large as it likes, or as large as it must be.
    device.memory().fail_after(1);
    take_pages(pool, PageTier::kDevice, 3, pages, "test");
    device.memory().fail_after(0);
    take_pages(pool, PageTier::kDevice, 13, pages, "test");
    check_pages(device, pool, pages);
    pool.give_back(pages);
}

GPU_TEST("page source: plain host memory is counted and given back") {
    Device device(test_device().ordinal(), 64 * kMiB, 64 * kMiB, HostPlacement::kPlain);
    {
        PagePoolSpec spec;
        spec.page_bytes = kSmallPage;
        spec.host_bytes = 10 * kMiB;
        PagePool pool(device, spec);
        std::vector<Page> pages;
        take_pages(pool, PageTier::kHost, 160, pages, "test");
        CHECK_EQ(device.staging().used_bytes(), 10 * kMiB);
        // No kernel: this device may be one that does not reach such memory.
        for (const Page& page : pages) std::fill_n(page.data, kSmallPage, static_cast<uint8_t>(page.id));
        uint64_t wrong = 0;
        for (const Page& page : pages) {
            wrong += page.data[kSmallPage - 1] != static_cast<uint8_t>(page.id);
            wrong += is_pinned(page.data, kSmallPage);
        }
        CHECK_EQ(wrong, 0);
        pool.give_back(pages);
    }
    CHECK_EQ(device.staging().used_bytes(), 0);
}

GPU_TEST("page source: what cannot be") {
    Device& device = test_device();
    PagePoolSpec spec;
    for (const uint64_t page_bytes : {uint64_t{0}, 32 * kKiB, 96 * kKiB, 4 * kMiB}) {
        spec.page_bytes = page_bytes;
        CHECK_THROWS(PagePool(device, spec), ErrorCode::kInvalid);
    }
    spec.page_bytes = kSmallPage;
    spec.peer_bytes = kMiB;
    CHECK_THROWS(PagePool(device, spec), ErrorCode::kInvalid);
    spec.peer_bytes = 0;
    PagePool nothing(device, spec);
    std::vector<Page> pages;
    CHECK(nothing.try_take(0, pages));
    CHECK(!nothing.try_take(1, pages));
    PageDirectory directory(device);
    directory.update(nothing);
    CHECK_EQ(directory.pages(), 0);
}

}  // namespace spillway::cuda
