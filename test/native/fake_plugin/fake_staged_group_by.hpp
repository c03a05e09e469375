// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fake_stream.hpp"

namespace fake {

// A group-by with a map of its groups. Rows of groups for which the pages have no room count as spilled; those that go
// to disk are not added up before they are back.
class StagedGroupBy final : public Stream {
  public:
    StagedGroupBy(spillway_cuda_gpu* gpu, const StagedGroupBySpec& spec, const DiskCalls* disk);

    void run(int input, const SourceCalls& source, const SinkCalls* sink) override;
    int inputs() const override { return 1; }
    uint32_t key_bytes() const override { return spec_.key_bytes; }
    ColumnWidths widths(int) const override { return spec_.widths; }

  private:
    struct Value {
        bool is_set = false;
        __int128 number = 0;  // counts, sums and extremes of integers
        double real = 0;
        __int128 by = 0;  // of the column that decides
    };
    struct Group {
        size_t number = 0;  // in the order in which they came
        std::vector<Value> values;
    };
    using Key = std::pair<bool, uint64_t>;  // whether there is one

    void add_chunk(const Chunk& chunk);
    // Is the row among those whose values count?
    bool decides(Value& value, const StagedAggregate& aggregate, const Chunk& chunk, uint64_t row) const;
    __int128 integer(const Chunk& chunk, uint32_t column, ValueKind kind, uint64_t row) const;
    void add_value(Value& value, const StagedAggregate& aggregate, const Chunk& chunk, uint64_t row) const;
    void add_values(Group& group, const Chunk& chunk, uint64_t row) const;
    // True: the row is on disk.
    bool spill(const Key& key, const Chunk& chunk, uint64_t row);
    void add_spilled();
    void give_group(const Key& key, const Group& group);
    std::string text_of(const Value& value, const StagedAggregate& aggregate) const;

    const StagedGroupBySpec spec_;
    uint64_t row_bytes_ = 0;  // of a partial row
    std::map<Key, Group> groups_;
};

}  // namespace fake
