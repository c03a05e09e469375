// SPDX-License-Identifier: Apache-2.0
// Rows of joins out of core that leave the fake GPU, and come back.
#include "fake_out_of_core.hpp"

namespace fake {

// A row that is neither resident nor without a key.
bool OutOfCore::spill(int side, const Row& row) {
    const spillway_cuda_out_of_core_sizes& sizes = plan_.spec.sizes;
    if (near_rows_ > 0) {
        --near_rows_;
        return false;
    }
    const uint64_t bytes = plan_.is_coherent() ? 2 * plan_.spec.key_bytes : plan_.row_bytes(side);
    ++report_.spilled_rows[side];
    report_.spilled_bytes[side] += bytes;
    if (memory_bytes_ + bytes <= sizes.spill_bytes) {
        memory_bytes_ += bytes;
        return false;
    }
    if (disk_.usable()) {
        disk_.append(side, bytes_of(row));
        return true;
    }
    Failure failure{SPILLWAY_CUDA_OUT_OF_MEMORY, "spilled rows", memory_bytes_ + bytes};
    failure.host_memory = true;
    throw failure;
}

std::string OutOfCore::bytes_of(const Row& row) const {
    std::string bytes(reinterpret_cast<const char*>(&row.key), sizeof row.key);
    for (const std::string& column : row.columns) bytes += column;
    return bytes;
}

Row OutOfCore::row_from(const char* bytes, int side) const {
    Row row;
    std::memcpy(&row.key, bytes, sizeof row.key);
    bytes += sizeof row.key;
    for (const uint32_t width : plan_.widths[side]) {
        row.columns.emplace_back(bytes, width);
        bytes += width;
    }
    return row;
}

// Probe rows of spilled partitions, now that the build rows of all of them are there.
void OutOfCore::join_spilled() {
    fail_here("lost-spilled");
    if (disk_.usable()) {
        const std::string build = disk_.read(SPILLWAY_CUDA_BUILD);
        const char* from = build.data();
        for (const size_t row : rows_on_disk_) {
            rows_[row] = row_from(from, SPILLWAY_CUDA_BUILD);
            from += bytes_of(rows_[row]).size();
        }
    }
    for (const Row& row : probe_rows_) join_row(row);
    if (!disk_.usable()) return;
    const std::string probe = disk_.read(SPILLWAY_CUDA_PROBE);
    for (const char* from = probe.data(); from < probe.data() + probe.size();) {
        const Row row = row_from(from, SPILLWAY_CUDA_PROBE);
        from += bytes_of(row).size();
        join_row(row);
    }
    report_.disk_written_bytes = disk_.written_bytes();
    report_.disk_read_bytes = disk_.read_bytes();
}

}  // namespace fake
