// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "baseline_join/baseline_join.hpp"
#include "support/staged_join_check.hpp"
#include "support/tier_check.hpp"

// Every algorithm of cuda/baseline_join on the relations of a host table, against the definition of the result.
namespace spillway::gpu_test {

using cuda::BaselineAlgorithm;
using cuda::BaselineSpec;

constexpr uint64_t kFarTestStripe = 2 << 20;

// Stripes of both tiers, or of the device's alone where the driver maps no host memory.
inline cuda::StripeShares far_shares(uint32_t device, uint32_t host) {
    static const std::string obstacle = [] {
        cuda::InterleavedMemory memory(test_device(), kFarTestStripe);
        return memory.obstacle({0, 0, 1});
    }();
    if (!obstacle.empty()) leave_out(obstacle);
    return obstacle.empty() ? cuda::StripeShares{device, 0, host} : cuda::StripeShares{1, 0, 0};
}

struct BaselineOutcome {
    StreamReport report;
    HostTable table;
};

inline BaselineOutcome run_baseline_join(cuda::Device& device, BaselineAlgorithm algorithm, const BaselineSpec& spec,
                                         PinnedChunks& build, PinnedChunks& probe, CollectingSink* sink) {
    BaselineOutcome outcome;
    {
        const std::unique_ptr<cuda::StreamOperator> join = cuda::open_baseline_join(device, algorithm, spec);
        join->run(cuda::kBuildSide, build, nullptr);
        join->run(cuda::kProbeSide, probe, sink);
        outcome.report = join->report();
    }
    CHECK(build.all_released());
    CHECK(probe.all_released());
    if (sink == nullptr) return outcome;
    CHECK(sink->complete());
    outcome.table = sink->table();
    return outcome;
}

class BaselineCheck {
  public:
    // The relations must stay. key_columns: of StagedJoinSpec, for kTriton alone.
    BaselineCheck(const KeyedRelation& build, const KeyedRelation& probe, const JoinKind& kind = {},
                  uint32_t key_columns = 0)
        : build_(build), probe_(probe), check_(build, probe, kind, key_columns) {}

    // Dense keys from first_key on: what perfect hashing is told.
    uint64_t first_key = 0;
    // Chunks of either side, as StagedJoinCheck::cuts.
    std::vector<uint64_t> cuts[2];

    const StagedJoinCheck& relations() const { return check_; }

    BaselineSpec spec(JoinResultKind result, const StreamSizes& sizes) const {
        BaselineSpec spec;
        spec.join = check_.spec(result, sizes);
        spec.build_rows = build_.host().rows();
        spec.first_key = first_key;
        spec.key_range = build_.host().rows();
        spec.shares = far_shares(1, 1);
        spec.stripe_bytes = kFarTestStripe;
        spec.probe_rows = probe_.host().rows();
        // Several groups; chunks of any cut.
        spec.coherent.page_rows = 16;
        spec.coherent.group_rows = 256;
        spec.coherent.chunks = static_cast<uint32_t>((spec.build_rows + spec.probe_rows) / sizes.chunk_rows + 8);
        return spec;
    }

    // Rows, and one of sums and count; all in the full suite.
    void all(BaselineAlgorithm algorithm, const StreamSizes& sizes, const std::string& what) const {
        expect(algorithm, spec(JoinResultKind::kRows, sizes), what + ", rows");
        const bool sums = check_.expected_rows() % 3 != 0;
        if (full_suite() || sums) expect(algorithm, spec(JoinResultKind::kSums, sizes), what + ", sums");
        if (full_suite() || !sums) expect(algorithm, spec(JoinResultKind::kCount, sizes), what + ", count");
    }

    void expect(BaselineAlgorithm algorithm, const BaselineSpec& spec, const std::string& what) const {
        const std::string text = std::string(name_of(algorithm)) + ", " + what;
        try {
            check(spec, run(test_device(), algorithm, spec), text);
        } catch (const cuda::Error& error) {
            fail(text + ": " + error.what(), __FILE__, __LINE__);
        }
    }

    BaselineOutcome run(cuda::Device& device, BaselineAlgorithm algorithm, const BaselineSpec& spec) const {
        PinnedChunks build = chunks(0, spec.join.sizes);
        PinnedChunks probe = chunks(1, spec.join.sizes);
        CollectingSink rows = check_.sink();
        CollectingSink* const sink = spec.join.result == JoinResultKind::kRows ? &rows : nullptr;
        return run_baseline_join(device, algorithm, spec, build, probe, sink);
    }
    PinnedChunks chunks(int side, const StreamSizes& sizes) const {
        const std::vector<uint64_t> whole = {sizes.chunk_rows};
        return PinnedChunks((side == 0 ? build_ : probe_).host(), cuts[side].empty() ? whole : cuts[side]);
    }

    void check(const BaselineSpec& spec, const BaselineOutcome& outcome, const std::string& what) const {
        try {
            CHECK_EQ(outcome.report.rows[0], build_.host().rows());
            CHECK_EQ(outcome.report.rows[1], probe_.host().rows());
            CHECK_EQ(outcome.report.result_rows, check_.expected_rows());
            if (spec.join.result == JoinResultKind::kSums) check_sums(spec, outcome.report);
        } catch (const Failure& failure) {
            throw Failure(what + ": " + failure.what());
        }
        if (spec.join.result != JoinResultKind::kRows) return;
        const std::string difference = row_difference(outcome.table, check_.expected());
        if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
    }

    static const char* name_of(BaselineAlgorithm algorithm) {
        for (const cuda::BaselineName& named : cuda::kBaselineNames) {
            if (named.algorithm == algorithm) return named.name;
        }
        return "an algorithm without a name";
    }

  private:
    void check_sums(const BaselineSpec& spec, const StreamReport& report) const {
        const std::vector<cuda::JoinOutputColumn> all = all_columns_and_presence(build_, probe_);
        CHECK_EQ(report.sums.size(), spec.join.output.size());
        for (size_t s = 0; s < report.sums.size(); ++s) {
            const cuda::JoinOutputColumn& wanted = spec.join.output[s];
            size_t at = 0;
            while (all.at(at).side != wanted.side || all.at(at).column != wanted.column) ++at;
            const HostColumn& column = check_.expected().columns[at];
            uint64_t sum = 0;
            for (uint64_t row = 0; row < column.rows(); ++row) {
                sum += column.width == 4 ? column.value<uint32_t>(row) : column.value<uint64_t>(row);
            }
            CHECK_EQ(report.sums[s], sum);
        }
    }

    const KeyedRelation& build_;
    const KeyedRelation& probe_;
    const StagedJoinCheck check_;
};

}  // namespace spillway::gpu_test
