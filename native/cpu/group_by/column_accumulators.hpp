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

// States of few groups in arrays that take values straight from the columns; the records get them at the end. Integers
// and decimals are added in 64 bits: each step knows a bound of its values, and before the bounds could add up to 2^63
// the sums go to the records, which have 128 bits and more. Values too large for that are added to the records at once.
// Aggregates of one column that need the same are one.
//
// Up to four that do the same with their values share an array, side by side at each place, so that one vector
// operation takes those of a row. Every group has `copies` places, and rows that follow each other use different ones:
// else each addition would wait for the one before to reach memory. Counts, sums and means, and min and max of numbers
// up to 8 bytes; no dictionaries.
class ColumnAccumulators {
  public:
    static constexpr int64_t kRowsMax = 4096;     // without keys
    static constexpr int64_t kPlacedRows = 1024;  // with places

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
    // places[i]: group of row i times copies(), plus any copy. nullptr, without keys: place 0.
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
    static constexpr uint32_t kLanes = 4;
    // What is done with the words of a place.
    enum class Step : uint8_t { kAdd, kAddDoubles, kChoose };
    struct Accumulator {
        Fold fold;
        std::vector<const AggregatePlan*> targets;  // of one column and state
        int32_t nulls = -1;                         // which of nulls_; -1: the column has none
        uint64_t* words = nullptr;                  // its word at place 0; min and max: flipped (flip_of())
        uint32_t stride = 1;                        // from place to place; kSumFloat: half of it to the compensation
        uint64_t bound = 0;                         // sums: no place holds more than this
        const AggregatePlan& plan() const { return *targets[0]; }
    };
    // Accumulators side by side: [first, first + count) of accumulators_.
    struct Line {
        Step step;
        uint32_t first;
        uint32_t count;
        uint64_t* words = nullptr;
        uint32_t lanes() const { return count == 1 ? 1 : kLanes; }
        uint32_t stride() const { return step == Step::kAddDoubles ? 2 * lanes() : lanes(); }
    };
    struct NullCount {
        int32_t view;
        uint64_t* rows = nullptr;  // per place
    };
    struct RowCount {
        const AggregatePlan* aggregate;
        int32_t nulls;
    };
    // What add() is given.
    struct Rows {
        const ColumnRows& rows;
        int64_t count;
        const uint32_t* places;
        const Groups& groups;
        const ColumnView& view(const Accumulator& accumulator) const {
            return (*rows.views)[static_cast<size_t>(accumulator.plan().view)];
        }
    };
    // Values of a column as words, for the aggregates that read it.
    struct Numbers {
        int32_t view = -1;
        bool ordered = false;   // order words
        uint64_t used = 0;      // when
        DecimalSum64 narrow{};  // decimals: of all of the numbers
        uint64_t* words = nullptr;
        const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(words); }
    };
    // Values to fold; words: nullptr where the records have got them already.
    struct Values {
        const uint8_t* words;
        uint64_t sum;  // sums without keys
    };

    void take(const AggregatePlan& aggregate);
    static bool folds(const AggregatePlan& aggregate, Fold& fold);
    static Step step_of(Fold fold);
    static uint64_t flip_of(Fold fold);
    static uint64_t neutral_of(Fold fold);
    void make_lines();
    int32_t null_count_of(const AggregatePlan& aggregate);
    uint64_t places() const { return uint64_t{room_} << copy_bits_; }
    void count_rows(const Rows& rows);
    Numbers& numbers_of(const Accumulator& accumulator, bool ordered, bool& known);
    const uint8_t* load(const Rows& rows, const Accumulator& accumulator);
    const Numbers& narrow(const Rows& rows, const Accumulator& accumulator);
    const uint8_t* without_nulls(const Rows& rows, const Accumulator& accumulator, const uint8_t* words, uint32_t lane);
    Values values(const Rows& rows, Accumulator& accumulator, uint32_t lane);
    Values integers(const Rows& rows, Accumulator& accumulator, uint32_t lane);
    Values decimals(const Rows& rows, Accumulator& accumulator, uint32_t lane);
    Values chosen_decimals(const Rows& rows, Accumulator& accumulator, uint32_t lane);
    bool make_headroom(const Rows& rows, Accumulator& accumulator, uint64_t magnitude);
    template <class Add>
    void add_to_records(const Rows& rows, Accumulator& accumulator, Add add);
    void add_single(const Rows& rows, Accumulator& accumulator);
    void add_line(const Rows& rows, const Line& line);
    static void fold_lane(const Rows& rows, const Line& line, const uint8_t* words, uint64_t flip);
    static void clear(Accumulator& accumulator, uint64_t places);
    static void choose_decimal(const uint8_t* decimal, bool min, uint8_t* record, const AggregatePlan& target);
    static void keep_word(const Accumulator& accumulator, const uint64_t* place, uint8_t* record,
                          const AggregatePlan& target);
    void flush(Accumulator& accumulator, const Groups& groups);
    void flush_counts(const Accumulator& accumulator, const Groups& groups);
    uint64_t count_of(uint32_t group, int32_t nulls) const;

    TableMemory& memory_;
    const ColumnKernels& kernels_;
    std::vector<const AggregatePlan*> others_;
    std::vector<Accumulator> accumulators_;  // those of a line side by side
    std::vector<Line> lines_;
    std::vector<NullCount> nulls_;
    std::vector<RowCount> row_counts_;
    TableBlock block_;
    uint64_t* rows_ = nullptr;  // per place
    uint32_t room_ = 0;
    uint32_t copy_bits_ = 0;
    std::unique_ptr<uint64_t[]> scratch_;  // words of numbers_ and of chosen_
    std::vector<Numbers> numbers_;         // at least two for each lane, so that no line pushes out what it needs
    std::vector<uint64_t*> chosen_;        // of each lane: values with something else for NULLs
    uint64_t uses_ = 0;
};

}  // namespace spillway
