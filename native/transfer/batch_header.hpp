// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/memory_budget.hpp"
#include "transfer/flatbuffer.hpp"
#include "transfer/node_plan.hpp"

namespace spillway {

// What a message of an Arrow file says before its header is read. Numbers are those of Message.fbs.
struct MessageHead {
    static constexpr uint8_t kSchema = 1;
    static constexpr uint8_t kDictionaryBatch = 2;
    static constexpr uint8_t kRecordBatch = 3;

    int16_t version = 0;
    uint8_t type = 0;
    int64_t body_bytes = 0;
    FlatTable batch;         // the record batch, also inside of a dictionary batch
    int64_t dictionary = 0;  // its id
    bool is_delta = false;
};

// Bytes of a message in front of its flatbuffer, and those of the flatbuffer.
struct MessagePrefix {
    int64_t bytes = 0;
    int64_t flatbuffer_bytes = 0;
};

// The metadata of a message as its block has it, `bytes` of them. Files of before 2019 have no continuation marker.
MessagePrefix message_prefix(const uint8_t* metadata, int64_t bytes, const std::string& path);

MessageHead read_message_head(const MessageView& message);

// Refuses the formats of before Arrow 0.8 and, where the schema has unions, of before Arrow 1.0.
void require_known_version(const MessageView& message, const MessageHead& head, bool has_union);

// Nodes and buffers that every batch of a schema has.
struct HeaderShape {
    const std::vector<NodePlan>& plans;  // one per column
    const SchemaCounts& counts;
};

// Memory of the layout of a header of so many bytes, if that counts in a budget: more than 64 KiB do. A node of the
// header has 16 bytes and 24 in a layout; a number of view buffers, 8 and twice 8.
Reservation reserve_layout(MemoryBudget& budget, int64_t metadata_bytes);

// The numbers of data buffers of view columns, added up: starts[k] is that of the buffers before the k-th view node.
void find_variadic_starts(const BatchLayout& layout, std::vector<int64_t>& starts);

// Reads the batch of a message into `layout` (all but its file and dictionaries), with offsets in the file: its body is
// [body, body + body_bytes). Throws kFileCorrupt unless it has just the nodes and buffers of the schema, no negative
// length, and no buffer outside of its body; kUnsupportedType when it is compressed. `starts`: see
// find_variadic_starts. The vectors are filled anew and keep their memory.
void read_batch_layout(const MessageView& message, const MessageHead& head, const HeaderShape& shape, int64_t body,
                       int64_t body_bytes, BatchLayout& layout, std::vector<int64_t>& starts);

}  // namespace spillway
