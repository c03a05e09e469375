// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/hash_join/co_partition_probe.hpp"
#include "cpu/hash_join/perfect_table.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"

namespace spillway {

// The tables of a build side that stay in memory while probe rows stream past them: one for each partition, or a
// perfect one over the rows of all of them.
class ResidentTables {
  public:
    // probe_layout: of the rows that are looked up; it and `spec` must outlive this.
    ResidentTables(PartitionedRows& build, const JoinSpec& spec, const RowLayout& probe_layout, TableUse use,
                   JobControl& control)
        : build_(build), spec_(spec), probe_layout_(probe_layout), use_(use), control_(control) {}

    // Makes the tables with all workers. Once.
    void make();
    size_t count() const { return tables_.size(); }
    const ProbeTarget& target(size_t partition) const { return tables_[partition].target; }
    // The only table, where that is a perfect one: keys need not become rows to be looked up.
    const PerfectTable* perfect() const { return perfect_; }
    PartitionedRows& rows() const { return build_; }
    const JoinSpec& spec() const { return spec_; }
    // Tells the table for a row by its mixed key or hash.
    size_t partition_of(uint64_t word) const;
    // Does no key occur twice?
    bool unique() const;

  private:
    // Build rows with their table.
    struct Table {
        std::unique_ptr<BuildRows> rows;
        std::unique_ptr<JoinTable> table;
        Buffer matched;
        ProbeTarget target;
    };
    void for_each_partition(const std::function<void(size_t)>& work);
    bool make_perfect(const std::vector<std::vector<RowSpan>>& spans,
                      const std::vector<std::optional<KeyRange>>& ranges);
    void finish(Table& made);

    PartitionedRows& build_;
    const JoinSpec& spec_;
    const RowLayout& probe_layout_;
    const TableUse use_;
    JobControl& control_;
    std::vector<std::vector<Buffer>> memory_;  // of rows that were read back, by partition
    std::vector<Table> tables_;
    const PerfectTable* perfect_ = nullptr;
};

}  // namespace spillway
