// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/memory_pool.hpp"

// What a join is asked for and what it gives, whatever its algorithm.
namespace spillway::cuda {

enum class JoinEmit : uint8_t {
    kPairs,      // a row per match (inner and outer joins)
    kBuildOnce,  // build rows that have a match (semi) ...
    kProbeOnce   // probe rows that have a match (semi)
};

// Which rows a join gives. Rows without a key match nothing; outer and anti joins keep them.
struct JoinKind {
    JoinEmit emit = JoinEmit::kPairs;
    bool anti = false;                  // kBuildOnce, kProbeOnce: rows *without* a match
    bool keep_unmatched_build = false;  // kPairs
    bool keep_unmatched_probe = false;

    bool inner() const { return emit == JoinEmit::kPairs && !keep_unmatched_build && !keep_unmatched_probe; }
};

// kKey: the key of the match, or of the one row that is there; 0 where it has none. kPresence: a byte of PresenceBits.
enum class OutputSide : uint8_t { kBuild, kProbe, kKey, kPresence };

enum PresenceBits : uint8_t { kBuildPresent = 1, kProbePresent = 2, kKeyPresent = 4 };

struct JoinOutputColumn {
    OutputSide side = OutputSide::kProbe;
    uint32_t column = 0;  // of that side's DeviceRelation::columns; kKey and kPresence have none
};

struct JoinResult {
    uint64_t rows = 0;
    // In the order asked for, `rows` values each; 0 where the row of that side is missing.
    std::vector<Allocation> columns;
};

// How the rows of a result get their places.
enum class OutputPlan : uint8_t {
    kOnePass,    // into as many rows as expected; a second run when there are more
    kCountFirst  // counts the matches, then writes them
};

}  // namespace spillway::cuda
