// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "staged_group_by/group_shape.hpp"
#include "stream/result_writer.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Groups on their way out, as columns of the result.
class GroupWriter {
  public:
    GroupWriter(Device& device, const GroupShape& shape, bool has_presence, uint32_t slots, uint64_t rows);

    // nullptr: groups are counted and not written.
    void set_sink(ResultSink* sink) {
        has_sink_ = sink != nullptr;
        writer_.set_sink(sink);
    }
    // Partial rows that are whole groups. Enqueued on the device's stream.
    void write(const GroupByResult& groups, bool has_key);
    // Until all have been delivered.
    void finish() { writer_.finish(); }

    uint64_t groups() const { return groups_; }
    uint64_t copied_bytes() const { return writer_.copied_bytes(); }

    // The columns of the result, without data.
    static ResultWindow columns_of(const GroupShape& shape, bool has_presence);

  private:
    Device& device_;
    const GroupShape& shape_;
    const bool has_presence_;
    bool has_sink_ = false;
    ResultWriter writer_;
    uint64_t groups_ = 0;
};

}}  // namespace spillway::cuda::staged_group_by
