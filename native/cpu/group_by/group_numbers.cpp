// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/group_numbers.hpp"

namespace spillway {

namespace {

constexpr uint32_t kFirstRoom = 128;
// At most a quarter full, so that most keys are found at the first slot, and half where the cache is more precious.
constexpr uint32_t kSparseRoom = 2048;

}  // namespace

bool GroupNumbers::find(const RowBlock& block, uint32_t* numbers) {
    if (room_ == 0 && !grow()) return false;
    return table_.plan().wide_keys() ? find_rows<true>(block, numbers) : find_rows<false>(block, numbers);
}

template <bool kWide>
bool GroupNumbers::find_rows(const RowBlock& block, uint32_t* numbers) {
    const GroupPlan& plan = table_.plan();
    std::vector<RowBlock::Var> vars;
    if constexpr (kWide) {
        for (size_t k = 0; k < plan.compared_vars; ++k) vars.push_back(block.var(plan.var_copies[k].from));
    }
    const Slot* slots = this->slots();
    for (int32_t i = 0; i < block.count; ++i) {
        const uint64_t word = load_word(block.rows[i]);
        uint64_t at = slot_of(word);
        for (;; at = (at + 1) & slot_mask_) {
            const Slot& slot = slots[at];
            if (slot.number == 0) {
                if (!add(block, i, at)) return false;
                slots = this->slots();
                numbers[i] = count_ - 1;
                break;
            }
            if (slot.word != word) continue;
            if (kWide && !wide_key_equals_record(plan, block, i, vars.data(), records()[slot.number - 1])) continue;
            numbers[i] = static_cast<uint32_t>(slot.number - 1);
            break;
        }
    }
    return true;
}

bool GroupNumbers::add(const RowBlock& block, int32_t i, uint64_t slot) {
    if (count_ == groups_max_) return false;
    // The memory of the numbers is the first to go where records need it.
    const GroupPlan& plan = table_.plan();
    uint64_t key_bytes = 0;
    for (size_t k = 0; k < plan.compared_vars; ++k) {
        key_bytes += block.length(block.var(plan.var_copies[k].from), i) + 8;
    }
    if (table_.memory().left() < table_.bytes_of_next(key_bytes)) return false;
    uint8_t* record = table_.find_or_insert_row(block, i);
    if (count_ == room_) {
        if (!grow()) return false;
        for (slot = slot_of(load_word(record)); slots()[slot].number != 0;) slot = (slot + 1) & slot_mask_;
    }
    reinterpret_cast<uint8_t**>(records_.data())[count_++] = record;
    slots()[slot] = {load_word(record), count_};
    return true;
}

bool GroupNumbers::grow() {
    const uint32_t room = room_ == 0 ? kFirstRoom : room_ * 2;
    const uint64_t capacity = uint64_t{room} * (room <= kSparseRoom ? 4 : 2);
    const uint64_t bytes = capacity * sizeof(Slot) + room * sizeof(uint8_t*);
    TableMemory& memory = table_.memory();
    if (bytes > memory.left_for_arrays()) return false;
    try {
        TableBlock new_records(memory, room * sizeof(uint8_t*));
        TableBlock new_slots(memory, capacity * sizeof(Slot));
        if (count_ > 0) std::memcpy(new_records.data(), records_.data(), count_ * sizeof(uint8_t*));
        records_ = std::move(new_records);
        slots_ = std::move(new_slots);
    } catch (const TableFull&) {
        return false;
    }
    std::memset(slots_.data(), 0, capacity * sizeof(Slot));
    slot_mask_ = capacity - 1;
    room_ = room;
    for (uint32_t number = 0; number < count_; ++number) {
        const uint64_t word = load_word(records()[number]);
        uint64_t slot = slot_of(word);
        while (this->slots()[slot].number != 0) slot = (slot + 1) & slot_mask_;
        this->slots()[slot] = {word, number + 1};
    }
    return true;
}

void GroupNumbers::release() {
    slots_.release();
    records_.release();
    room_ = count_ = 0;
}

}  // namespace spillway
