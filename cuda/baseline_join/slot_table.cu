// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/slot_table.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// More than any memory holds, and little enough for products with widths to stay within 64 bits.
constexpr uint64_t kTableRowsMax = 1ULL << 48;

uint64_t linear_slots(const BaselineSpec& spec) {
    if (spec.load_percent == 0 || spec.load_percent > kTableLoadMax) {
        throw Error(ErrorCode::kInvalid, "of the slots of a table 1 to 90 % are taken");
    }
    if (spec.build_rows > kTableRowsMax) throw Error(ErrorCode::kInvalid, "more build rows than any memory holds");
    // One slot more, and more than that by the least load, is empty: walks end.
    return std::max(kSlotsMin, spec.build_rows * 100 / spec.load_percent + 1);
}

uint64_t perfect_slots(const BaselineSpec& spec) {
    if (spec.key_range > kTableRowsMax) throw Error(ErrorCode::kInvalid, "more keys than any memory holds");
    return std::max<uint64_t>(1, spec.key_range);
}

// All device memory that the rest of the join does not need, then host memory.
StripeShares most_in_device(Device& device, const BaselineSpec& spec, uint64_t stripe_bytes, uint64_t stripes) {
    const uint64_t row_bytes = std::max(RowLayout::words_for(spec.join.key_bytes, spec.join.widths[0]),
                                        RowLayout::words_for(spec.join.key_bytes, spec.join.widths[1])) *
                               sizeof(uint32_t);
    const uint64_t kept = kTableReserveBytes + kTableReserveChunks * spec.join.sizes.chunk_rows * row_bytes;
    const uint64_t free_bytes = device.memory().free_bytes();
    const uint64_t fit = free_bytes > kept ? (free_bytes - kept) / stripe_bytes : 0;
    StripeShares shares;
    shares.device = static_cast<uint32_t>(std::min(fit, stripes));
    shares.host = static_cast<uint32_t>(stripes - shares.device);
    return shares;
}

}  // namespace

SlotTable::SlotTable(Device& device, const BaselineSpec& spec, Hashing hashing, Place place) {
    const RowLayout row = RowLayout::make(spec.join.key_bytes, spec.join.widths[0]);
    view_.row_words = row.row_words;
    view_.perfect = hashing == Hashing::kPerfect ? 1 : 0;
    view_.slot_words = view_.perfect != 0 ? row.row_words - row.key_words : row.row_words;
    view_.slot_count = view_.perfect != 0 ? perfect_slots(spec) : linear_slots(spec);
    view_.first_key = spec.first_key;
    const uint64_t words = (view_.slot_count + 31) / 32;
    taken_ = device.memory().allocate(words * sizeof(uint32_t), "bits of taken slots");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(taken_.as(), 0, words * sizeof(uint32_t), device.stream()));
    view_.taken = taken_.as<uint32_t>();
    if (bytes() == 0) return;  // an array of keys without columns: the bits say it all
    if (place == Place::kSpread) {
        take_spread(device, spec);
    } else {
        local_ = device.memory().allocate(bytes(), "a hash table");
        view_.slots = local_.as<uint32_t>();
    }
}

void SlotTable::take_spread(Device& device, const BaselineSpec& spec) {
    const uint64_t stripe_bytes = spec.stripe_bytes == 0 ? kStripeBytes : spec.stripe_bytes;
    memory_ = std::make_unique<InterleavedMemory>(device, stripe_bytes);
    StripeShares shares = spec.shares;
    if (shares.device == 0 && shares.peer == 0 && shares.host == 0) {
        shares = most_in_device(device, spec, stripe_bytes, (bytes() + stripe_bytes - 1) / stripe_bytes);
    }
    range_ = InterleavedRange(*memory_, shares, bytes());
    view_.slots = range_.as<uint32_t>();
}

}}  // namespace spillway::cuda::baseline_join
