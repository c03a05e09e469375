// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "cpu/hash_join/co_partition_probe.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"

namespace spillway {

// The tables of a build side that stay in memory while probe rows stream past them, one for each partition.
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
    PartitionedRows& rows() const { return build_; }
    const JoinSpec& spec() const { return spec_; }
    // Tells the partition of a row by its mixed key or hash.
    size_t partition_of(uint64_t word) const;
    // Does no key occur twice?
    bool unique() const;

  private:
    // One build partition with its table.
    struct Table {
        std::vector<Buffer> memory;
        std::unique_ptr<BuildRows> rows;
        std::unique_ptr<JoinTable> table;
        Buffer matched;
        ProbeTarget target;
    };
    void make_table(int32_t p);

    PartitionedRows& build_;
    const JoinSpec& spec_;
    const RowLayout& probe_layout_;
    const TableUse use_;
    JobControl& control_;
    std::vector<Table> tables_;
};

}  // namespace spillway
