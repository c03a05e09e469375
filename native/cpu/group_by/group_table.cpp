// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/group_table.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace spillway {

void GroupIndex::reset(uint64_t capacity) {
    if (capacity != capacity_) {
        release();
        slots_ = TableBlock(memory_, capacity * sizeof(uint64_t));
        capacity_ = capacity;
        slot_mask_ = capacity - 1;
        max_count_ = capacity / 4 * 3;
    }
    clear();
}

void GroupIndex::clear() {
    if (capacity_ > 0) std::memset(slots_.data(), 0, capacity_ * sizeof(uint64_t));
    count_ = 0;
}

uint64_t GroupIndex::capacity_for(uint64_t records) {
    return std::bit_ceil(std::max<uint64_t>(16, records / 3 * 4 + 4));
}

namespace {

constexpr uint64_t kChunkBytesMax = 2 << 20;  // one huge page
constexpr uint64_t kFirstSlotsMax = 1024;

bool key_areas_equal(const uint8_t* a, const uint8_t* b, uint32_t begin, uint32_t end) {
    for (uint32_t at = begin; at < end; at += 8) {  // padded to whole words
        if (load_word(a + at) != load_word(b + at)) return false;
    }
    return true;
}

bool bytes_equal(const uint8_t* a, uint64_t a_length, const uint8_t* b, uint64_t b_length) {
    return a_length == b_length && (a_length == 0 || std::memcmp(a, b, a_length) == 0);
}

KeyBytes key_bytes(const uint8_t* record, uint32_t offset) {
    KeyBytes value;
    std::memcpy(&value, record + offset, sizeof value);
    return value;
}

}  // namespace

bool wide_key_equals_record(const GroupPlan& plan, const RowBlock& block, int32_t i, const RowBlock::Var* vars,
                            const uint8_t* record) {
    if (!key_areas_equal(block.rows[i], record, plan.layout.key_begin, plan.layout.key_end)) return false;
    for (size_t k = 0; k < plan.compared_vars; ++k) {
        const KeyBytes key = key_bytes(record, plan.var_copies[k].to);
        if (!bytes_equal(block.bytes(vars[k], i), block.length(vars[k], i), key.bytes, key.length)) return false;
    }
    return true;
}

bool wide_records_equal(const GroupPlan& plan, const uint8_t* a, const uint8_t* b) {
    if (!key_areas_equal(a, b, plan.layout.key_begin, plan.layout.key_end)) return false;
    for (size_t k = 0; k < plan.compared_vars; ++k) {
        const KeyBytes left = key_bytes(a, plan.var_copies[k].to);
        const KeyBytes right = key_bytes(b, plan.var_copies[k].to);
        if (!bytes_equal(left.bytes, left.length, right.bytes, right.length)) return false;
    }
    return true;
}

GroupTable::GroupTable(const GroupPlan& plan, TableMemory& memory, uint64_t charge_per_record)
    : plan_(plan),
      memory_(memory),
      charge_per_record_(charge_per_record),
      index_(memory, plan.hash_mask),
      arena_(memory) {
    // A chunk is at most 1/32 of the share, so that the unused end of the last one stays small.
    const uint64_t chunk_bytes = std::clamp<uint64_t>(memory.limit() / 32, 4096, kChunkBytesMax);
    records_per_chunk_ = std::max<uint64_t>(1, chunk_bytes / plan.record_bytes);
    first_capacity_ = std::bit_floor(std::clamp<uint64_t>(memory.limit() / 256, 16, kFirstSlotsMax));
}

void GroupTable::find_or_insert(RowBlock& block) {
    if (index_.capacity() == 0) index_.reset(first_capacity_);
    plan_.wide_keys() ? find_or_insert_block<true>(block) : find_or_insert_block<false>(block);
}

uint8_t* GroupTable::find_or_insert_row(const RowBlock& block, int32_t i) {
    if (index_.capacity() == 0) index_.reset(first_capacity_);
    std::vector<RowBlock::Var> vars;
    for (size_t k = 0; k < plan_.compared_vars; ++k) vars.push_back(block.var(plan_.var_copies[k].from));
    const uint64_t word = load_word(block.rows[i]);
    uint8_t* record = index_.find(word, [&](const uint8_t* known) {
        return load_word(known) == word &&
               (!plan_.wide_keys() || wide_key_equals_record(plan_, block, i, vars.data(), known));
    });
    if (record == nullptr) {
        record = make_record(block, i);
        index_record(word, record);
    }
    return record;
}

template <bool kWide>
void GroupTable::find_or_insert_block(RowBlock& block) {
    if (index_.wants_prefetch()) {
        for (int32_t i = 0; i < block.count; ++i) index_.prefetch(load_word(block.rows[i]));
        for (int32_t i = 0; i < block.count; ++i) {
            __builtin_prefetch(index_.candidate(load_word(block.rows[i])), 1);
        }
    }
    std::vector<RowBlock::Var> vars;
    if constexpr (kWide) {
        for (size_t k = 0; k < plan_.compared_vars; ++k) vars.push_back(block.var(plan_.var_copies[k].from));
    }
    uint8_t* previous = nullptr;
    uint64_t previous_word = 0;
    bool one_group = true;
    for (int32_t i = 0; i < block.count; ++i) {
        const uint64_t word = load_word(block.rows[i]);
        const auto equal = [&](const uint8_t* record) {
            if (load_word(record) != word) return false;
            if constexpr (kWide) return wide_key_equals_record(plan_, block, i, vars.data(), record);
            return true;
        };
        // Sorted input and hot keys: the record of the row before.
        if (previous == nullptr || word != previous_word || (kWide && !equal(previous))) {
            uint8_t* record = index_.find(word, equal);
            if (record == nullptr) {
                record = make_record(block, i);
                index_record(word, record);
            }
            one_group = one_group && previous == nullptr;
            previous = record;
            previous_word = word;
        }
        block.records[i] = previous;
    }
    block.one_group = one_group;
}

uint8_t* GroupTable::make_record(const RowBlock& block, int32_t i) {
    uint8_t* record = next_record();
    std::memcpy(record, block.rows[i], plan_.layout.key_end);
    for (size_t k = 0; k < plan_.compared_vars; ++k) copy_var(block, i, plan_.var_copies[k], record);
    if (!plan_.keeps_fields()) return record;
    if (block.columns == nullptr) {
        complete(block, i, record);
    } else {
        new_records_.push_back({i, record});
    }
    return record;
}

void GroupTable::complete(const RowBlock& block, int32_t i, uint8_t* record) {
    const uint8_t* row = block.rows[i];
    for (size_t k = 1; k < plan_.copies.size(); ++k) {  // the first is the key area
        const GroupPlan::Copy& copy = plan_.copies[k];
        std::memcpy(record + copy.to, row + copy.from, copy.bytes);
    }
    for (const GroupPlan::FloatKey& key : plan_.float_keys) {
        const NumberKind kind = key.width == 8   ? NumberKind::kF64
                                : key.width == 4 ? NumberKind::kF32
                                                 : NumberKind::kF16;
        uint8_t* at = record + key.offset;
        store_order_word(kind, order_word_of_number(kind, load_number(kind, at)), at, key.width);
    }
    for (size_t k = plan_.compared_vars; k < plan_.var_copies.size(); ++k) {
        copy_var(block, i, plan_.var_copies[k], record);
    }
    if (plan_.record_layout.null_bytes > 0) {
        std::memset(record + plan_.record_layout.null_offset, 0, plan_.record_layout.null_bytes);
        for (const GroupPlan::NullBit& bit : plan_.null_bits) {
            if ((row[bit.from_byte] & bit.from_mask) != 0) record[bit.to_byte] |= bit.to_mask;
        }
    }
}

void GroupTable::copy_var(const RowBlock& block, int32_t i, const GroupPlan::Copy& copy, uint8_t* record) {
    const RowBlock::Var var = block.var(copy.from);
    const uint64_t length = block.length(var, i);
    KeyBytes key{nullptr, length};
    if (length > 0) {
        uint8_t* bytes = arena_.allocate(length);
        std::memcpy(bytes, block.bytes(var, i), length);
        key.bytes = bytes;
    }
    std::memcpy(record + copy.to, &key, sizeof key);
}

uint8_t* GroupTable::next_record() {
    if (next_ == end_) add_chunk();
    uint8_t* record = next_;
    next_ += plan_.record_bytes;
    ++groups_;
    if (!plan_.empty_states.empty()) {
        std::memcpy(record + plan_.states_offset, plan_.empty_states.data(), plan_.empty_states.size());
    }
    return record;
}

void GroupTable::add_chunk() {
    if (chunks_used_ == chunks_.size()) {
        memory_.charge(charge_per_record_ * records_per_chunk_);
        try {
            chunks_.emplace_back(memory_, records_per_chunk_ * plan_.record_bytes);
        } catch (...) {
            memory_.give_back(charge_per_record_ * records_per_chunk_);
            throw;
        }
        const auto end = reinterpret_cast<uintptr_t>(chunks_.back().data()) + chunks_.back().bytes();
        SPILLWAY_CHECK((end >> 48) == 0);  // GroupIndex
    }
    next_ = chunks_[chunks_used_++].data();
    end_ = next_ + records_per_chunk_ * plan_.record_bytes;
}

void GroupTable::index_record(uint64_t word, uint8_t* record) {
    // The record is in a chunk already: rebuilding puts it into the index as well.
    if (index_.full()) return rebuild_index(grown_capacity());
    index_.insert(word, record);
}

uint64_t GroupTable::grown_capacity() const {
    // In large steps while that costs a small part of the share.
    const bool small = index_.capacity() * 4 * sizeof(uint64_t) <= memory_.limit() / 16;
    return index_.capacity() * (small ? 4 : 2);
}

uint64_t GroupTable::bytes_of_next(uint64_t key_bytes) const {
    uint64_t bytes = next_ == end_ ? (plan_.record_bytes + charge_per_record_) * records_per_chunk_ : 0;
    if (index_.capacity() == 0) {
        bytes += first_capacity_ * sizeof(uint64_t);
    } else if (index_.full()) {
        bytes += (grown_capacity() - index_.capacity()) * sizeof(uint64_t);
    }
    return key_bytes == 0 ? bytes : bytes + arena_.bytes_for(key_bytes);
}

void GroupTable::rebuild_index(uint64_t capacity) {
    index_.reset(capacity);
    for_each_chunk([&](uint8_t* record, uint64_t count) {
        for (uint64_t i = 0; i < count; ++i, record += plan_.record_bytes) index_.insert(load_word(record), record);
    });
}

void GroupTable::clear() {
    // A table that grew for one partition should not be swept for each small one that follows.
    constexpr uint64_t kSparse = 16;
    if (index_.capacity() > first_capacity_ && index_.count() < index_.capacity() / kSparse) {
        index_.release();
    } else {
        index_.clear();
    }
    arena_.clear();
    new_records_.clear();
    groups_ = 0;
    chunks_used_ = 0;
    next_ = end_ = nullptr;
}

void GroupTable::release() {
    memory_.give_back(charge_per_record_ * records_per_chunk_ * chunks_.size());
    chunks_.clear();
    chunks_used_ = 0;
    index_.release();
    arena_.clear();
    new_records_.clear();
    groups_ = 0;
    next_ = end_ = nullptr;
}

void GroupTable::release_index() {
    index_.release();
}

}  // namespace spillway
