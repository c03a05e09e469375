// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "cuda/api/pipe_spec.hpp"
#include "executor/streaming/group_by_spec.hpp"
#include "executor/streaming/join_spec.hpp"

namespace spillway {

// Joins by kernels alone are told when they begin how many rows and chunks their sources have.
using OutOfCoreOperator = std::variant<cuda::StagedJoinSpec, cuda::CoherentJoinSpec, cuda::StagedGroupBySpec>;

// nullptr: it is a group-by.
inline const cuda::StagedJoinSpec* join_of(const OutOfCoreOperator& op) {
    if (const auto* const coherent = std::get_if<cuda::CoherentJoinSpec>(&op)) return &coherent->join;
    return std::get_if<cuda::StagedJoinSpec>(&op);
}

struct TreeStep {
    int32_t op = 0;     // of the tree's operators
    int32_t input = 0;  // of the operator
    // How result rows of the step before become chunks of this one; not that of a flow's first step.
    cuda::PipeSpec pipe;
};

// The rows of a source go through operators. Those of all steps but the last one give rows, so that this is their last
// input.
struct TreeFlow {
    int32_t source = 0;
    OutOfCoreSide side;  // chunks of the first step
    std::vector<TreeStep> steps;
};

struct TreeJoinResult {
    std::vector<ResultColumn> columns;
    int32_t presence = -1;  // as in OutOfCoreStage
    // By flow: output column with the row numbers of its source, all bits set where there is no row; -1: none.
    std::vector<int32_t> row_numbers{};
    bool packed = false;  // result rows cross the link packed
};

struct TreeGroupResult {
    std::vector<GroupResultColumn> columns;
    int32_t null_byte = -1;  // of the key: the bits of keys that are NULL; -1: there is none
};

// Operators of which one takes the rows of others. Every input of each is read once, in order, by one flow after the
// other; the last step of the last flow is the root's last input.
struct OutOfCoreTree {
    std::vector<OutOfCoreOperator> operators;
    std::vector<TreeFlow> flows;
    std::variant<TreeJoinResult, TreeGroupResult> result;  // as the root is
    int32_t workers = 1;                                   // that fill chunks, and as many that deliver rows

    const TreeStep& root() const { return flows.back().steps.back(); }
    // nullptr: it is a group-by.
    const cuda::StagedJoinSpec* root_join() const { return join_of(operators[static_cast<size_t>(root().op)]); }
};

inline const cuda::StreamSizes& sizes_of(const OutOfCoreOperator& op) {
    const cuda::StagedJoinSpec* const join = join_of(op);
    return join != nullptr ? join->sizes : std::get<cuda::StagedGroupBySpec>(op).sizes;
}
inline uint32_t key_bytes_of(const OutOfCoreOperator& op) {
    const cuda::StagedJoinSpec* const join = join_of(op);
    return join != nullptr ? join->key_bytes : std::get<cuda::StagedGroupBySpec>(op).key_bytes;
}
inline int32_t inputs_of(const OutOfCoreOperator& op) {
    return join_of(op) != nullptr ? 2 : 1;
}
// Returns the widths of the columns of an input's chunks.
inline const cuda::ColumnWidths& widths_of(const OutOfCoreOperator& op, int32_t input) {
    if (const auto* const join = join_of(op)) return join->widths[input];
    return std::get<cuda::StagedGroupBySpec>(op).widths;
}

}  // namespace spillway
