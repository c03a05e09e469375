// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/gpu_stream.hpp"
#include "executor/streaming/join_spec.hpp"
#include "model/column_type.hpp"

namespace spillway {

// How a result column is made of the GPU's: copied, from two where it has 16 bytes and no output has; a sum in 64 bits
// or 128; a sum by a count.
enum class GroupResultKind : uint8_t { kCopy, kSum, kMean };

struct GroupResultColumn {
    TypePtr type;
    GroupResultKind kind = GroupResultKind::kCopy;
    int32_t value = 0;  // output column of the GPU; of one in parts that with the lowest bits
    int32_t high = -1;  // output column with the highest bits of a value in several parts; -1: it has one part
    // Sums of decimals of 128 bits: output columns with the two parts between `value` and `high`, each of 32 bits, the
    // lower one first.
    std::vector<int32_t> between;
    int32_t count = -1;    // kMean
    int32_t present = -1;  // output that is 0 where the result is NULL; -1: it never is
    uint32_t offset = 0;   // byte of the output, or of all words of the key, where the value begins: parts of a key
    uint32_t bytes = 8;    // of the value there; a type with more has them extended, by the sign if there is one
    int32_t key = -1;      // the key of that number, whose bit says where it is NULL; -1: there is none
    cuda::ValueKind number = cuda::ValueKind::kSigned;  // of the values that were added up
    int32_t decimal_scale = 0;
    std::string name;  // of the aggregated column, for errors; empty: none
};

struct OutOfCoreGroupStage {
    cuda::StagedGroupBySpec group;
    OutOfCoreSide side;
    std::vector<GroupResultColumn> columns;
    // Words of the key that are the first columns of chunks; the first aggregates are the least and the greatest value
    // of each, which differ where keys share a hash.
    uint32_t key_words = 0;
    int32_t workers = 1;  // that fill chunks, and as many that deliver groups
};

}  // namespace spillway
