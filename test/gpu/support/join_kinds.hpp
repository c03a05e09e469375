// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "support/join_check.hpp"

// Every kind of join of two keyed relations, and the result to expect of each.
namespace spillway::gpu_test {

using cuda::JoinEmit;
using cuda::JoinKind;

struct NamedJoinKind {
    const char* name;
    JoinKind kind;
};

// The build side is the left one.
constexpr NamedJoinKind kNamedJoinKinds[] = {{"inner", {}},
                                             {"build outer", {JoinEmit::kPairs, false, true, false}},
                                             {"probe outer", {JoinEmit::kPairs, false, false, true}},
                                             {"full outer", {JoinEmit::kPairs, false, true, true}},
                                             {"build semi", {JoinEmit::kBuildOnce, false, false, false}},
                                             {"build anti", {JoinEmit::kBuildOnce, true, false, false}},
                                             {"probe semi", {JoinEmit::kProbeOnce, false, false, false}},
                                             {"probe anti", {JoinEmit::kProbeOnce, true, false, false}}};

using RowPairs = std::vector<std::pair<uint64_t, uint64_t>>;

// keys: columns of both sides that are compared.
inline RowPairs pairs_of(const HostTable& build, const HostTable& probe, const JoinKind& kind,
                         const std::vector<size_t>& keys = {0}) {
    if (kind.emit == JoinEmit::kPairs) {
        const JoinType type = kind.keep_unmatched_build
                                  ? (kind.keep_unmatched_probe ? JoinType::kFull : JoinType::kLeft)
                              : kind.keep_unmatched_probe ? JoinType::kRight
                                                          : JoinType::kInner;
        return reference_pairs(build, probe, keys, keys, type);
    }
    const JoinType type = kind.anti ? JoinType::kAnti : JoinType::kSemi;
    if (kind.emit == JoinEmit::kBuildOnce) return reference_pairs(build, probe, keys, keys, type);
    RowPairs pairs = reference_pairs(probe, build, keys, keys, type);
    for (auto& pair : pairs) std::swap(pair.first, pair.second);
    return pairs;
}

// Key, presence, columns of the build side, of the probe side; zeros where a row is missing.
inline HostTable expected_table(const KeyedRelation& build, const KeyedRelation& probe, const JoinKind& kind,
                                const std::vector<size_t>& keys = {0}) {
    const RowPairs pairs = pairs_of(build.host(), probe.host(), kind, keys);
    HostTable table;
    HostColumn key;
    HostColumn presence;
    key.width = build.host().columns[0].width;
    presence.width = 1;
    const std::vector<uint8_t> zeros(16);
    for (const auto& [b, p] : pairs) {
        const HostColumn& from = p != kNoRow ? probe.host().columns[0] : build.host().columns[0];
        const uint64_t row = p != kNoRow ? p : b;
        const bool keyed = from.is_valid(row);
        key.push_bytes(keyed ? from.bytes.data() + row * from.width : zeros.data());
        presence.push(static_cast<uint8_t>((b != kNoRow ? cuda::kBuildPresent : 0) |
                                           (p != kNoRow ? cuda::kProbePresent : 0) | (keyed ? cuda::kKeyPresent : 0)));
    }
    table.columns = {key, presence};
    const auto append = [&](const HostTable& side, bool of_build) {
        for (size_t c = 1; c < side.columns.size(); ++c) {
            HostColumn out;
            out.width = side.columns[c].width;
            for (const auto& pair : pairs) {
                const uint64_t row = of_build ? pair.first : pair.second;
                out.push_bytes(row == kNoRow ? zeros.data() : side.columns[c].bytes.data() + row * out.width);
            }
            table.columns.push_back(std::move(out));
        }
    };
    append(build.host(), true);
    append(probe.host(), false);
    return table;
}

// The columns of expected_table().
inline std::vector<JoinOutputColumn> all_columns_and_presence(const KeyedRelation& build, const KeyedRelation& probe) {
    std::vector<JoinOutputColumn> output = all_columns(build, probe);
    output.insert(output.begin() + 1, {OutputSide::kPresence, 0});
    return output;
}

}  // namespace spillway::gpu_test
