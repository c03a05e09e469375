// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "group_by/plan/accumulators.hpp"
#include "group_by/plan/aggregate_parts.hpp"
#include "group_by/plan/group_policy.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

bool only_counts(const GroupAggregate& aggregate) {
    return aggregate.kind == GroupAggregateKind::kCountRows || aggregate.kind == GroupAggregateKind::kCount;
}

bool is_row_number(const GroupAggregate& aggregate) {
    return aggregate.kind == GroupAggregateKind::kFirst || (!only_counts(aggregate) && !aggregate.values.data);
}

bool is_narrow(const GroupAggregate& aggregate) {
    if (aggregate.kind == GroupAggregateKind::kCountRows) return true;
    if (aggregate.valid != nullptr || is_row_number(aggregate)) return false;
    return only_counts(aggregate) || aggregate.values.width == 4 || aggregate.values.width == 8;
}

// What the aggregates of a part ask of a group-by, as group_plan.cu makes a plan of them, or more.
class PartSize {
  public:
    explicit PartSize(const GroupByRequest& request) : request_(&request) {
        if (request.key_valid != nullptr) bitmaps_.push_back(request.key_valid);
    }

    void add(const GroupAggregate& aggregate) {
        ++aggregates_;
        accumulators_ += aggregate.kind == GroupAggregateKind::kMean ? 2 : 1;
        if (aggregate.kind == GroupAggregateKind::kCountRows) return;
        if (aggregate.valid != nullptr && aggregate.kind != GroupAggregateKind::kFirst) {
            if (std::find(bitmaps_.begin(), bitmaps_.end(), aggregate.valid) == bitmaps_.end()) {
                bitmaps_.push_back(aggregate.valid);
            }
            has_flags_ = true;
        }
        needs_row_number_ = needs_row_number_ || is_row_number(aggregate);
        if (only_counts(aggregate) || is_row_number(aggregate)) return;
        all_short_sums_ = all_short_sums_ && aggregate.kind == GroupAggregateKind::kSum &&
                          aggregate.value_kind != ValueKind::kFloat && aggregate.values.width == 4;
        for (const DeviceColumn& column : columns_) {
            if (column.data == aggregate.values.data && column.width == aggregate.values.width) return;
        }
        columns_.push_back(aggregate.values);
    }

    bool fits_accumulators() const {
        return aggregates_ <= kGroupAggregatesMax && accumulators_ + (has_flags_ ? 1 : 0) <= kAccumulatorsMax;
    }
    bool fits_narrow() const {
        const bool is_hash = request_->algorithm == GroupByAlgorithm::kHash;
        const uint32_t most = narrow_part_words(is_hash, request_->key.width / 4, all_short_sums_);
        return fits_accumulators() && column_bytes() <= 4 * most;
    }
    bool fits_rows() const {
        if (!fits_accumulators() || bitmaps_.size() > 32) return false;
        const bool has_mask = !bitmaps_.empty();
        if (request_->algorithm == GroupByAlgorithm::kHash) {
            return columns_.size() + (has_mask ? 2 : 1) <= static_cast<size_t>(kStagedMax);
        }
        if (request_->algorithm != GroupByAlgorithm::kPartitioned) return true;
        const uint32_t mask_bytes = !has_mask ? 0 : bitmaps_.size() <= 8 ? 1 : bitmaps_.size() <= 16 ? 2 : 4;
        const uint32_t number_bytes = !needs_row_number_ ? 0 : request_->rows > 1ULL << 32 ? 8 : 4;
        return request_->key.width + mask_bytes + number_bytes + column_bytes() <= kRowWordsMax * 4;
    }

  private:
    uint32_t column_bytes() const {
        uint32_t bytes = 0;
        for (const DeviceColumn& column : columns_) bytes += column.width;
        return bytes;
    }

    const GroupByRequest* request_;
    std::vector<DeviceColumn> columns_;
    std::vector<const uint32_t*> bitmaps_;
    int aggregates_ = 0;
    int accumulators_ = 0;
    bool has_flags_ = false;
    bool needs_row_number_ = false;
    bool all_short_sums_ = true;  // of columns; counts may be beside them
};

class Parting {
  public:
    explicit Parting(const GroupByRequest& request) : request_(request) {
        const bool has_kernels =
            request.algorithm == GroupByAlgorithm::kHash || request.algorithm == GroupByAlgorithm::kPartitioned;
        takes_narrow_ = has_kernels && request.key_valid == nullptr;
    }

    std::vector<std::vector<size_t>> run() {
        std::vector<size_t> all(request_.aggregates.size());
        std::iota(all.begin(), all.end(), size_t{0});
        if (!request_.in_parts) return {all};
        std::vector<size_t> narrow;
        std::vector<size_t> others;
        for (const size_t i : all) {
            (takes_narrow_ && is_narrow(request_.aggregates[i]) ? narrow : others).push_back(i);
        }
        PartSize size(request_);
        for (const GroupAggregate& aggregate : request_.aggregates) size.add(aggregate);
        if (others.empty() ? size.fits_narrow() : size.fits_rows()) return {all};
        cut(narrow, [](const PartSize& part) { return part.fits_narrow(); });
        cut(others, [](const PartSize& part) { return part.fits_rows(); });
        return std::move(parts_);
    }

  private:
    // Aggregates of one column beside each other, in the order of their first ones.
    std::vector<size_t> by_column(const std::vector<size_t>& places) const {
        std::vector<size_t> sorted;
        std::vector<bool> is_taken(places.size(), false);
        for (size_t i = 0; i < places.size(); ++i) {
            for (size_t other = i; other < places.size(); ++other) {
                if (is_taken[other] || !same_column(places[i], places[other])) continue;
                is_taken[other] = true;
                sorted.push_back(places[other]);
            }
        }
        return sorted;
    }
    bool same_column(size_t one, size_t other) const {
        const GroupAggregate& a = request_.aggregates[one];
        const GroupAggregate& b = request_.aggregates[other];
        if (is_row_number(a) || is_row_number(b)) return is_row_number(a) && is_row_number(b);
        return a.values.data == b.values.data && a.valid == b.valid;
    }

    // fits(PartSize): a part may be so large. One aggregate always may.
    template <class Fits>
    void cut(const std::vector<size_t>& places, const Fits& fits) {
        std::vector<size_t> part;
        PartSize size(request_);
        for (const size_t i : by_column(places)) {
            PartSize larger = size;
            larger.add(request_.aggregates[i]);
            if (!part.empty() && !fits(larger)) {
                parts_.push_back(std::move(part));
                part.clear();
                larger = PartSize(request_);
                larger.add(request_.aggregates[i]);
            }
            part.push_back(i);
            size = larger;
        }
        if (!part.empty()) parts_.push_back(std::move(part));
    }

    const GroupByRequest& request_;
    bool takes_narrow_ = false;
    std::vector<std::vector<size_t>> parts_;
};

}  // namespace

std::vector<std::vector<size_t>> aggregate_parts(const GroupByRequest& request) {
    return Parting(request).run();
}

}}  // namespace spillway::cuda::grouping
