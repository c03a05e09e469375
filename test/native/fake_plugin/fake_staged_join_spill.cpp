// SPDX-License-Identifier: Apache-2.0
// Rows of joins out of core that leave the fake GPU, and come back.
#include "fake_staged_join.hpp"

namespace fake {

// A row that is neither resident nor without a key.
bool StagedJoin::spill(int side, const Row& row) {
    if (near_rows_ > 0) {
        --near_rows_;
        return false;
    }
    if (!spills_to_disk(side, row_bytes_[side])) return false;
    disk_.append(side, bytes_of(row));
    return true;
}

std::string StagedJoin::bytes_of(const Row& row) const {
    std::string bytes(reinterpret_cast<const char*>(&row.key), sizeof row.key);
    for (const std::string& column : row.columns) bytes += column;
    return bytes;
}

Row StagedJoin::row_from(const char* bytes, int side) const {
    Row row;
    std::memcpy(&row.key, bytes, sizeof row.key);
    bytes += sizeof row.key;
    for (const uint32_t width : spec_.widths[side]) {
        row.columns.emplace_back(bytes, width);
        bytes += width;
    }
    return row;
}

// Probe rows of spilled partitions, now that the build rows of all of them are there.
void StagedJoin::join_spilled() {
    fail_here("lost-spilled");
    if (disk_.usable()) {
        const std::string build = disk_.read(kBuildSide);
        const char* from = build.data();
        for (const size_t row : rows_on_disk_) {
            rows_[row] = row_from(from, kBuildSide);
            from += bytes_of(rows_[row]).size();
        }
    }
    for (const Row& row : probe_rows_) join_row(row);
    if (!disk_.usable()) return;
    const std::string probe = disk_.read(kProbeSide);
    for (const char* from = probe.data(); from < probe.data() + probe.size();) {
        const Row row = row_from(from, kProbeSide);
        from += bytes_of(row).size();
        join_row(row);
    }
}

}  // namespace fake
