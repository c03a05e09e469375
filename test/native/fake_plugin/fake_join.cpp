// SPDX-License-Identifier: Apache-2.0
// Joins in the most obvious way: a map of the build side's keys.
#include <algorithm>
#include <cmath>
#include <memory_resource>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fake_gpu.hpp"

namespace fake {

namespace {

constexpr int64_t kNone = -1;

std::string widened(std::string value, bool is_signed, uint32_t width) {
    const bool negative = is_signed && (static_cast<uint8_t>(value.back()) & 0x80) != 0;
    value.resize(width, negative ? '\xff' : '\0');
    return value;
}

std::string float_key(const std::string& value, uint32_t width) {
    double number = 0;
    float narrow = 0;
    if (value.size() == 4) {
        std::memcpy(&narrow, value.data(), 4);
        number = static_cast<double>(narrow);
    } else {
        std::memcpy(&number, value.data(), 8);
    }
    if (std::isnan(number)) return std::string(width, 'n');
    number += 0.0;  // -0 becomes +0
    narrow = static_cast<float>(number);
    return width == 4 ? std::string(reinterpret_cast<const char*>(&narrow), 4)
                      : std::string(reinterpret_cast<const char*>(&number), 8);
}

std::string part_of(const std::string& value, const KeyPart& part) {
    if (part.kind == KeyPartKind::kFloat) return float_key(value, part.width);
    if (part.kind == KeyPartKind::kSigned || part.kind == KeyPartKind::kUnsigned)
        return widened(value, part.kind == KeyPartKind::kSigned, part.width);
    return value;
}

// First key and number of keys of the smaller of the ranges by order with and without a sign.
std::pair<uint64_t, uint64_t> range_of(const std::vector<uint64_t>& keys, uint32_t bits) {
    if (keys.empty()) return {0, 0};
    const uint64_t top = 1ULL << (bits - 1);
    uint64_t first = 0;
    uint64_t span = ~0ULL - 1;
    for (const uint64_t flip : {uint64_t{0}, top}) {
        const auto before = [flip](uint64_t a, uint64_t b) { return (a ^ flip) < (b ^ flip); };
        const auto [low, high] = std::minmax_element(keys.begin(), keys.end(), before);
        const uint64_t ends = (*high ^ flip) - (*low ^ flip);
        if (ends >= span) continue;
        first = *low;
        span = ends;
    }
    return {first, span + 1};
}

// What perfect hashing refuses on a GPU (no_partitioning_join.hpp).
void check_algorithm(const Table& build, const TableJoin& join) {
    const auto refuse = [](const char* why) { throw Failure{SPILLWAY_CUDA_UNSUPPORTED, why}; };
    if (static_cast<int>(join.algorithm) >= spillway::cuda::kJoinAlgorithms)
        throw Failure{SPILLWAY_CUDA_INVALID, "no algorithm"};
    if (join.algorithm != JoinAlgorithm::kPerfectHash) return;
    if (join.build_keys.size() != 1 || join.nulls_equal) refuse("perfect hashing: one key");
    std::vector<uint64_t> keys;
    for (uint64_t row = 0; row < build.rows; ++row) {
        const Column& column = build.columns[join.build_keys[0].column];
        if (!column.valid(row)) continue;
        const std::string bytes = part_of(column.at(row), join.build_keys[0]);
        uint64_t key = 0;
        std::memcpy(&key, bytes.data(), bytes.size());
        keys.push_back(bytes.size() <= 4 ? static_cast<uint32_t>(key) : key);
    }
    const bool narrow = join.build_keys[0].width <= 4;
    const auto [first, range] =
        join.key_range > 0 ? std::pair(join.first_key, join.key_range) : range_of(keys, narrow ? 32 : 64);
    if (join.key_range == 0 && range > std::max<uint64_t>(1U << 16U, 16 * build.rows)) {
        refuse("perfect hashing: the keys of the build side are not dense");
    }
    std::unordered_set<uint64_t> seen;
    for (const uint64_t key : keys) {
        uint64_t slot = key - first;
        if (narrow) slot &= 0xffffffffU;
        if (slot >= range) refuse("perfect hashing: a key of the build side is outside of the key range");
        if (!seen.insert(slot).second) refuse("perfect hashing: a key of the build side comes twice");
    }
}

Pairs pairs_of(const Table& build, const Table& probe, const TableJoin& join) {
    check_algorithm(build, join);
    // Few large blocks: what many small ones leave behind stays resident, and a test watches that.
    std::pmr::monotonic_buffer_resource memory;
    std::pmr::unordered_multimap<std::string, int64_t> table(&memory);
    table.reserve(build.rows);
    for (uint64_t row = 0; row < build.rows; ++row) {
        auto [has, key] = key_of(build, join.build_keys, row, join.nulls_equal);
        if (has) table.emplace(std::move(key), static_cast<int64_t>(row));
    }
    std::vector<bool> matched(build.rows);
    Pairs pairs;
    for (uint64_t row = 0; row < probe.rows; ++row) {
        const auto [has, key] = key_of(probe, join.probe_keys, row, join.nulls_equal);
        const auto range = has ? table.equal_range(key) : std::make_pair(table.end(), table.end());
        const bool found = range.first != range.second;
        const auto probe_row = static_cast<int64_t>(row);
        for (auto at = range.first; at != range.second; ++at) {
            matched[static_cast<size_t>(at->second)] = true;
            if (join.kind.pairs()) pairs.emplace_back(at->second, probe_row);
        }
        if (join.kind.pairs() && !found && join.kind.keep_unmatched_probe) pairs.emplace_back(kNone, probe_row);
        if (join.kind.emit == JoinEmit::kProbeOnce && found != join.kind.anti) pairs.emplace_back(kNone, probe_row);
    }
    for (uint64_t row = 0; row < build.rows; ++row) {
        const auto build_row = static_cast<int64_t>(row);
        if (join.kind.pairs() && join.kind.keep_unmatched_build && !matched[row]) pairs.emplace_back(build_row, kNone);
        if (join.kind.emit == JoinEmit::kBuildOnce && matched[row] != join.kind.anti)
            pairs.emplace_back(build_row, kNone);
    }
    return pairs;
}

}  // namespace

std::pair<bool, std::string> key_of(const Table& table, const ListView<KeyPart>& parts, uint64_t row,
                                    bool nulls_equal) {
    std::string key;
    for (const KeyPart& key_part : parts) {
        const Column& column = table.columns[key_part.column];
        if (!column.valid(row)) {
            if (!nulls_equal) return {false, ""};
            key += "N";
            continue;
        }
        const std::string part = part_of(column.at(row), key_part);
        key += "V" + std::to_string(part.size()) + ":" + part;
    }
    return {true, key};
}

uint64_t count(const Table& build, const Table& probe, const TableJoin& join) {
    return pairs_of(build, probe, join).size();
}

namespace {

Table rows_of(spillway_cuda_gpu* gpu, const Table& build, const Table& probe, const TableJoin& join,
              const Pairs& pairs) {
    Table result;
    result.rows = pairs.size();
    for (const TableJoinColumn& wanted : join.output) {
        const Column* const of_build = wanted.side == TableSide::kProbe ? nullptr : &build.columns[wanted.build_column];
        const Column* const of_probe = wanted.side == TableSide::kBuild ? nullptr : &probe.columns[wanted.probe_column];
        const ColumnSpec& is = (of_build == nullptr ? of_probe : of_build)->is;
        ColumnWriter writer;
        for (const auto& [build_row, probe_row] : pairs) {
            const bool from_probe = of_build == nullptr || (of_probe != nullptr && probe_row != kNone);
            const Column& column = from_probe ? *of_probe : *of_build;
            const int64_t row = from_probe ? probe_row : build_row;
            if (row != kNone && column.valid(static_cast<uint64_t>(row))) {
                writer.add(column.at(static_cast<uint64_t>(row)));
            } else {
                writer.add_null(is.kind == ColumnKind::kBytes ? 0 : is.width);
            }
        }
        result.columns.push_back(writer.finish(gpu, is.kind, is.width));
    }
    return result;
}

}  // namespace

Table join(spillway_cuda_gpu* gpu, const Table& build, const Table& probe, const TableJoin& join) {
    return rows_of(gpu, build, probe, join, pairs_of(build, probe, join));
}

JoinPieces::JoinPieces(const Table& build, const Table& probe, const TableJoin& join)
    : build_(build), probe_(probe), join_(join), pairs_(pairs_of(build, probe, join)) {}

bool JoinPieces::next(spillway_cuda_gpu* gpu, uint64_t rows_max, Table& table) {
    constexpr uint64_t kRowsMin = 64;  // as plugin.h says
    const uint64_t count = std::min<uint64_t>(std::max(rows_max, kRowsMin), pairs_.size() - done_);
    if (count == 0) return false;
    const auto first = pairs_.begin() + static_cast<int64_t>(done_);
    table = rows_of(gpu, build_, probe_, join_, Pairs(first, first + static_cast<int64_t>(count)));
    done_ += count;
    return true;
}

}  // namespace fake
