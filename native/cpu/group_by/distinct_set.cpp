// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/distinct_set.hpp"

#include <atomic>

namespace spillway {

namespace {

constexpr uint64_t kFirstSlots = 64;

}  // namespace

DistinctSet::DistinctSet(const AggregatePlan& aggregate, TableMemory& memory, Counting counting)
    : aggregate_(aggregate),
      memory_(memory),
      counting_(counting),
      inline_values_(aggregate.number != NumberKind::kNone),
      arena_(memory) {}

uint64_t DistinctSet::pair_hash(uint64_t value_hash, const uint8_t* record) {
    return mix64(value_hash ^ (reinterpret_cast<uintptr_t>(record) * 0x9e3779b97f4a7c15ULL));
}

uint64_t DistinctSet::slot_hash(const Slot& slot) const {
    if (!inline_values_) return slot.first;
    return pair_hash(mix64(slot.second), reinterpret_cast<const uint8_t*>(slot.first));
}

void DistinctSet::add(const RowBlock& block, FieldGather& gather, const HashRange& range) {
    for_each_value(
        aggregate_, block, gather,
        [&](uint8_t* record, uint64_t value, uint64_t hash) {
            if (range.contains(hash)) add_number(record, value, hash);
        },
        [&](uint8_t* record, const uint8_t* bytes, uint64_t length, uint64_t hash) {
            if (range.contains(hash)) add_bytes(record, bytes, length, hash);
        });
}

void DistinctSet::count_pair(uint8_t* record, uint64_t difference) {
    if (counting_ == Counting::kNone) return;
    if (counting_ == Counting::kAlone) {
        *state_at<uint64_t>(record, aggregate_) += difference;
        return;
    }
    if (record != last_record_) flush_count();
    last_record_ = record;
    last_count_ += difference;
}

void DistinctSet::flush_count() {
    if (last_record_ == nullptr) return;
    std::atomic_ref<uint64_t>(*state_at<uint64_t>(last_record_, aggregate_))
        .fetch_add(last_count_, std::memory_order_relaxed);
    last_record_ = nullptr;
    last_count_ = 0;
}

bool DistinctSet::add_number(uint8_t* record, uint64_t value, uint64_t value_hash) {
    if (count_ >= capacity_ / 4 * 3) grow();
    const Slot wanted{reinterpret_cast<uintptr_t>(record), value};
    uint64_t at = pair_hash(value_hash, record) & (capacity_ - 1);
    for (;; at = (at + 1) & (capacity_ - 1)) {
        Slot& slot = slots()[at];
        if (slot.first == wanted.first && slot.second == wanted.second) return false;
        if (!is_empty(slot)) continue;
        slot = wanted;
        break;
    }
    ++count_;
    count_pair(record, 1);
    return true;
}

bool DistinctSet::add_bytes(uint8_t* record, const uint8_t* bytes, uint64_t length, uint64_t value_hash) {
    if (count_ >= capacity_ / 4 * 3) grow();
    const uint64_t hash = pair_hash(value_hash, record);
    uint64_t at = hash & (capacity_ - 1);
    for (;; at = (at + 1) & (capacity_ - 1)) {
        Slot& slot = slots()[at];
        if (is_empty(slot)) break;
        if (slot.first != hash) continue;
        const auto* stored = reinterpret_cast<const Stored*>(slot.second);
        if (stored->record != record || stored->length != length) continue;
        if (length == 0 || std::memcmp(stored + 1, bytes, length) == 0) return false;
    }
    auto* stored = reinterpret_cast<Stored*>(arena_.allocate(sizeof(Stored) + length));
    *stored = {record, length};
    if (length > 0) std::memcpy(stored + 1, bytes, length);
    slots()[at] = {hash, reinterpret_cast<uintptr_t>(stored)};
    ++count_;
    count_pair(record, 1);
    return true;
}

void DistinctSet::grow() {
    const uint64_t old_capacity = capacity_;
    const uint64_t new_capacity = std::max(kFirstSlots, capacity_ * 2);
    TableBlock old = TableBlock(memory_, new_capacity * sizeof(Slot));
    std::swap(old, slots_);
    capacity_ = new_capacity;
    std::memset(slots_.data(), 0, capacity_ * sizeof(Slot));
    const auto* from = reinterpret_cast<const Slot*>(old.data());
    for (uint64_t i = 0; i < old_capacity; ++i) {
        if (is_empty(from[i])) continue;
        uint64_t at = slot_hash(from[i]) & (capacity_ - 1);
        while (!is_empty(slots()[at])) at = (at + 1) & (capacity_ - 1);
        slots()[at] = from[i];
    }
}

void DistinctSet::undo() {
    for (uint64_t i = 0; i < capacity_; ++i) {
        const Slot& slot = slots()[i];
        if (is_empty(slot)) continue;
        uint8_t* record = inline_values_ ? reinterpret_cast<uint8_t*>(slot.first)
                                         : reinterpret_cast<const Stored*>(slot.second)->record;
        count_pair(record, ~uint64_t{0});
    }
}

void DistinctSet::clear() {
    flush_count();
    slots_.release();
    arena_.clear();
    capacity_ = count_ = 0;
}

}  // namespace spillway
