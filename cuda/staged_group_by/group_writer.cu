// SPDX-License-Identifier: Apache-2.0
#include "staged_group_by/group_writer.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

static_assert(kGroupColumnsMax <= kResultColumnsMax, "columns of a result buffer");

ResultWindow GroupWriter::columns_of(const GroupShape& shape, bool has_presence) {
    ResultWindow window;
    window.key_bytes = shape.key_bytes;
    window.column[window.columns++].width = static_cast<uint16_t>(shape.key_bytes);
    if (has_presence) window.column[window.columns++].width = 1;
    for (const ResultField& field : shape.fields) {
        window.column[window.columns++].width = static_cast<uint16_t>(field.width);
    }
    return window;
}

GroupWriter::GroupWriter(Device& device, const GroupShape& shape, bool has_presence, uint32_t slots, uint64_t rows)
    : device_(device),
      shape_(shape),
      has_presence_(has_presence),
      writer_(device, columns_of(shape, has_presence), slots, rows) {}

void GroupWriter::write(const GroupByResult& groups, bool has_key) {
    groups_ += groups.groups;
    if (!has_sink_) return;
    GroupsToWrite pass;
    pass.has_key = has_key ? 1 : 0;
    GroupColumn& key = pass.column[pass.columns++];
    key.from = has_key ? groups.keys.as() : nullptr;
    key.width = shape_.key_bytes;
    if (has_presence_) {
        GroupColumn& presence = pass.column[pass.columns++];
        presence.field = GroupField::kPresence;
        presence.width = 1;
    }
    for (const ResultField& field : shape_.fields) {
        GroupColumn& column = pass.column[pass.columns++];
        column.field = field.field;
        column.width = field.width;
        column.from = groups.values[field.partial].as();
        if (field.field != GroupField::kCopy) column.counts = groups.values[field.counts].as<const uint64_t>();
    }
    writer_.write(groups.groups, [&](const ResultWindow& window) {
        pass.first = window.first;
        pass.rows = window.rows;
        for (int32_t c = 0; c < pass.columns; ++c) pass.column[c].to = window.column[c].data;
        write_groups(device_, pass);
    });
}

}}  // namespace spillway::cuda::staged_group_by
