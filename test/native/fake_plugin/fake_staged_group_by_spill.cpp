// SPDX-License-Identifier: Apache-2.0
// Rows of group-bys out of core that leave the fake GPU, and come back.
#include "fake_staged_group_by.hpp"

namespace fake {

namespace {

constexpr int kSide = 0;

}  // namespace

bool StagedGroupBy::spill(const Key& key, const Chunk& chunk, uint64_t row) {
    if (!spills_to_disk(kSide, row_bytes_)) return false;
    std::string text(1, key.first ? '\1' : '\0');
    text.append(reinterpret_cast<const char*>(&key.second), sizeof key.second);
    for (size_t c = 0; c < spec_.widths.size(); ++c) {
        text.append(static_cast<const char*>(chunk.columns[c]) + row * spec_.widths[c], spec_.widths[c]);
    }
    disk_.append(kSide, text);
    return true;
}

// Rows that were on disk, each as a chunk of its own.
void StagedGroupBy::add_spilled() {
    fail_here("lost-spilled");
    if (!disk_.usable()) return;
    const std::string all = disk_.read(kSide);
    for (const char* from = all.data(); from < all.data() + all.size();) {
        Key key{*from++ != 0, 0};
        std::memcpy(&key.second, from, sizeof key.second);
        from += sizeof key.second;
        Chunk chunk;
        chunk.rows = 1;
        for (const uint32_t width : spec_.widths) {
            chunk.columns.push_back(from);
            from += width;
        }
        add_values(groups_.at(key), chunk, 0);
    }
}

void StagedGroupBy::add_values(Group& group, const Chunk& chunk, uint64_t row) const {
    for (size_t i = 0; i < group.values.size(); ++i) add_value(group.values[i], spec_.aggregates[i], chunk, row);
}

}  // namespace fake
