// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu/group_by/aggregate.hpp"
#include "cpu/group_by/aggregate_state.hpp"

namespace spillway {

namespace {

void combine_fixed(const AggregatePlan& aggregate, uint8_t* to, uint8_t* from) {
    uint8_t& has_value = to[aggregate.flag_offset];
    if (from[aggregate.flag_offset] == 0) return;
    if (has_value != 0) {
        const int order = compare_fixed(*aggregate.value_type, from + aggregate.offset, to + aggregate.offset);
        if (aggregate.state == StateKind::kMinFixed ? order >= 0 : order <= 0) return;
    }
    std::memcpy(to + aggregate.offset, from + aggregate.offset, aggregate.value_bytes);
    has_value = 1;
}

void combine_bytes(const AggregatePlan& aggregate, uint8_t* to, uint8_t* from) {
    uint8_t& has_value = to[aggregate.flag_offset];
    if (from[aggregate.flag_offset] == 0) return;
    auto& mine = *state_at<BytesState>(to, aggregate);
    const auto& other = *state_at<BytesState>(from, aggregate);
    if (has_value != 0) {
        const int order = compare_bytes(other.bytes, other.length, mine.bytes, mine.length);
        if (aggregate.state == StateKind::kMinBytes ? order >= 0 : order <= 0) return;
    }
    mine = other;
    has_value = 1;
}

void combine_pair(const AggregatePlan& aggregate, uint8_t* to, uint8_t* from) {
    switch (aggregate.state) {
        case StateKind::kCountRows:
        case StateKind::kCountValues:
        case StateKind::kCountDistinct:
            *state_at<uint64_t>(to, aggregate) += *state_at<uint64_t>(from, aggregate);
            return;
        case StateKind::kSumInteger: {
            auto& sum = *state_at<IntegerSum>(to, aggregate);
            const auto& other = *state_at<IntegerSum>(from, aggregate);
            sum.set(sum.value() + other.value());
            sum.count += other.count;
            return;
        }
        case StateKind::kSumFloat: {
            auto& sum = *state_at<FloatSum>(to, aggregate);
            const auto& other = *state_at<FloatSum>(from, aggregate);
            sum.add(other.sum);
            sum.compensation += other.compensation;
            sum.count += other.count;
            return;
        }
        case StateKind::kSumDecimal: {
            const uint32_t words = aggregate.value_bytes / 8 + 1;
            add_words(state_at<uint64_t>(to, aggregate), state_at<uint64_t>(from, aggregate), words);
            state_at<uint64_t>(to, aggregate)[words] += state_at<uint64_t>(from, aggregate)[words];
            return;
        }
        case StateKind::kMinWord:
        case StateKind::kMaxWord: {
            auto& word = *state_at<uint64_t>(to, aggregate);
            const uint64_t other = *state_at<uint64_t>(from, aggregate);
            word = aggregate.state == StateKind::kMinWord ? std::min(word, other) : std::max(word, other);
            to[aggregate.flag_offset] |= from[aggregate.flag_offset];
            return;
        }
        case StateKind::kMinFixed:
        case StateKind::kMaxFixed:
            return combine_fixed(aggregate, to, from);
        case StateKind::kMinBytes:
        case StateKind::kMaxBytes:
            return combine_bytes(aggregate, to, from);
        case StateKind::kFirstFixed:
        case StateKind::kFirstBytes:
            if (*state_at<uint64_t>(from, aggregate) >= *state_at<uint64_t>(to, aggregate)) return;
            break;
        case StateKind::kAnyFixed:
        case StateKind::kAnyBytes:
            if (to[aggregate.flag_offset] != 0) return;
            break;
        case StateKind::kNull:
            return;
    }
    std::memcpy(to + aggregate.offset, from + aggregate.offset, state_bytes(aggregate));
    to[aggregate.flag_offset] = from[aggregate.flag_offset];
}

}  // namespace

void combine_states(const GroupPlan& plan, uint8_t* const* to, uint8_t* const* from, uint64_t count) {
    for (const AggregatePlan& aggregate : plan.aggregates) {
        for (uint64_t i = 0; i < count; ++i) combine_pair(aggregate, to[i], from[i]);
    }
}

}  // namespace spillway
