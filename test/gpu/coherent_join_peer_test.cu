// SPDX-License-Identifier: Apache-2.0
// Joins by kernels whose far pages lie in another GPU's memory as far as that goes: of the test's own GPU once more,
// which has all of it but the link, and of a second one where the first reaches it.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "support/coherent_check.hpp"
#include "support/error_of.hpp"
#include "support/failing_allocations.hpp"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

constexpr uint64_t kPeerBytes = 256ULL << 20;
constexpr uint64_t kRowBytes = 16;

uint64_t far_bytes(const StreamReport& report) {
    return report.spilled_bytes[0] + report.spilled_bytes[1];
}

// body(device, name) for each.
template <class Body>
void on_each_peer(const Body& body) {
    {
        cuda::Device own(test_device().ordinal(), kPeerBytes);
        body(own, std::string("the same GPU"));
    }
    if (peer_ordinal() < 0) return leave_out(kNoPeer);
    cuda::Device other(peer_ordinal(), kPeerBytes);
    body(other, std::string("another GPU"));
}

// Unique keys of which most have a partner, a chunk a side.
struct Relations {
    explicit Relations(uint64_t count)
        : rows(count),
          keys(dense_permutation(rows, test_seed())),
          check(keys, foreign_keys(keys, rows, 0.9, test_seed())) {}

    // Far pages of the host alone, and none of it.
    BaselineSpec spec(JoinResultKind result, cuda::StripeShares shares, cuda::Device& peer, uint64_t peer_bytes) const {
        BaselineSpec spec = check.spec(result, 3, rows / 3, shares);
        spec.peer = &peer;
        spec.join.sizes.peer_bytes = peer_bytes;
        return spec;
    }
    StreamReport run(const BaselineSpec& spec, const std::string& what) const {
        const BaselineOutcome outcome = check.run(spec);
        check.check().check(spec, outcome, what);
        const StreamReport& report = outcome.report;
        if (spec.join.result != JoinResultKind::kRows) {
            CHECK_EQ(report.h2d_bytes, 2 * rows * kRowBytes + far_bytes(report));
            CHECK_EQ(report.d2h_bytes, far_bytes(report));
        }
        CHECK(report.peer_bytes <= far_bytes(report));
        CHECK_EQ(spec.peer->memory().blocks(), 0);
        return report;
    }

    const uint64_t rows;
    const std::vector<uint64_t> keys;
    const CoherentCheck check;
};

}  // namespace

GPU_TEST("coherent join with a peer: its memory takes far pages first, then the host's") {
    const Relations relations(small_or_full(4000, 100'000));
    const uint64_t all_bytes = 2 * relations.rows * kRowBytes;
    const uint64_t page_rows = small_or_full(64, 1024);
    // 64 pages: less than half of those of one side.
    const uint64_t few = 64 * page_rows * kRowBytes;
    on_each_peer([&](cuda::Device& peer, const std::string& name) {
        for (const auto result : {JoinResultKind::kSums, JoinResultKind::kRows}) {
            const auto run = [&](cuda::StripeShares shares, uint64_t peer_bytes, uint64_t host_bytes) {
                BaselineSpec spec = relations.spec(result, shares, peer, peer_bytes);
                spec.coherent.page_rows = page_rows;
                spec.join.sizes.spill_bytes = host_bytes;
                return relations.run(spec, name + ", " + std::to_string(shares.device) + ", " +
                                               std::to_string(peer_bytes) + ", " + std::to_string(host_bytes));
            };
            const StreamReport far = run(kFarOnly, kPeerBytes, 0);
            CHECK_EQ(far.peer_bytes, all_bytes);
            const StreamReport mixed = run(kMixed, kPeerBytes, 0);
            CHECK(mixed.peer_bytes > 0 && mixed.peer_bytes < all_bytes);
            CHECK_EQ(mixed.peer_bytes, far_bytes(mixed));
            for (const cuda::StripeShares shares : {kFarOnly, kMixed}) {
                const StreamReport three = run(shares, few, kAmpleBytes);
                CHECK(three.peer_bytes > 0 && three.peer_bytes <= few);
                CHECK(three.peer_bytes < far_bytes(three));
            }
            const StreamReport none = run(kFarOnly, 0, kAmpleBytes);
            CHECK_EQ(none.peer_bytes, 0);
            CHECK_EQ(far_bytes(none), all_bytes);
        }
    });
}

GPU_TEST("coherent join with a peer: as many near pages as fit, the rest there") {
    const Relations relations(small_or_full(20'000, 1'000'000));
    on_each_peer([&](cuda::Device& peer, const std::string& name) {
        BaselineSpec spec = relations.spec(JoinResultKind::kCount, {}, peer, kPeerBytes);
        spec.coherent.page_rows = 1024;
        spec.coherent.group_rows = 0;
        spec.coherent.device_bytes = limit_for_half_of_the_pages(spec, relations.rows);
        spec.join.sizes.spill_bytes = 0;
        const StreamReport report = relations.run(spec, name);
        CHECK(report.peer_bytes > 0 && report.peer_bytes < 2 * relations.rows * kRowBytes);
        CHECK_EQ(report.peer_bytes, far_bytes(report));
    });
}

GPU_TEST("coherent join with a peer: pages of a mapped range, with stripes of each tier") {
    const Relations relations(small_or_full(300'000, 2'000'000));  // several stripes of 2 MiB
    on_each_peer([&](cuda::Device& peer, const std::string& name) {
        for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums}) {
            const auto run = [&](cuda::StripeShares shares, uint64_t peer_bytes, uint64_t host_bytes) {
                BaselineSpec spec = relations.spec(result, shares, peer, peer_bytes);
                spec.coherent.page_rows = 4096;
                spec.coherent.mapped = true;
                spec.join.sizes.spill_bytes = host_bytes;
                const StreamReport report = relations.run(spec, name + ", mapped");
                CHECK_EQ(peer.memory().used_bytes(), 0);
                return report;
            };
            // Without a stripe of the host, which some drivers map none of.
            const StreamReport far = run(kFarOnly, kPeerBytes, 0);
            CHECK_EQ(far.peer_bytes, 2 * relations.rows * kRowBytes);
            const StreamReport mixed = run(kMixed, kPeerBytes, 0);
            CHECK(mixed.peer_bytes > 0 && mixed.peer_bytes < far.peer_bytes);
            CHECK_EQ(mixed.peer_bytes, far_bytes(mixed));
            if (far_shares(0, 1).host == 0) continue;
            // One stripe, of a limit that is not quite two.
            const uint64_t stripe_bytes = cuda::mapped_stripe_bytes(2 * relations.rows * kRowBytes);
            const StreamReport three = run(kMixed, 2 * stripe_bytes - 1, kAmpleBytes);
            CHECK(three.peer_bytes > 0 && three.peer_bytes <= stripe_bytes);
            CHECK(three.peer_bytes < far_bytes(three));
        }
    });
}

// Benchmarks name the peer in their shares.
GPU_TEST("coherent join with a peer: pages by shares that name it") {
    const Relations relations(small_or_full(2000, 100'000));
    on_each_peer([&](cuda::Device& peer, const std::string& name) {
        for (const cuda::StripeShares shares : {cuda::StripeShares{0, 1, 0}, {1, 1, 0}, {1, 1, 1}}) {
            const BaselineSpec spec = relations.spec(JoinResultKind::kRows, shares, peer, 0);
            relations.check.all(spec,
                                name + ", " + std::to_string(shares.device) + ":1:" + std::to_string(shares.host));
        }
        CHECK_EQ(peer.memory().blocks(), 0);
    });
}

GPU_TEST("coherent join with a peer: every kind, with rows that have no key") {
    const uint64_t rows = small_or_full(700, 20'000);
    on_each_peer([&](cuda::Device& peer, const std::string& name) {
        for (const NamedJoinKind& named : kNamedJoinKinds) {
            const std::vector<uint64_t> keys = repeated_keys(sparse_keys(rows / 3, test_seed()), 3, test_seed());
            const KeyedRelation build(keys, 8, {8}, test_seed(), 0.2);
            const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.6, test_seed()), 8, {8}, test_seed() + 1, 0.2);
            const BaselineCheck check(build, probe, named.kind);
            BaselineSpec spec = check.spec(JoinResultKind::kRows, ample_sizes(2 * rows, 4, rows / 2));
            spec.peer = &peer;
            spec.join.sizes.peer_bytes = kPeerBytes;
            spec.join.sizes.spill_bytes = 0;
            spec.shares = kMixed;
            spec.coherent.group_rows = rows / 5;
            check.expect(kCoherent, spec, name + ", " + named.name);
            CHECK_EQ(peer.memory().blocks(), 0);
        }
    });
}

GPU_TEST("coherent join with a peer: pages that it has no memory for after all are the host's") {
    const Relations relations(small_or_full(2000, 100'000));
    on_each_peer([&](cuda::Device& peer, const std::string& name) {
        BaselineSpec spec = relations.spec(JoinResultKind::kSums, kMixed, peer, kPeerBytes);
        {
            const InjectedFault fault(peer.memory(), 1);
            const StreamReport report = relations.run(spec, name + ", a refusal");
            CHECK_EQ(report.peer_bytes, 0);
            CHECK(far_bytes(report) > 0);
        }
        // What another user has of its memory is known before.
        {
            const cuda::Allocation others = peer.memory().allocate(kPeerBytes - (1 << 20), "another user");
            spec.join.sizes.spill_bytes = kAmpleBytes;
            const BaselineOutcome outcome = relations.check.run(spec);
            relations.check.check().check(spec, outcome, name + ", little is left");
            CHECK(outcome.report.peer_bytes <= 1 << 20);
        }
        spec.join.sizes.spill_bytes = 0;
        const InjectedFault fault(peer.memory(), 1);
        const cuda::Error error = error_of([&] { relations.check.run(spec); });
        CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
        CHECK(error.tier == cuda::Tier::kHost);
        CHECK_EQ(peer.memory().blocks(), 0);
    });
}

}  // namespace spillway::gpu_test
