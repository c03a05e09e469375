// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cuda/tier/page_source.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using cuda::Page;
using cuda::PageReservation;
using cuda::PageTier;

constexpr uint64_t kPage = uint64_t{64} << 10;

// Slabs of addresses that nobody touches.
class FakePages final : public cuda::PageSource {
  public:
    FakePages(const cuda::TierPages& limits, std::vector<PageTier> preference, uint64_t slab_pages)
        : PageSource(kPage, limits, std::move(preference)), slab_pages_(slab_pages) {}

    std::map<uint8_t*, uint64_t> slabs;
    int refusals = 0;  // of the next calls
    uint64_t capacity[4] = {1 << 20, 1 << 20, 1 << 20, 0};
    uint64_t grown = 0;
    int mistakes = 0;

  private:
    Slab grow(PageTier tier, uint64_t wanted, uint64_t most) override {
        ++grown;
        uint64_t& left = capacity[cuda::index_of(tier)];
        const uint64_t pages = std::min({std::max(slab_pages_, wanted / 2), most, left});
        if (wanted == 0 || most < wanted) ++mistakes;
        if (pages == 0 || refusals > 0) {
            --refusals;
            return {};
        }
        left -= pages;
        auto* const data = reinterpret_cast<uint8_t*>(next_address_);
        next_address_ += (pages + 1) * kPage;
        slabs[data] = pages;
        return {data, pages};
    }
    void shrink(PageTier tier, const Slab& slab) noexcept override {
        mistakes += slabs.erase(slab.data) == 1 ? 0 : 1;
        capacity[cuda::index_of(tier)] += slab.pages;
    }

    const uint64_t slab_pages_;
    uint64_t next_address_ = 1 << 20;
};

const std::vector<PageTier> kFastFirst{PageTier::kDevice, PageTier::kPeer, PageTier::kHost};

uint64_t of_tier(const std::vector<Page>& pages, PageTier tier) {
    return static_cast<uint64_t>(
        std::count_if(pages.begin(), pages.end(), [&](const Page& page) { return page.tier == tier; }));
}

template <class Exception, class Body>
bool throws(const Body& body) {
    try {
        body();
    } catch (const Exception&) {
        return true;
    }
    return false;
}

}  // namespace

TEST(cuda_page_source_limits_are_hard) {
    FakePages source({10, 3, 20, 0}, kFastFirst, 4);
    std::vector<Page> pages;
    EXPECT(!source.try_take(PageTier::kDevice, 11, pages));
    EXPECT_EQ(source.grown, 0u);
    EXPECT(source.try_take(PageTier::kDevice, 10, pages));
    EXPECT_EQ(pages.size(), 10u);
    EXPECT(!source.try_take(PageTier::kDevice, 1, pages));
    EXPECT(source.try_take(PageTier::kDevice, 0, pages));
    EXPECT(!source.try_take(PageTier::kDisk, 1, pages));
    EXPECT(source.try_take(PageTier::kPeer, 3, pages));
    EXPECT(!source.try_take(PageTier::kPeer, 1, pages));
    EXPECT_EQ(source.pages_free(PageTier::kDevice), 0u);
    EXPECT_EQ(source.pages_in_use(PageTier::kPeer), 3u);
    std::set<uint8_t*> addresses;
    for (const Page& page : pages) {
        EXPECT(addresses.insert(page.data).second);
        EXPECT(source.directory().at(page.id) == page.data);
    }
    source.give_back(pages);
    EXPECT_EQ(source.pages_free(PageTier::kDevice), 10u);
    EXPECT_EQ(source.mistakes, 0);
}

TEST(cuda_page_source_prefers_in_order) {
    FakePages source({5, 2, 9, 0}, {PageTier::kPeer, PageTier::kHost}, 4);
    std::vector<Page> pages;
    EXPECT(source.try_take(7, pages));
    EXPECT_EQ(of_tier(pages, PageTier::kPeer), 2u);
    EXPECT_EQ(of_tier(pages, PageTier::kHost), 5u);
    EXPECT(!source.try_take(5, pages));  // tiers that are not named are for those who name them
    EXPECT_EQ(pages.size(), 7u);
    EXPECT(source.try_take(4, pages));
    EXPECT_EQ(of_tier(pages, PageTier::kHost), 9u);
    source.give_back(pages);
    // What the memory refuses goes on to the next tier.
    FakePages poor({8, 0, 8, 0}, kFastFirst, 4);
    poor.capacity[0] = 3;
    pages.clear();
    EXPECT(poor.try_take(6, pages));
    EXPECT_EQ(of_tier(pages, PageTier::kDevice), 3u);
    EXPECT_EQ(of_tier(pages, PageTier::kHost), 3u);
    EXPECT(!poor.try_take(6, pages));
    EXPECT_EQ(pages.size(), 6u);
    EXPECT_EQ(source.mistakes + poor.mistakes, 0);
}

TEST(cuda_page_source_neighbours_and_reuse) {
    FakePages source({64, 0, 0, 0}, kFastFirst, 16);
    std::vector<Page> pages;
    EXPECT(source.try_take(16, pages));
    for (size_t i = 1; i < pages.size(); ++i) EXPECT(pages[i].data == pages[i - 1].data + kPage);
    const Page last = pages.back();
    source.give_back(last);
    pages.pop_back();
    EXPECT(source.try_take(1, pages));
    EXPECT(pages.back().data == last.data);
    EXPECT_EQ(source.grown, 1u);
    source.give_back(pages);
}

TEST(cuda_page_source_reservations_are_all_or_nothing) {
    FakePages source({10, 0, 10, 0}, kFastFirst, 4);
    PageReservation device = source.try_reserve(PageTier::kDevice, 8);
    EXPECT(static_cast<bool>(device));
    EXPECT(!source.try_reserve(PageTier::kDevice, 3));
    std::vector<Page> pages;
    EXPECT(!source.try_take(PageTier::kDevice, 3, pages));
    EXPECT(source.try_take(PageTier::kDevice, 2, pages));
    // The memory is there already: nothing can be refused any more.
    source.refusals = 100;
    source.trim();
    EXPECT(!device.take(9, pages));
    EXPECT(device.take(5, pages));
    EXPECT_EQ(device.pages(), 3u);
    EXPECT_EQ(source.pages_in_use(PageTier::kDevice), 7u);
    EXPECT_EQ(source.pages_free(PageTier::kDevice), 0u);
    PageReservation moved = std::move(device);
    EXPECT(!device && moved.pages() == 3);
    EXPECT(!device.take(1, pages));
    moved.reset();
    EXPECT_EQ(source.pages_free(PageTier::kDevice), 3u);
    EXPECT(!source.try_reserve(PageTier::kHost, 4));  // the memory refuses
    source.refusals = 0;
    EXPECT(static_cast<bool>(source.try_reserve(PageTier::kHost, 10)));
    EXPECT_EQ(source.pages_free(PageTier::kHost), 10u);
    source.give_back(pages);
    EXPECT_EQ(source.mistakes, 0);
}

TEST(cuda_page_source_trims_free_slabs_and_uses_their_ids_again) {
    FakePages source({64, 0, 0, 0}, kFastFirst, 8);
    std::vector<Page> pages;
    EXPECT(source.try_take(4, pages));
    for (int i = 0; i < 3; ++i) EXPECT(source.try_take(8, pages));  // 28 of 32 pages
    EXPECT_EQ(source.slabs.size(), 4u);
    const Page kept = pages.front();
    pages.erase(pages.begin());
    source.give_back(pages);
    const uint64_t changes = source.changes();
    source.trim();
    EXPECT(source.changes() > changes);
    EXPECT_EQ(source.slabs.size(), 1u);
    const std::vector<uint8_t*> directory = source.directory();
    EXPECT(directory.at(kept.id) == kept.data);
    EXPECT_EQ(std::count(directory.begin(), directory.end(), nullptr), 24);
    pages.clear();
    EXPECT(source.try_take(15, pages));
    EXPECT_EQ(source.directory().size(), directory.size());
    pages.push_back(kept);
    source.give_back(pages);
    source.trim();
    EXPECT_EQ(source.slabs.size(), 0u);
    EXPECT_EQ(source.mistakes, 0);
}

TEST(cuda_page_source_refuses_what_is_not_out) {
    FakePages source({8, 0, 0, 0}, kFastFirst, 8);
    std::vector<Page> pages;
    EXPECT(source.try_take(2, pages));
    source.give_back(pages[0]);
    EXPECT(throws<std::logic_error>([&] { source.give_back(pages[0]); }));
    EXPECT(throws<std::logic_error>([&] { source.give_back(Page{99, PageTier::kDevice, nullptr}); }));
    Page forged = pages[1];
    forged.data += kPage;
    EXPECT(throws<std::logic_error>([&] { source.give_back(forged); }));
    source.give_back(pages[1]);
    EXPECT_EQ(source.pages_in_use(PageTier::kDevice), 0u);
    EXPECT(throws<std::invalid_argument>([] { FakePages({0, 0, 0, 1}, kFastFirst, 8); }));
    EXPECT(throws<std::invalid_argument>([] { FakePages({1, 0, 0, 0}, {PageTier::kHost, PageTier::kHost}, 8); }));
}

// Whatever is taken, reserved, given back and trimmed, in any order: no page is out twice, the counts are right.
TEST(cuda_page_source_random) {
    for (uint32_t seed = 0; seed < 10; ++seed) {
        std::mt19937_64 random(seed);
        FakePages source({40, 15, 100, 0}, kFastFirst, 1 + random() % 16);
        std::vector<Page> out;
        std::vector<PageReservation> reservations;
        for (size_t step = 0; step < test::fewer_if_sanitized(1500); ++step) {
            const auto tier = static_cast<PageTier>(random() % 3);
            source.refusals = random() % 8 == 0 ? 1 : 0;
            const uint64_t some = random() % 12;
            const size_t before = out.size();
            const uint64_t free = source.pages_free(tier);
            switch (random() % 6) {
                case 0:
                    if (source.try_take(tier, some, out)) {
                        EXPECT(some <= free && out.size() == before + some);
                    }
                    break;
                case 1: {
                    const bool taken = source.try_take(some, out);
                    EXPECT_EQ(out.size(), before + (taken ? some : 0));
                    break;
                }
                case 2:
                    reservations.push_back(source.try_reserve(tier, some));
                    break;
                case 3:
                    if (!reservations.empty()) {
                        PageReservation& reservation = reservations[random() % reservations.size()];
                        const bool enough = some <= reservation.pages();
                        EXPECT_EQ(reservation.take(some, out), enough);
                        if (random() % 2 == 0) reservation.reset();
                    }
                    break;
                case 4:
                    for (uint64_t i = 0; i < some && !out.empty(); ++i) {
                        std::swap(out[random() % out.size()], out.back());
                        source.give_back(out.back());
                        out.pop_back();
                    }
                    break;
                default:
                    if (random() % 8 == 0) source.trim();
            }
            std::set<uint8_t*> addresses;
            uint64_t reserved[3] = {0, 0, 0};
            for (const Page& page : out) EXPECT(addresses.insert(page.data).second);
            for (const PageReservation& held : reservations) reserved[cuda::index_of(held.tier())] += held.pages();
            for (const PageTier each : kFastFirst) {
                EXPECT_EQ(source.pages_in_use(each), of_tier(out, each));
                EXPECT_EQ(source.pages_free(each) + source.pages_in_use(each) + reserved[cuda::index_of(each)],
                          source.limit_pages(each));
            }
        }
        reservations.clear();
        source.give_back(out);
        source.trim();
        EXPECT_EQ(source.slabs.size(), 0u);
        EXPECT_EQ(source.mistakes, 0);
    }
}

}  // namespace spillway
