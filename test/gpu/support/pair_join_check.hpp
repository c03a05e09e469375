// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "gpu_test.hpp"
#include "pair_join/join_tuples.hpp"
#include "primitive/mix.cuh"
#include "support/device_array.hpp"
#include "support/keyed_relation.hpp"
#include "support/reference_join.hpp"

// Joins that give pairs of row numbers, and their partitionings, against the definition of both.
namespace spillway::gpu_test {

using cuda::MatchPairs;
using cuda::MatchWish;
using cuda::OutputPlan;
using cuda::PairJoinOptions;
using cuda::PartitionedTuples;

// One of the joins.
struct PairJoin {
    const char* name;
    MatchPairs (*pairs)(cuda::Device&, const cuda::DeviceRelation&, const cuda::DeviceRelation&, const MatchWish&,
                        const PairJoinOptions&);
    PartitionedTuples (*partition)(cuda::Device&, const cuda::DeviceRelation&, uint32_t row_width, int radix_bits);
};

using RowNumberPairs = std::vector<std::pair<uint64_t, uint64_t>>;

// `count` numbers of 4 or 8 bytes from number `first` on.
inline std::vector<uint64_t> download_numbers(const cuda::Allocation& memory, uint32_t width, uint64_t first,
                                              uint64_t count) {
    if (width == 8) return download(memory.as<uint64_t>() + first, count);
    const std::vector<uint32_t> narrow = download(memory.as<uint32_t>() + first, count);
    return std::vector<uint64_t>(narrow.begin(), narrow.end());
}

inline RowNumberPairs sorted_pairs(const MatchPairs& pairs) {
    const auto build = download_numbers(pairs.build_rows, pairs.build_width, 0, pairs.count);
    const auto probe = download_numbers(pairs.probe_rows, pairs.probe_width, 0, pairs.count);
    RowNumberPairs sorted(pairs.count);
    for (uint64_t i = 0; i < pairs.count; ++i) sorted[i] = {build[i], probe[i]};
    std::sort(sorted.begin(), sorted.end());
    return sorted;
}

// Marks of one side: what a join is given, and what it must make of them.
class MarkCheck {
  public:
    MarkCheck(const RowNumberPairs& pairs, uint64_t rows, bool of_build)
        : expected_((rows + 31) / 32), marks_(upload(std::vector<uint32_t>(expected_.size()))) {
        for (const auto& pair : pairs) {
            const uint64_t row = of_build ? pair.first : pair.second;
            expected_[row / 32] |= 1U << row % 32;
        }
    }
    uint32_t* device() const { return marks_.data(); }
    bool good() const { return download(marks_) == expected_; }

  private:
    std::vector<uint32_t> expected_;
    DeviceArray<uint32_t> marks_;
};

class PairCheck {
  public:
    PairCheck(const PairJoin& join, const KeyedRelation& build, const KeyedRelation& probe)
        : join_(join),
          build_(build),
          probe_(probe),
          expected_(reference_pairs(build.host(), probe.host(), {0}, {0}, JoinType::kInner)) {
        std::sort(expected_.begin(), expected_.end());
    }

    // Both output plans; in the full suite also memory for all of the pairs, and row numbers of both widths.
    void all(PairJoinOptions options, const std::string& what) const {
        const uint64_t blocks = test_device().memory().blocks();
        for (const bool wide : {false, true}) {
            if (!full_suite() && wide != (build_.device().key.width == 8)) continue;
            options.wide_row_numbers = wide;
            const std::string text = join_.name + (", " + what) + (wide ? ", 64-bit row numbers" : "");
            options.plan = OutputPlan::kOnePass;
            options.expected_rows = 0;
            pairs(options, true, text + ", nothing expected");
            CHECK_EQ(run({false, nullptr, nullptr}, options).count, expected_.size());
            marks(options, true, true, text);
            options.plan = OutputPlan::kCountFirst;
            pairs(options, true, text + ", counted first");
            if (!full_suite()) continue;
            marks(options, true, false, text);
            marks(options, false, true, text);
            options.plan = OutputPlan::kOnePass;
            options.expected_rows = expected_.size();
            pairs(options, false, text);
        }
        CHECK_EQ(test_device().memory().blocks(), blocks);
    }

    void pairs(const PairJoinOptions& options, bool marked, const std::string& what) const {
        const MarkCheck build(expected_, build_.device().rows, true);
        const MarkCheck probe(expected_, probe_.device().rows, false);
        const MatchWish wish = {true, marked ? build.device() : nullptr, marked ? probe.device() : nullptr};
        const MatchPairs found = run(wish, options);
        CHECK_EQ(found.count, expected_.size());
        if (sorted_pairs(found) != expected_) fail(what + ": other pairs", __FILE__, __LINE__);
        if (marked) expect_marks(build, probe, true, true, what);
    }

    // Marks alone.
    void marks(const PairJoinOptions& options, bool of_build, bool of_probe, const std::string& what) const {
        const MarkCheck build(expected_, build_.device().rows, true);
        const MarkCheck probe(expected_, probe_.device().rows, false);
        run({false, of_build ? build.device() : nullptr, of_probe ? probe.device() : nullptr}, options);
        expect_marks(build, probe, of_build, of_probe, what + ", marks alone");
    }

    MatchPairs run(const MatchWish& wish, const PairJoinOptions& options) const {
        return join_.pairs(test_device(), build_.device(), probe_.device(), wish, options);
    }

  private:
    static void expect_marks(const MarkCheck& build, const MarkCheck& probe, bool of_build, bool of_probe,
                             const std::string& what) {
        if (of_build && !build.good()) fail(what + ": other build marks", __FILE__, __LINE__);
        if (of_probe && !probe.good()) fail(what + ": other probe marks", __FILE__, __LINE__);
    }

    const PairJoin& join_;
    const KeyedRelation& build_;
    const KeyedRelation& probe_;
    RowNumberPairs expected_;
};

inline uint64_t key_of_row(const KeyedRelation& relation, uint64_t row) {
    const HostColumn& keys = relation.host().columns[0];
    return keys.width == 4 ? keys.value<uint32_t>(row) : keys.value<uint64_t>(row);
}

// Every row that has a key is in the partition of its mixed key, with that key, once; buckets belong to one chain each.
class PartitionCheck {
  public:
    PartitionCheck(const PartitionedTuples& tuples, const KeyedRelation& relation, const std::string& what)
        : tuples_(tuples), relation_(relation), what_(what), seen_(relation.device().rows) {
        const auto sizes = download(tuples.sizes.as<uint64_t>(), tuples.partitions());
        const auto begin = download(tuples.begin.as<uint64_t>(), tuples.partitions() + 1);
        for (uint64_t p = 0; p < tuples.partitions(); ++p) {
            const uint64_t size = sizes[p];
            if (tuples.bucket_tuples == 0) {
                CHECK_EQ(begin[p + 1] - begin[p], size);
                check_tuples(p, begin[p], size);
                continue;
            }
            const uint64_t buckets = (size + tuples.bucket_tuples - 1) / tuples.bucket_tuples;
            CHECK_EQ(begin[p + 1] - begin[p], buckets);
            check_chain(p, begin[p], size);
        }
        uint64_t keyed = 0;
        for (uint64_t row = 0; row < seen_.size(); ++row) {
            const bool has_key = relation.host().columns[0].is_valid(row);
            keyed += has_key ? 1 : 0;
            expect(seen_[row] == has_key, "a row is not there, or should not be");
        }
        CHECK_EQ(tuples_found_, keyed);
        if (tuples.bucket_tuples == 0) CHECK_EQ(begin.back(), keyed);
    }

  private:
    void check_chain(uint64_t p, uint64_t first, uint64_t size) {
        const uint64_t buckets = (size + tuples_.bucket_tuples - 1) / tuples_.bucket_tuples;
        const auto list = download(tuples_.bucket_list.as<uint32_t>() + first, buckets);
        for (uint64_t b = 0; b < buckets; ++b) {
            if (list[b] >= bucket_seen_.size()) bucket_seen_.resize(list[b] + 1);
            expect(!bucket_seen_[list[b]], "a bucket in two chains");
            bucket_seen_[list[b]] = true;
            const uint64_t left = size - b * tuples_.bucket_tuples;
            check_tuples(p, uint64_t{list[b]} * tuples_.bucket_tuples, std::min<uint64_t>(left, tuples_.bucket_tuples));
        }
    }

    void check_tuples(uint64_t p, uint64_t first, uint64_t count) {
        const auto keys = download_numbers(tuples_.keys, tuples_.key_width, first, count);
        const auto rows = download_numbers(tuples_.rows, tuples_.row_width, first, count);
        const bool narrow = tuples_.key_width == 4;
        for (uint64_t i = 0; i < count; ++i) {
            const uint64_t top = narrow ? keys[i] : keys[i] >> 32;
            expect(tuples_.radix_bits == 0 || top >> (32 - tuples_.radix_bits) == p, "a key of another partition");
            expect(rows[i] < seen_.size() && !seen_[rows[i]], "a row that there is not, or twice");
            seen_[rows[i]] = true;
            const uint64_t key = narrow ? cuda::unmix32(static_cast<uint32_t>(keys[i])) : cuda::unmix64(keys[i]);
            expect(key == key_of_row(relation_, rows[i]), "a row with another key");
        }
        tuples_found_ += count;
    }

    void expect(bool good, const char* text) const {
        if (!good) fail(what_ + ": " + text, __FILE__, __LINE__);
    }

    const PartitionedTuples& tuples_;
    const KeyedRelation& relation_;
    const std::string what_;
    std::vector<bool> seen_;
    std::vector<bool> bucket_seen_;
    uint64_t tuples_found_ = 0;
};

}  // namespace spillway::gpu_test
