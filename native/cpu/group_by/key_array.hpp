// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/local_dictionary.hpp"
#include "cpu/group_by/row_block.hpp"
#include "cpu/group_by/table_memory.hpp"

namespace spillway {

// Numbers of groups by the values of their keys, in an array: without a row, a hash and a comparison for each. For keys
// that are integers or texts, while the ranges of their values have few values together; beside other keys, and where
// they are long, texts are encoded first. It learns the numbers from those who know them otherwise, and does not take
// rows with a NULL in a key that is not encoded.
class KeyArray {
  public:
    // views: as those of ColumnAggregator.
    KeyArray(const GroupPlan& plan, const std::vector<int32_t>& views, TableMemory& memory);

    // Places of the rows as ColumnAccumulators::add() takes them, count <= RowBlock::kRowsMax. Returns false, with the
    // places of some rows only, where a row's number is not known.
    bool find(const ColumnRows& rows, int64_t count, uint32_t copies, uint32_t* places);
    // numbers: of the rows that find() was called with last, all below kNumbersMax.
    void learn(const uint32_t* numbers);
    // For good: find() returns false from now on. Returns false where that was so before.
    bool release();

    static constexpr uint32_t kNumbersMax = UINT16_MAX;

  private:
    // A key's values less `base` are bits [shift, shift + bits) of the index.
    struct Part {
        const KeyPart* key;
        size_t view;
        int64_t base = 0;
        uint32_t bits = 0;
        uint32_t shift = 0;
        int64_t least = INT64_MAX;  // of the values that it was made for
        int64_t most = INT64_MIN;
        std::unique_ptr<LocalDictionary> dictionary = nullptr;  // its codes are the values
    };

    // visit(values): values[i] of row i, whatever their type is.
    template <class Visit>
    void visit_values(const Part& part, const ColumnRows& rows, int64_t count, Visit&& visit);
    bool make_indices(const ColumnRows& rows, int64_t count);
    bool widen(const ColumnRows& rows, int64_t count);
    uint16_t* numbers() { return reinterpret_cast<uint16_t*>(numbers_.data()); }

    TableMemory& memory_;
    std::vector<Part> parts_;  // none: not usable
    TableBlock numbers_;       // by index: the number + 1, or 0
    int64_t known_ = 0;        // rows whose indices are in indices_
    uint32_t widened_ = 0;     // how often
    std::vector<uint32_t> indices_;
    std::vector<uint64_t> words_;
};

}  // namespace spillway
