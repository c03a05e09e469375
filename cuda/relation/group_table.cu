// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/sorted/dictionary.hpp"
#include "relation/extremes.hpp"
#include "relation/gather.hpp"
#include "relation/group_table.hpp"
#include "relation/null_bits.hpp"
#include "relation/relation_grid.cuh"
#include "relation/wide_aggregates.hpp"

namespace spillway::cuda { inline namespace relation {

namespace {

// Bytes: a row number and a random access per row that is marked.
__global__ void mark(const void* rows, uint32_t row_width, uint64_t count, uint8_t* marks) {
    for_rows(count, [&](uint64_t i) {
        marks[row_width == 4 ? static_cast<const uint32_t*>(rows)[i] : static_cast<const uint64_t*>(rows)[i]] = 1;
    });
}

// Marks some of so many rows, each once. Enqueued on the device's stream.
void mark_rows(Device& device, const void* rows, uint32_t row_width, uint64_t count, uint64_t of_rows, uint8_t* marks) {
    count_moved(device, count * row_width + sector_bytes(device, count, 1, of_rows));
    launch(mark, relation_grid(device, count), dim3(kRelationThreads), 0, device.stream(), rows, row_width, count,
           marks);
}

KeyPart part_of(const TableColumn& column, const TableAggregate& aggregate) {
    KeyPart part;
    part.column = aggregate.column;
    part.width = column.kind == ColumnKind::kBytes ? 0 : column.width;
    if (column.kind == ColumnKind::kBytes) {
        part.kind = KeyPartKind::kBytes;
    } else if (aggregate.value_kind == TableValueKind::kFloat) {
        part.kind = KeyPartKind::kFloat;
        if (column.width < 4) refuse("countDistinct of half floats runs on the CPU engine");
    } else if (aggregate.value_kind == TableValueKind::kSigned) {
        part.kind = KeyPartKind::kSigned;
    } else {
        part.kind = aggregate.value_kind == TableValueKind::kUnsigned ? KeyPartKind::kUnsigned : KeyPartKind::kFixed;
    }
    const bool is_number = part.kind == KeyPartKind::kSigned || part.kind == KeyPartKind::kUnsigned;
    if (is_number && column.width > 8) part.kind = KeyPartKind::kFixed;
    return part;
}

class GroupTable {
  public:
    GroupTable(Device& device, const DeviceTable& table, const TableGroupBy& group)
        : device_(device),
          table_(table),
          group_(group),
          row_width_(table.rows > 1ULL << 32 ? 8 : 4),
          wide_(device, group.aggregates.size(), table.rows) {}

    DeviceTable run() {
        make_keys();
        request_.algorithm = group_.algorithm;
        request_.is_named = group_.is_named;
        request_.rows = table_.rows;
        request_.expected_groups = group_.keys.empty() ? 1 : group_.expected_groups;
        request_.in_parts = true;
        for (const TableAggregate& aggregate : group_.aggregates) add(aggregate);
        for (const GroupAggregate& more : wide_.more()) request_.aggregates.push_back(more);
        const bool gathers_keys = !group_.keys.empty() && !keys_.is_value;
        const size_t any_row = request_.aggregates.size();
        if (gathers_keys) request_.aggregates.push_back(smallest_row(nullptr));
        result_ = group_by(device_, request_);
        const PhaseScope materialize(device_, Phase::kMaterialize);
        // One group without rows has counts of 0 and no value.
        const bool is_empty = group_.keys.empty() && result_.groups == 0;
        if (is_empty) make_empty_group();
        check_sums();
        if (!is_empty) compare_rows();
        DeviceTable out;
        out.rows = result_.groups;
        for (const KeyPart& part : group_.keys) out.columns.push_back(key_column(part, any_row));
        for (size_t i = 0; i < group_.aggregates.size(); ++i) out.columns.push_back(result_column(i, is_empty));
        return out;
    }

  private:
    void make_keys() {
        if (!group_.keys.empty()) {
            for (const KeyPart& part : group_.keys) column_of(part.column);
            keys_ = group_keys(device_, table_, group_.keys);
        } else {
            keys_.owned = device_.memory().allocate(table_.rows * sizeof(uint32_t), "the key of one group");
            if (table_.rows > 0) {
                SPILLWAY_CUDA_CHECK(cudaMemsetAsync(keys_.owned.as(), 0, keys_.owned.bytes(), device_.stream()));
            }
            count_moved(device_, keys_.owned.bytes());
            keys_.data = {keys_.owned.as(), 4};
        }
        request_.key = keys_.data;
        request_.key_valid = keys_.validity.as<const uint32_t>();
    }

    const TableColumn& column_of(uint32_t number) const {
        if (number >= table_.columns.size()) refuse("a group-by of a column that the table does not have");
        return table_.columns[number];
    }
    static const uint32_t* validity_of(const TableColumn& column) { return column.validity.as<const uint32_t>(); }

    // Asks for the smallest row number of the group, or of those of its rows that are valid.
    GroupAggregate smallest_row(const uint32_t* valid) const {
        GroupAggregate row;
        row.kind = GroupAggregateKind::kMin;
        row.value_kind = ValueKind::kUnsigned;
        row.values = {nullptr, row_width_};
        row.valid = valid;
        return row;
    }

    GroupAggregate count_of(const TableColumn& column) const {
        GroupAggregate count;
        count.kind = column.validity ? GroupAggregateKind::kCount : GroupAggregateKind::kCountRows;
        count.values = {nullptr, row_width_};
        count.valid = validity_of(column);
        return count;
    }

    void add(const TableAggregate& aggregate) {
        if (aggregate.kind == TableAggregateKind::kCountRows) return request_.aggregates.push_back({});
        const TableColumn& column = column_of(aggregate.column);
        switch (aggregate.kind) {
            case TableAggregateKind::kCount:
                return request_.aggregates.push_back(count_of(column));
            case TableAggregateKind::kFirst:
                return request_.aggregates.push_back(smallest_row(nullptr));
            case TableAggregateKind::kAny:
                return request_.aggregates.push_back(smallest_row(validity_of(column)));
            case TableAggregateKind::kCountDistinct:
                return add_distinct(aggregate, column);
            default:
                return add_numbers(aggregate, column);
        }
    }

    // Sum, mean, min, max.
    void add_numbers(const TableAggregate& aggregate, const TableColumn& column) {
        const bool adds = aggregate.kind == TableAggregateKind::kSum || aggregate.kind == TableAggregateKind::kMean;
        const uint32_t width = column.width;
        // Any row that has a value, for a start.
        if (compares_rows(aggregate, column)) return request_.aggregates.push_back(smallest_row(validity_of(column)));
        if (column.kind == ColumnKind::kBytes || aggregate.value_kind == TableValueKind::kBytes) {
            refuse("sums and means of byte strings run on the CPU engine");
        }
        if (WideAggregates::takes(aggregate)) {
            const size_t number = request_.aggregates.size();
            return request_.aggregates.push_back(wide_.add(number, aggregate, column, count_of(column)));
        }
        if (width != 1 && width != 2 && width != 4 && width != 8) {
            refuse("aggregates of values of " + std::to_string(width) + " bytes run on the CPU engine");
        }
        if (aggregate.value_kind == TableValueKind::kFloat && width < 4) {
            refuse("aggregates of half floats run on the CPU engine");
        }
        if (aggregate.result_width != (adds ? 8 : width)) {
            refuse("an aggregate with a result of " + std::to_string(aggregate.result_width) +
                   " bytes runs on the CPU engine");
        }
        GroupAggregate wanted;
        wanted.kind = aggregate.kind == TableAggregateKind::kSum    ? GroupAggregateKind::kSum
                      : aggregate.kind == TableAggregateKind::kMean ? GroupAggregateKind::kMean
                      : aggregate.kind == TableAggregateKind::kMin  ? GroupAggregateKind::kMin
                                                                    : GroupAggregateKind::kMax;
        wanted.value_kind = aggregate.value_kind == TableValueKind::kFloat      ? ValueKind::kFloat
                            : aggregate.value_kind == TableValueKind::kUnsigned ? ValueKind::kUnsigned
                                                                                : ValueKind::kSigned;
        wanted.values = {column.values.as(), width};
        wanted.valid = validity_of(column);
        request_.aggregates.push_back(wanted);
    }

    // The user named a group-by by hashing.
    bool hashes_alone() const {
        return group_.algorithm == GroupByAlgorithm::kHashGlobal ||
               (group_.algorithm == GroupByAlgorithm::kHash && group_.is_named);
    }

    // One row of each pair of a key and a value that is not NULL is marked; then the marks are added up.
    void add_distinct(const TableAggregate& aggregate, const TableColumn& column) {
        std::vector<KeyPart> parts(group_.keys.begin(), group_.keys.end());
        parts.push_back(part_of(column, aggregate));
        const KeyColumn pair_keys = group_keys(device_, table_, parts);
        GroupByRequest pairs;
        pairs.algorithm = hashes_alone() ? GroupByAlgorithm::kHashGlobal : GroupByAlgorithm::kPartitioned;
        pairs.rows = table_.rows;
        pairs.key = pair_keys.data;
        pairs.key_valid = validity_of(column);
        pairs.aggregates.push_back(smallest_row(nullptr));
        const GroupByResult found = group_by(device_, pairs);
        marks_.push_back(device_.memory().allocate(std::max<uint64_t>(table_.rows, 1), "distinct values"));
        count_moved(device_, marks_.back().bytes());
        uint8_t* const marks = marks_.back().as<uint8_t>();
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(marks, 0, marks_.back().bytes(), device_.stream()));
        mark_rows(device_, found.values[0].as<const void>(), row_width_, found.groups, table_.rows, marks);
        GroupAggregate sum;
        sum.kind = GroupAggregateKind::kSum;
        sum.value_kind = ValueKind::kUnsigned;
        sum.values = {marks, 1};
        request_.aggregates.push_back(sum);
    }

    void make_empty_group() {
        result_.groups = 1;
        const auto zeros = [&](uint64_t bytes) {
            Allocation memory = device_.memory().allocate(bytes, "one group without rows");
            SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, bytes, device_.stream()));
            return memory;
        };
        for (Allocation& values : result_.values) values = zeros(sizeof(uint64_t));
        for (Allocation& present : result_.present) present = zeros(1);
    }

    void check_sums() const {
        for (size_t i = 0; i < group_.aggregates.size(); ++i) {
            if (i < result_.sum_overflows.size() && result_.sum_overflows[i]) {
                throw Error(ErrorCode::kOverflow, "the sum of column " + std::to_string(group_.aggregates[i].column) +
                                                      " does not fit 64 bits for one group");
            }
        }
    }

    void compare_rows() {
        Allocation group_of;
        for (size_t i = 0; i < group_.aggregates.size(); ++i) {
            const TableAggregate& aggregate = group_.aggregates[i];
            if (result_.groups == 0 || !is_compared(aggregate)) continue;
            if (!group_of) {
                group_of = encode_keys(device_, request_.key, table_.rows, result_.keys.as(), result_.groups);
            }
            find_extremes(device_, column_of(aggregate.column), table_.rows, aggregate, group_of.as<const uint32_t>(),
                          result_.values[i].as(), row_width_, result_.groups);
        }
    }
    bool is_compared(const TableAggregate& aggregate) const {
        return aggregate.kind != TableAggregateKind::kCountRows &&
               compares_rows(aggregate, column_of(aggregate.column));
    }

    TableColumn key_column(const KeyPart& part, size_t any_row) {
        const TableColumn& from = table_.columns[part.column];
        if (!keys_.is_value) {
            return gather(device_, from, table_.rows, result_.values[any_row].as(), row_width_, result_.groups);
        }
        TableColumn column;
        column.width = keys_.data.width;
        column.values = std::move(result_.keys);
        return column;
    }

    TableColumn result_column(size_t i, bool is_empty) {
        const TableAggregate& aggregate = group_.aggregates[i];
        const Allocation& present = result_.present[i];
        const bool is_chosen =
            aggregate.kind == TableAggregateKind::kFirst || aggregate.kind == TableAggregateKind::kAny;
        if (is_chosen || is_compared(aggregate)) {
            return gather(device_, table_.columns[aggregate.column], table_.rows, result_.values[i].as(), row_width_,
                          result_.groups, present.as<const uint8_t>(), 1);
        }
        const bool counts = aggregate.kind == TableAggregateKind::kCountRows ||
                            aggregate.kind == TableAggregateKind::kCount ||
                            aggregate.kind == TableAggregateKind::kCountDistinct;
        const bool adds = aggregate.kind == TableAggregateKind::kSum || aggregate.kind == TableAggregateKind::kMean;
        TableColumn column;
        column.width = counts || adds ? 8 : table_.columns[aggregate.column].width;
        if (wide_.has(i)) {
            column.width = aggregate.result_width;
            column.values = wide_.values(i, aggregate, result_);
        } else {
            column.values = std::move(result_.values[i]);
        }
        if (!present || counts || (result_.groups == 0 && !is_empty)) return column;
        count_moved(device_, result_.groups + result_.groups / 8);
        column.validity = presence_bitmap(device_, present.as<const uint8_t>(), 1, result_.groups);
        return column;
    }

    Device& device_;
    const DeviceTable& table_;
    const TableGroupBy group_;
    const uint32_t row_width_;  // of the row numbers that values are gathered by
    KeyColumn keys_;
    GroupByRequest request_;
    GroupByResult result_;
    WideAggregates wide_;
    std::vector<Allocation> marks_;  // a byte per row, for each count of distinct values
};

}  // namespace

DeviceTable group_table(Device& device, const DeviceTable& table, const TableGroupBy& group) {
    return GroupTable(device, table, group).run();
}

}}  // namespace spillway::cuda::relation
