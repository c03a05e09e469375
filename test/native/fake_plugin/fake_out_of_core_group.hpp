// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fake_out_of_core.hpp"

namespace fake {

// What the real plugin takes for these sizes (GroupShape::device_bytes), written down once more.
uint64_t out_of_core_group_bytes(const spillway_cuda_out_of_core_group_spec& spec);

// A spec that owns its arrays.
struct GroupPlan {
    explicit GroupPlan(const spillway_cuda_out_of_core_group_spec& given);
    spillway_cuda_out_of_core_group_spec spec;
    std::vector<uint32_t> widths;
    std::vector<spillway_cuda_out_of_core_aggregate> aggregates;

    uint32_t width_of(const spillway_cuda_out_of_core_aggregate& aggregate) const;
    std::vector<uint32_t> output_widths() const;
    uint64_t row_bytes() const;  // of a partial row
};

// A group-by with a map of its groups. Chunks are read when they are released and groups written when they are closed,
// as late as the real one may. Rows of groups for which the pages have no room count as spilled; those that go to disk
// are not added up before they are back.
class OutOfCoreGroup {
  public:
    OutOfCoreGroup(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_group_spec& spec);
    void run(const spillway_cuda_source& source, const spillway_cuda_sink* sink,
             spillway_cuda_out_of_core_group_report* report);

  private:
    struct Value {
        bool is_set = false;
        __int128 number = 0;  // counts, sums and extremes of integers
        double real = 0;
    };
    struct Group {
        size_t number = 0;  // in the order in which they came
        std::vector<Value> values;
    };
    struct Window {
        uint64_t rows = 0;
        std::vector<void*> columns;
        std::vector<std::string> values;  // of each column
    };
    using Key = std::pair<bool, uint64_t>;  // whether there is one

    void add_chunk(const spillway_cuda_chunk& chunk);
    void add_value(Value& value, const spillway_cuda_out_of_core_aggregate& aggregate, const spillway_cuda_chunk& chunk,
                   uint64_t row) const;
    void add_values(Group& group, const spillway_cuda_chunk& chunk, uint64_t row) const;
    // True: the row is on disk.
    bool spill(const Key& key, const spillway_cuda_chunk& chunk, uint64_t row);
    void add_spilled();
    void give(const Key& key, const Group& group);
    std::string text_of(const Value& value, const spillway_cuda_out_of_core_aggregate& aggregate) const;
    void flush();
    void close_oldest();

    spillway_cuda_gpu* gpu_;
    GroupPlan plan_;
    FakeDisk disk_;
    OperationMemory memory_;
    uint64_t memory_bytes_ = 0;  // of spilled rows in the host's
    const spillway_cuda_sink* sink_ = nullptr;
    std::map<Key, Group> groups_;
    std::vector<std::string> pending_;  // result rows, column by column
    uint64_t pending_rows_ = 0;
    std::deque<Window> open_;
    int closed_windows_ = 0;
    spillway_cuda_out_of_core_group_report report_{};
};

void out_of_core_group_bytes(const spillway_cuda_out_of_core_group_spec* spec, uint64_t* bytes,
                             spillway_cuda_status* status);
void begin_out_of_core_group(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_group_spec* spec,
                             spillway_cuda_out_of_core_group** group, spillway_cuda_status* status);
void run_out_of_core_group(spillway_cuda_out_of_core_group* group, const spillway_cuda_source* source,
                           const spillway_cuda_sink* sink, spillway_cuda_out_of_core_group_report* report,
                           spillway_cuda_status* status);
void free_out_of_core_group(spillway_cuda_out_of_core_group* group);

}  // namespace fake

struct spillway_cuda_out_of_core_group {
    spillway_cuda_gpu* gpu;
    fake::OutOfCoreGroup group;
};
