// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/job_control.hpp"
#include "cpu/hash_join/co_partition_probe.hpp"
#include "cpu/hash_join/join_table.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// A hash table with what it refers to. Moves with the unique_ptr that holds it.
struct BuiltTable {
    std::vector<Buffer> memory;     // pages read back
    std::optional<BuildRows> rows;  // none when the table keeps the words alone
    std::unique_ptr<JoinTable> table;
    Buffer matched;  // flags by row number, if the join marks build rows

    ProbeTarget target(const JoinSpec& spec, uint8_t* probe_matched = nullptr) {
        return {&spec, rows ? &*rows : nullptr, table.get(), matched.data(), probe_matched};
    }
};

// Makes the tables of a partitioned join. JoinMemory says what they take.
class JoinTables {
  public:
    JoinTables(PartitionedRows& build, const RowLayout& probe_layout, const JoinSpec& spec, TableUse use,
               JobControl& control)
        : build_(build), probe_layout_(probe_layout), spec_(spec), use_(use), control_(control) {}

    // Over partition p. nullptr: there are equal keys, but no room for them.
    std::unique_ptr<BuiltTable> of_partition(int32_t p, TableRoom room) const;
    // Over pages [begin, end) of it.
    std::unique_ptr<BuiltTable> of_pages(int32_t p, size_t begin, size_t end) const;
    // Over rows that stay while the table lives.
    std::unique_ptr<BuiltTable> of_rows(const RowSpan& rows) const;

  private:
    std::unique_ptr<BuiltTable> finish(std::unique_ptr<BuiltTable> built, TableRoom room) const;
    std::unique_ptr<JoinTable> make_counter(int32_t p, TableRoom room) const;

    PartitionedRows& build_;
    const RowLayout& probe_layout_;
    const JoinSpec& spec_;
    const TableUse use_;
    JobControl& control_;
};

}  // namespace spillway
