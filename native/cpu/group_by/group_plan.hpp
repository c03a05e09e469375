// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/group_by/dictionary_order.hpp"
#include "cpu/group_by/value_order.hpp"
#include "memory/memory_budget.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// What a group keeps for one aggregate. Mean is a sum; views, lists and structs are byte strings.
enum class StateKind : uint8_t {
    kCountRows,      // uint64
    kCountValues,    // uint64
    kCountDistinct,  // uint64, counted by a DistinctSet
    kSumInteger,     // IntegerSum
    kSumFloat,       // FloatSum
    kSumDecimal,     // width / 8 + 1 words, then uint64 count
    kMinWord,        // order word (value_order.hpp), flag = has a value
    kMaxWord,
    kMinFixed,  // value, flag
    kMaxFixed,
    kMinBytes,  // BytesState, flag
    kMaxBytes,
    kFirstFixed,  // row number, value; flag = not NULL
    kFirstBytes,  // row number, BytesState; flag
    kAnyFixed,    // value, flag
    kAnyBytes,    // BytesState, flag
    kNull,        // nothing: the input column is of type Null
};

struct AggregatePlan {
    AggregateKind kind = AggregateKind::kCountRows;
    StateKind state = StateKind::kCountRows;
    const RowField* field = nullptr;               // nullptr: kCountRows
    const ColumnType* value_type = nullptr;        // type of the values; of a decoded dictionary, of its values
    NumberKind number = NumberKind::kNone;         // how value_type is read
    const uint8_t* decode = nullptr;               // sums of a dictionary column: the dictionary's values
    std::shared_ptr<const DictionaryOrder> order;  // min, max of a dictionary column
    uint32_t value_bytes = 0;                      // kFirst..., kAny..., kMin/MaxFixed
    uint32_t offset = 0;                           // of the state, in the record
    uint32_t flag_offset = 0;                      // of the flag byte
    TypePtr result_type;
    int32_t decimal_scale = 0;
    std::string column;  // for messages
    int32_t view = -1;   // GroupPlan::of_columns(): which of the views has the values
};

// One group in memory, a "record": [key word or hash][key area][byte-string keys as KeyBytes][key fields that the key
// area does not hold][NULL bytes][states][flags], padded to 8 bytes. Key and states side by side cost one cache miss
// per row, however many aggregates there are.
struct KeyBytes {
    const uint8_t* bytes;
    uint64_t length;
};

struct GroupPlan {
    struct Copy {
        uint32_t from;  // in the row
        uint32_t to;    // in the record
        uint32_t bytes;
    };
    struct NullBit {
        uint32_t from_byte;
        uint32_t to_byte;
        uint8_t from_mask;
        uint8_t to_mask;
    };
    struct FloatKey {
        uint32_t offset;
        uint32_t width;
    };
    struct KeyOutput {
        RowField field;         // in record_layout
        int32_t var_slot = -1;  // index into var_copies
    };

    RowLayout layout;        // of the input rows; of_columns(): of the rows that make groups, which hold keys only
    RowLayout probe_layout;  // of_columns(): of the rows that are looked up: the key area of `layout` and no fields
    RowLayout value_layout;  // of_columns(): fields of the aggregates, for their kinds and types
    uint64_t hash_mask = ~0ULL;
    uint32_t record_bytes = 0;
    uint32_t states_offset = 0;
    std::vector<uint8_t> empty_states;  // what a new record holds from states_offset on
    Reservation empty_memory;           // of empty_states and a copy, where they are large
    std::vector<Copy> copies;
    std::vector<Copy> var_copies;  // VarRef in the row -> KeyBytes; the first compared_vars of them are compared
    size_t compared_vars = 0;
    std::vector<NullBit> null_bits;
    std::vector<FloatKey> float_keys;  // made canonical, so that the result does not depend on which row came first
    RowLayout record_layout;           // as far as ColumnBuilder needs it
    std::vector<KeyOutput> key_outputs;
    std::vector<AggregatePlan> aggregates;
    uint32_t row_number_offset = 0;
    bool has_distinct = false;
    bool has_bytes_state = false;

    // with_aggregates false: only the groups are wanted. The result refers to `layout` by value and to dictionaries.
    static std::unique_ptr<const GroupPlan> make(const RowLayout& layout, const GroupBySpec& spec, MemoryBudget& budget,
                                                 bool with_aggregates);
    // Rows whose values stay in columns: those that `views` lists, of the types `columns`.
    struct Columns {
        const std::vector<TypePtr>& columns;
        const PartitionSpec& partition;
        NullKeys null_keys;
        const std::vector<int32_t>& views;
    };
    static std::unique_ptr<const GroupPlan> of_columns(const Columns& input, const GroupBySpec& spec,
                                                       MemoryBudget& budget, bool with_aggregates);
    // Does a new group keep more of its first row than the key area?
    bool keeps_fields() const {
        return copies.size() > 1 || var_copies.size() > compared_vars || !null_bits.empty() || !float_keys.empty();
    }
    // The one group of a group-by without keys when there is no row.
    std::vector<uint8_t> empty_record() const;
    bool wide_keys() const { return layout.mode != KeyMode::kWord; }
};

}  // namespace spillway
