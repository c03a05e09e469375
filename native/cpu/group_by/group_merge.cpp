// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/group_merge.hpp"

#include "cpu/group_by/aggregate.hpp"

namespace spillway {

namespace {

constexpr uint32_t kBlockRecords = 512;

}  // namespace

void GroupMerge::run(const std::vector<const GroupTable*>& tables, uint32_t part, uint32_t parts) {
    uint64_t records = 0;
    const auto for_each = [&](auto&& body) {
        for (const GroupTable* table : tables) {
            table->for_each_chunk([&](uint8_t* record, uint64_t count) {
                for (uint64_t i = 0; i < count; ++i, record += plan_.record_bytes) {
                    if (part_of(load_word(record), parts) == part) body(record);
                }
            });
        }
    };
    for_each([&](uint8_t*) { ++records; });
    index_.reset(GroupIndex::capacity_for(records));
    records_ = TableBlock(memory_, std::max<uint64_t>(records, 1) * sizeof(uint8_t*));
    uint8_t* block[kBlockRecords];
    uint32_t filled = 0;
    for_each([&](uint8_t* record) {
        block[filled++] = record;
        if (filled < kBlockRecords) return;
        merge_block(block, filled);
        filled = 0;
    });
    merge_block(block, filled);
}

void GroupMerge::merge_block(uint8_t* const* block, uint32_t count) {
    if (index_.wants_prefetch()) {
        for (uint32_t i = 0; i < count; ++i) index_.prefetch(load_word(block[i]));
        for (uint32_t i = 0; i < count; ++i) __builtin_prefetch(index_.candidate(load_word(block[i])), 1);
    }
    uint8_t* to[kBlockRecords];
    uint8_t* from[kBlockRecords];
    uint64_t pairs = 0;
    auto* groups = reinterpret_cast<uint8_t**>(records_.data());
    const bool wide = plan_.wide_keys();
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t word = load_word(block[i]);
        uint8_t* known = index_.find(word, [&](const uint8_t* record) {
            return load_word(record) == word && (!wide || wide_records_equal(plan_, record, block[i]));
        });
        if (known == nullptr) {
            index_.insert(word, block[i]);
            groups[groups_++] = block[i];
        } else {
            to[pairs] = known;
            from[pairs++] = block[i];
        }
    }
    combine_states(plan_, to, from, pairs);
}

}  // namespace spillway
