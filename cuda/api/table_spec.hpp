// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "api/group_spec.hpp"
#include "api/join_spec.hpp"
#include "api/packed_block.hpp"

// Tables in GPU memory and the operations on them.
namespace spillway::cuda { inline namespace api {

enum class ColumnKind : uint8_t { kFixed, kBytes };

// Parts of a column: what its memory is cut into. Validity is a bit per row, in whole 32-bit words.
enum class ColumnPart : uint8_t { kValues, kOffsets, kValidity };

struct ColumnSpec {
    ColumnKind kind = ColumnKind::kFixed;
    uint32_t width = 0;     // kFixed: bytes of a value; bools are bytes of 0 or 1
    bool nullable = false;  // has validity
    uint64_t bytes = 0;     // kBytes: of all values
};

// A stretch of a part of a column on its way between a table and memory of allocate_pinned().
struct TableCopy {
    uint32_t column = 0;
    ColumnPart part = ColumnPart::kValues;
    bool packed = false;        // whole values of a kFixed column whose width can_pack()
    uint64_t offset_bytes = 0;  // of the stretch in its part; packed: a multiple of the width
    uint64_t bytes = 0;
    // At the same place in 16 bytes as offset_bytes is; packed: line 0 of the blocks, a multiple of 64. Any other host
    // memory is copied, slowly, through memory of that kind, and cannot be packed.
    void* host = nullptr;
    PackedBlock* blocks = nullptr;  // packed: packed_planes(width) for each kPackedValues values, in pinned memory too
};

// A list that its owner keeps: what crosses the border. Specifications have their lists as views or, beside them, as
// lists of their own.
template <class T>
struct ListView {
    ListView() = default;
    ListView(const T* from, uint64_t size) : values(from), count(size) {}
    ListView(const std::vector<T>& from) : values(from.data()), count(from.size()) {}
    ListView(const std::vector<T>&&) = delete;  // what it shows would be gone

    const T* values = nullptr;
    uint64_t count = 0;

    uint64_t size() const { return count; }
    bool empty() const { return count == 0; }
    const T* begin() const { return values; }
    const T* end() const { return values + count; }
    const T& operator[](uint64_t i) const { return values[i]; }
};
template <class T>
using OwnedList = std::vector<T>;

// How a key column is normalized so that equal keys have equal bytes; as KeyKind of native/model/row_layout.hpp.
enum class KeyPartKind : uint8_t {
    kSigned,    // widened to `width` with its sign
    kUnsigned,  // widened to `width` with zeros
    kFloat,     // of 2, 4 or 8 bytes, widened to `width`; every NaN equal, -0 equal to +0
    kFixed,     // `width` bytes as they are: decimals, fixed-size binary, intervals
    kBytes      // of any length
};

struct KeyPart {
    uint32_t column = 0;  // of the table
    KeyPartKind kind = KeyPartKind::kSigned;
    uint32_t width = 4;  // normalized; kBytes: 0
};

// A result column: of the build side, of the probe side, or (kEither: the key of a full join) of the probe side where
// it has a row, else of the build side.
enum class TableSide : uint8_t { kBuild, kProbe, kEither };

struct TableJoinColumn {
    TableSide side = TableSide::kBuild;
    uint32_t build_column = 0;
    uint32_t probe_column = 0;
};

struct TableJoinOptions {
    JoinAlgorithm algorithm = JoinAlgorithm::kRadixHash;
    JoinKind kind;
    bool nulls_equal = false;
    uint64_t expected_rows = 0;
    uint64_t first_key = 0;  // kPerfectHash
    uint64_t key_range = 0;  // of kPerfectHash; 0: not known, to be found
};
template <template <class> class List>
struct TableJoinOf : TableJoinOptions {
    List<KeyPart> build_keys;
    List<KeyPart> probe_keys;  // as many, each of the build part's kind of value and width
    List<TableJoinColumn> output;
};
using TableJoin = TableJoinOf<ListView>;
struct OwnedTableJoin : TableJoinOf<OwnedList> {
    OwnedTableJoin() = default;
    explicit OwnedTableJoin(const TableJoin& from)
        : TableJoinOf{from,
                      {from.build_keys.begin(), from.build_keys.end()},
                      {from.probe_keys.begin(), from.probe_keys.end()},
                      {from.output.begin(), from.output.end()}} {}
    operator TableJoin() const { return {*this, build_keys, probe_keys, output}; }
};

enum class TableAggregateKind : uint8_t { kCountRows, kCount, kSum, kMin, kMax, kMean, kFirst, kAny, kCountDistinct };

// How values of a column compare and add.
enum class TableValueKind : uint8_t { kSigned, kUnsigned, kFloat, kDecimal, kBytes };

struct TableAggregate {
    TableAggregateKind kind = TableAggregateKind::kCountRows;
    uint32_t column = 0;  // kCountRows: none
    TableValueKind value_kind = TableValueKind::kSigned;
    uint32_t result_width = 8;  // of the result's values
    int32_t decimal_scale = 0;  // kMean of a decimal, -76 to 76: the mean is divided by 10^decimal_scale
};

struct TableGroupByOptions {
    GroupByAlgorithm algorithm = GroupByAlgorithm::kHash;
    bool is_named = false;  // by the user: kHash then stays a group-by by hashing, however many groups there are
    uint64_t expected_groups = 0;
};
template <template <class> class List>
struct TableGroupByOf : TableGroupByOptions {
    List<KeyPart> keys;  // none: one group, also without rows
    List<TableAggregate> aggregates;
};
using TableGroupBy = TableGroupByOf<ListView>;
struct OwnedTableGroupBy : TableGroupByOf<OwnedList> {
    operator TableGroupBy() const { return {*this, keys, aggregates}; }
};

// What an operation took.
struct TableReport {
    double elapsed_ms = 0;    // on the caller's clock, until the device was done
    double transform_ms = 0;  // on the device; device/phase_times.hpp says what belongs where
    double match_ms = 0;
    double materialize_ms = 0;
    uint64_t moved_bytes = 0;  // that kernels must read and write, by the arithmetic of their passes
    uint64_t peak_bytes = 0;   // of the device after it
    int32_t algorithm = 0;     // that ran: the one asked for, or the one that it gave way to
};

}}  // namespace spillway::cuda::api
