// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "executor/streaming/group_by_spec.hpp"
#include "executor/streaming/result_blocks.hpp"
#include "executor/streaming/text_codes.hpp"
#include "memory/memory_budget.hpp"
#include "model/batch_sink.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Which keys are NULL.
struct KeyFlags {
    int32_t byte = -1;      // of the key, or of the byte string that it is the number of; -1: there is none
    bool numbered = false;  // keys are numbers of such strings (KeyTuples)
    uint32_t words = 0;     // of the key behind the first one (OutOfCoreGroupStage::key_words)
};

// The words of the key of a group. Throws kUnsupportedType, as what the GPU refuses, where several keys share its hash.
struct GroupKeyWords {
    uint64_t word[kKeyWordsMax] = {};

    void read(const std::vector<const uint8_t*>& outputs, uint32_t words, uint64_t row);
    // Checks the words of so many groups where nothing else of them is read; throws as read() does.
    static void check(const std::vector<const uint8_t*>& outputs, uint32_t words, uint64_t rows);
};

// Batches of the GPU's groups, with columns as native/cpu/group_by would make them. Making one throws kIntegerOverflow
// for a sum that does not fit its type. What it is given must outlive it.
class GroupResult {
  public:
    // texts: of columns whose values on the GPU are numbers of text, and of keys.
    GroupResult(const cuda::StagedGroupBySpec& group, const std::vector<GroupResultColumn>& columns, KeyFlags flags,
                const TextCodes& texts, MemoryBudget& budget);

    // It refers to this.
    ResultForm form() const;
    // The same for groups that are counted, of which nothing but their words is looked at.
    ResultForm counted_form() const;
    // Without keys there is a group also without rows: its counts are 0, and all else is NULL.
    void give_empty_group(BatchSink& sink) const;

  private:
    std::unique_ptr<BatchMemory> memory(uint64_t rows) const;
    OutputColumn column(size_t at, const std::vector<const uint8_t*>& outputs, uint64_t rows,
                        BatchMemory& memory) const;

    const cuda::StagedGroupBySpec& group_;
    const std::vector<GroupResultColumn>& columns_;
    const KeyFlags flags_;
    const TextCodes& texts_;
    MemoryBudget& budget_;
    const std::vector<uint32_t> widths_;  // of the GPU's result columns
};

}  // namespace spillway
