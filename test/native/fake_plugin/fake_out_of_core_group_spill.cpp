// SPDX-License-Identifier: Apache-2.0
// Rows of group-bys out of core that leave the fake GPU, and come back.
#include "fake_out_of_core_group.hpp"

namespace fake {

namespace {

constexpr int kSide = 0;

}  // namespace

bool OutOfCoreGroup::spill(const Key& key, const spillway_cuda_chunk& chunk, uint64_t row) {
    const uint64_t bytes = plan_.row_bytes();
    ++report_.spilled_rows;
    report_.spilled_bytes += bytes;
    if (memory_bytes_ + bytes <= plan_.spec.sizes.spill_bytes) {
        memory_bytes_ += bytes;
        return false;
    }
    if (!disk_.usable()) {
        Failure failure{SPILLWAY_CUDA_OUT_OF_MEMORY, "spilled rows", memory_bytes_ + bytes};
        failure.host_memory = true;
        throw failure;
    }
    std::string text(1, key.first ? '\1' : '\0');
    text.append(reinterpret_cast<const char*>(&key.second), sizeof key.second);
    for (size_t c = 0; c < plan_.widths.size(); ++c) {
        text.append(static_cast<const char*>(chunk.columns[c]) + row * plan_.widths[c], plan_.widths[c]);
    }
    disk_.append(kSide, text);
    return true;
}

// Rows that were on disk, each as a chunk of its own.
void OutOfCoreGroup::add_spilled() {
    fail_here("lost-spilled");
    if (!disk_.usable()) return;
    const std::string all = disk_.read(kSide);
    for (const char* from = all.data(); from < all.data() + all.size();) {
        Key key{*from++ != 0, 0};
        std::memcpy(&key.second, from, sizeof key.second);
        from += sizeof key.second;
        std::vector<const void*> columns;
        for (const uint32_t width : plan_.widths) {
            columns.push_back(from);
            from += width;
        }
        add_values(groups_.at(key), {1, nullptr, nullptr, columns.data()}, 0);
    }
    report_.disk_written_bytes = disk_.written_bytes();
    report_.disk_read_bytes = disk_.read_bytes();
}

void OutOfCoreGroup::add_values(Group& group, const spillway_cuda_chunk& chunk, uint64_t row) const {
    for (size_t i = 0; i < group.values.size(); ++i) add_value(group.values[i], plan_.aggregates[i], chunk, row);
}

}  // namespace fake
