// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/group_by/column_kernels.hpp"
#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/row_block.hpp"
#include "cpu/group_by/table_memory.hpp"

namespace spillway {

// States of few groups as arrays, one for each aggregate, that take values straight from the columns; the records get
// them at the end. Integers and decimals are added in 64 bits: each step knows a bound of its values, and before the
// bounds could add up to 2^63 the sums go to the records, which have 128 bits and more. Values too large for that are
// added to the records at once. Aggregates of one column that need the same share an array.
//
// Every group has `copies` places, and rows that follow each other use different ones: else each addition would wait
// for the one before to reach memory. Counts, sums and means, and min and max of numbers up to 8 bytes; no
// dictionaries.
class ColumnAccumulators {
  public:
    static constexpr int64_t kRowsMax = 4096;

    ColumnAccumulators(const GroupPlan& plan, TableMemory& memory);

    // What it does not do: for update_states().
    const std::vector<const AggregatePlan*>& others() const { return others_; }

    // Records of the groups by their number.
    struct Groups {
        uint8_t* const* records;
        uint32_t count;
    };
    // Makes room for `groups` groups (powers of two), all empty. Returns false, without any room, where that would
    // take more than `bytes_max` or than memory has.
    bool reset(uint32_t groups, uint32_t copies, uint64_t bytes_max);
    void release();  // gives the memory back: no room
    uint32_t room() const { return room_; }
    uint32_t copies() const { return 1u << copy_bits_; }
    // count <= kRowsMax rows. places[i]: group of row i times copies(), plus any copy; nullptr: place 0.
    void add(const ColumnRows& rows, int64_t count, const uint32_t* places, const Groups& groups);
    // Moves everything to the records.
    void flush(const Groups& groups);

  private:
    enum class Fold : uint8_t {
        kSumSigned,
        kSumUnsigned,
        kSumDecimal,
        kSumFloat,
        kMinSigned,
        kMaxSigned,
        kMinUnsigned,
        kMaxUnsigned,
        kMinDecimal,
        kMaxDecimal,
    };
    struct Accumulator {
        Fold fold;
        std::vector<const AggregatePlan*> targets;  // of one column and state
        int32_t nulls = -1;                         // which of nulls_; -1: the column has none
        uint64_t* words = nullptr;                  // per place; kSumFloat: the sums, then the compensations
        uint64_t bound = 0;                         // sums: no place holds more than this
        const AggregatePlan& plan() const { return *targets[0]; }
    };
    struct NullCount {
        int32_t view;
        uint64_t* rows = nullptr;  // per place
    };
    struct RowCount {
        const AggregatePlan* aggregate;
        int32_t nulls;
    };
    // One step of add().
    struct Step {
        const ColumnRows& rows;
        int64_t count;
        const uint32_t* places;
        const Groups& groups;
    };

    void take(const AggregatePlan& aggregate);
    static bool folds(const AggregatePlan& aggregate, Fold& fold);
    int32_t null_count_of(const AggregatePlan& aggregate);
    uint64_t places() const { return uint64_t{room_} << copy_bits_; }
    void clear(Accumulator& accumulator);
    void count_rows(const Step& step);
    const uint8_t* numbers(const Step& step, const Accumulator& accumulator);
    const uint8_t* without_nulls(const Step& step, const ColumnView& view, const uint8_t* words, uint64_t neutral);
    void add_integers(const Step& step, Accumulator& accumulator);
    void add_decimals(const Step& step, Accumulator& accumulator);
    void add_words(const Step& step, Accumulator& accumulator, const uint8_t* words, const WordSum& sum);
    bool make_headroom(const Step& step, Accumulator& accumulator, uint64_t magnitude);
    template <class Add>
    void add_to_records(const Step& step, Accumulator& accumulator, Add add);
    void add_floats(const Step& step, Accumulator& accumulator);
    const uint8_t* decimal_words(const Step& step, const Accumulator& accumulator, DecimalSum64& sum);
    void choose(const Step& step, Accumulator& accumulator);
    void choose_words(const Step& step, Accumulator& accumulator, const uint8_t* words);
    void choose_decimals(const Step& step, Accumulator& accumulator);
    static void keep_word(Accumulator& accumulator, uint64_t word, uint8_t* record, const AggregatePlan& target);
    void flush(Accumulator& accumulator, const Groups& groups);
    uint64_t count_of(uint32_t group, int32_t nulls) const;

    TableMemory& memory_;
    const ColumnKernels& kernels_;
    std::vector<const AggregatePlan*> others_;
    std::vector<Accumulator> accumulators_;
    std::vector<NullCount> nulls_;
    std::vector<RowCount> row_counts_;
    TableBlock block_;
    uint64_t* rows_ = nullptr;  // per place
    uint32_t room_ = 0;
    uint32_t copy_bits_ = 0;
    std::unique_ptr<uint64_t[]> numbers_;  // kRowsMax
    std::unique_ptr<uint64_t[]> chosen_;   // kRowsMax
    int32_t numbers_view_ = -1;            // whose numbers are in numbers_
    bool numbers_ordered_ = false;         // as order words
    DecimalSum64 narrow_{};                // decimals: of all of the numbers
};

}  // namespace spillway
