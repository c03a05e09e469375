// SPDX-License-Identifier: Apache-2.0
#include "materialize/match_output.cuh"
#include "no_partitioning_join/npj_checks.hpp"

namespace spillway::cuda { inline namespace no_partitioning_joins {

void refuse_npj(const std::string& text) {
    throw Error(ErrorCode::kInvalid, text);
}

namespace {

void check_column(const DeviceColumn& column, uint64_t rows) {
    const uint32_t width = column.width;
    if (width == 0 || width > 16 || (width & (width - 1)) != 0) refuse_npj("columns have 1, 2, 4, 8 or 16 bytes");
    if (reinterpret_cast<uintptr_t>(column.data) % 16 != 0) {
        refuse_npj("columns of a relation begin at multiples of 16 bytes");
    }
    if (column.data != nullptr || rows == 0) return;
    if (width != 4 && width != 8) refuse_npj("row numbers have 4 or 8 bytes");
    if (width == 4 && rows > 1ULL << 32) refuse_npj("row numbers of 4 bytes for more than 2^32 rows");
}

void check_relation(const DeviceRelation& relation) {
    if (relation.key.width != 4 && relation.key.width != 8) refuse_npj("keys have 4 or 8 bytes");
    if (relation.rows > kNpjRowsMax) refuse_npj("a relation of more rows than any memory holds");
    if (relation.rows > 0 && relation.key.data == nullptr) refuse_npj("a relation without a key column");
    check_column(relation.key, relation.rows);
    for (const DeviceColumn& column : relation.columns) check_column(column, relation.rows);
}

}  // namespace

void check_npj(const DeviceRelation& build, const DeviceRelation& probe, const NpjOptions& options) {
    check_relation(build);
    check_relation(probe);
    if (build.key.width != probe.key.width) refuse_npj("keys of both sides of a join have equal widths");
    if (options.scheme != HashingScheme::kPerfect) return;
    const uint64_t most = build.key.width == 4 ? 1ULL << 32 : kNpjRowsMax;
    if (options.key_range > most) refuse_npj("a key range of more keys than there are, or than any memory holds");
}

void check_output(const std::vector<JoinOutputColumn>& output) {
    if (output.size() > static_cast<size_t>(kOutputColumnsMax)) refuse_npj("too many columns for one join");
}

}}  // namespace spillway::cuda::no_partitioning_joins
