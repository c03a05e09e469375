// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "coherent_join/coherent_shape.hpp"
#include "gpu_test.hpp"
#include "support/baseline_join_check.hpp"

// Joins by kernels alone, of relations that come as one chunk each, against the definition of the result.
namespace spillway::gpu_test {

constexpr auto kCoherent = BaselineAlgorithm::kTriton;
constexpr uint64_t kCoherentPageRows = 16;
constexpr uint64_t kAmpleBytes = 1ULL << 30;

constexpr cuda::StripeShares kFarOnly{0, 0, 1};
constexpr cuda::StripeShares kMixed{1, 0, 1};
constexpr cuda::StripeShares kNearOnly{1, 0, 0};

// Relations of one key and one payload of its width, joined as one chunk each.
class CoherentCheck {
  public:
    CoherentCheck(const std::vector<uint64_t>& build_keys, const std::vector<uint64_t>& probe_keys, uint32_t width = 8)
        : build_(build_keys, width, {width}, test_seed()),
          probe_(probe_keys, width, {width}, test_seed() + 1),
          check_(build_, probe_) {}

    BaselineSpec spec(JoinResultKind result, int radix_bits, uint64_t group_rows, cuda::StripeShares shares) const {
        const uint64_t rows = std::max(build_.host().rows(), probe_.host().rows());
        BaselineSpec spec = check_.spec(result, ample_sizes(rows, radix_bits, rows + 1));
        spec.join.sizes.result_rows = 500;
        spec.shares = shares;
        spec.coherent.page_rows = kCoherentPageRows;
        spec.coherent.group_rows = group_rows;
        spec.coherent.chunks = 1;
        return spec;
    }
    void expect(const BaselineSpec& spec, const std::string& what) const { check_.expect(kCoherent, spec, what); }
    // Rows, and one of sums and count; all in the full suite.
    void all(BaselineSpec spec, const std::string& what) const {
        for (const auto result : {JoinResultKind::kRows, JoinResultKind::kSums, JoinResultKind::kCount}) {
            const bool odd = check_.relations().expected_rows() % 2 != 0;
            const bool left_out = odd ? result == JoinResultKind::kSums : result == JoinResultKind::kCount;
            if (left_out && !full_suite()) continue;
            spec.join.result = result;
            spec.join.output = check_.spec(result, spec.join.sizes).join.output;
            expect(spec, what);
            if (result == JoinResultKind::kRows || !full_suite()) continue;
            BaselineSpec indexed = spec;
            indexed.coherent.second_pass = false;
            expect(indexed, what + ", indexed");
        }
    }
    BaselineOutcome run(const BaselineSpec& spec, cuda::Device& device = test_device()) const {
        return check_.run(device, kCoherent, spec);
    }
    const BaselineCheck& check() const { return check_; }

  private:
    const KeyedRelation build_;
    const KeyedRelation probe_;
    const BaselineCheck check_;
};

// A limit that has room for some pages of GPU memory, not for all: it falls until there is no room for more than half.
inline uint64_t limit_for_half_of_the_pages(const BaselineSpec& far, uint64_t rows) {
    cuda::CoherentJoinSpec spec;
    spec.join = far.join;
    spec.rows[0] = spec.rows[1] = rows;
    spec.options = far.coherent;
    spec.options.device_bytes = kAmpleBytes;
    for (;; spec.options.device_bytes -= spec.options.device_bytes / 512) {
        const auto shape = cuda::CoherentShape::make(spec, test_device());
        const uint64_t pages = shape.shares(test_device(), spec, nullptr).device;
        if (2 * pages > shape.pages) continue;
        CHECK(pages > 0);
        return spec.options.device_bytes;
    }
}

}  // namespace spillway::gpu_test
