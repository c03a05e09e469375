// SPDX-License-Identifier: Apache-2.0
#include "transfer/batch_header.hpp"

#include <algorithm>
#include <cstring>

#include "transfer/ipc_limits.hpp"

namespace spillway {

namespace {

constexpr int16_t kMetadataV4 = 3;
constexpr int64_t kUncountedHeaderBytes = 64 * 1024;
constexpr int64_t kStructBytes = 16;  // FieldNode and Buffer: two int64 each

// Slots of the tables of Message.fbs.
namespace message_slot {
constexpr int kVersion = 0;
constexpr int kHeaderType = 1;
constexpr int kHeader = 2;
constexpr int kBodyLength = 3;
constexpr int kMetadata = 4;
}  // namespace message_slot
namespace dictionary_slot {
constexpr int kId = 0;
constexpr int kData = 1;
constexpr int kIsDelta = 2;
}  // namespace dictionary_slot
namespace batch_slot {
constexpr int kLength = 0;
constexpr int kNodes = 1;
constexpr int kBuffers = 2;
constexpr int kCompression = 3;
constexpr int kVariadicCounts = 4;
}  // namespace batch_slot

[[noreturn]] void fail_compressed(const MessageView& message, const std::string& codec) {
    throw Error(ErrorCode::kUnsupportedType,
                "'" + message.path() + "' has buffers compressed with " + codec +
                    ", which cannot be read; write it uncompressed (pyarrow: IpcWriteOptions(compression=None); " +
                    "Polars: write_ipc(compression='uncompressed'))",
                {{"path", message.path()}, {"codec", codec}});
}

// Arrow 0.17 said in the metadata of a message that its buffers are compressed, and nowhere else. Read as they lie,
// they may even be long enough for the rows.
void require_no_old_compression(const MessageView& message) {
    const FlatVector pairs = message.vector(message.root(), message_slot::kMetadata, 4);
    for (int64_t i = 0; i < pairs.count; ++i) {
        const int64_t at = pairs.first + 4 * i;
        const FlatTable pair = message.table(at + int64_t{message.load<uint32_t>(at)});
        if (!message.has_text(pair, 0, "ARROW:experimental_compression")) continue;
        const bool is_zstd = message.has_text(pair, 1, "ZSTD") || message.has_text(pair, 1, "zstd");
        fail_compressed(message, is_zstd ? "ZSTD" : "LZ4");
    }
}

void require_uncompressed(const MessageView& message, const MessageHead& head) {
    if (head.version < kMetadataV5) require_no_old_compression(message);
    if (message.field(head.batch, batch_slot::kCompression, 4) == 0) return;
    const FlatTable compression = message.child(head.batch, batch_slot::kCompression, "");
    const auto number = message.number<int8_t>(compression, 0, 0);
    fail_compressed(message, number == 0 ? "LZ4" : number == 1 ? "ZSTD" : "codec " + std::to_string(number));
}

void read_variadic_counts(const MessageView& message, const FlatTable& batch, int64_t buffers, BatchLayout& layout) {
    const FlatVector counts = message.vector(batch, batch_slot::kVariadicCounts, 8);
    layout.variadic_counts.clear();
    for (int64_t i = 0; i < counts.count; ++i) {
        const auto count = message.load<int64_t>(counts.first + 8 * i);
        // Each stands for a buffer of its own: more of them than buffers are as wrong as fewer than none.
        if (count < 0 || count > buffers) message.fail("a view column has an impossible number of buffers");
        layout.variadic_counts.push_back(static_cast<int32_t>(count));
    }
}

// Some writers leave the number of NULLs unknown (below 0): then the bitmap decides, and without one there is none.
void settle_null_counts(const std::vector<NodePlan>& plans, const std::vector<int64_t>& starts, BatchLayout& layout) {
    for (const NodePlan& plan : plans) {
        BatchLayout::Node& node = layout.nodes[static_cast<size_t>(plan.node)];
        if (node.null_count < 0) {
            const bool has_validity = plan.type->layout != Layout::kNull;
            const auto first = static_cast<size_t>(plan.buffer + starts[static_cast<size_t>(plan.variadic)]);
            node.null_count = has_validity && layout.buffers[first].length > 0 ? node.length : 0;
        }
        settle_null_counts(plan.children, starts, layout);
    }
}

}  // namespace

MessagePrefix message_prefix(const uint8_t* metadata, int64_t bytes, const std::string& path) {
    if (bytes < 8) throw damaged_file(path, "a message is shorter than its head");
    uint32_t words[2];
    std::memcpy(words, metadata, sizeof words);
    const bool marked = words[0] == kIpcContinuation;
    const MessagePrefix prefix{marked ? 8 : 4, int64_t{marked ? words[1] : words[0]}};
    if (prefix.flatbuffer_bytes == 0 || prefix.flatbuffer_bytes > bytes - prefix.bytes) {
        throw damaged_file(path, "a message is longer than its block");
    }
    return prefix;
}

MessageHead read_message_head(const MessageView& message) {
    const FlatTable root = message.root();
    MessageHead head;
    head.version = message.number<int16_t>(root, message_slot::kVersion, 0);
    head.type = message.number<uint8_t>(root, message_slot::kHeaderType, 0);
    head.body_bytes = message.number<int64_t>(root, message_slot::kBodyLength, 0);
    const FlatTable header = message.child(root, message_slot::kHeader, "a message has no header");
    if (head.type == MessageHead::kRecordBatch) {
        head.batch = header;
    } else if (head.type == MessageHead::kDictionaryBatch) {
        head.dictionary = message.number<int64_t>(header, dictionary_slot::kId, 0);
        head.is_delta = message.number<uint8_t>(header, dictionary_slot::kIsDelta, 0) != 0;
        head.batch = message.child(header, dictionary_slot::kData, "a dictionary batch has no data");
    } else if (head.type != MessageHead::kSchema) {
        message.fail("message type " + std::to_string(head.type) + " is not part of a table");
    }
    return head;
}

void require_known_version(const MessageView& message, const MessageHead& head, bool has_union) {
    if (head.version < 0) message.fail("its metadata have version " + std::to_string(head.version));
    if (head.version < kMetadataV4) {
        message.refuse("was written by Arrow 0.7 or older, which is not read; write it again with a newer version");
    }
    if (head.version < kMetadataV5 && has_union) {
        message.refuse(
            "has unions in the format of before Arrow 1.0, which is not read; write it again with Arrow 1.0 "
            "or newer, or without these columns");
    }
}

Reservation reserve_layout(MemoryBudget& budget, int64_t metadata_bytes) {
    if (metadata_bytes <= kUncountedHeaderBytes) return {};
    return budget.reserve(2 * static_cast<uint64_t>(metadata_bytes), "metadata of a record batch");
}

void find_variadic_starts(const BatchLayout& layout, std::vector<int64_t>& starts) {
    starts.assign(1, 0);
    for (const int32_t count : layout.variadic_counts) starts.push_back(starts.back() + std::max(count, 0));
}

void read_batch_layout(const MessageView& message, const MessageHead& head, const HeaderShape& shape, int64_t body,
                       int64_t body_bytes, BatchLayout& layout, std::vector<int64_t>& starts) {
    require_uncompressed(message, head);
    const FlatTable& batch = head.batch;
    const FlatVector nodes = message.vector(batch, batch_slot::kNodes, kStructBytes);
    const FlatVector buffers = message.vector(batch, batch_slot::kBuffers, kStructBytes);
    read_variadic_counts(message, batch, buffers.count, layout);
    find_variadic_starts(layout, starts);
    // Counts that nobody's view column stands for are no buffers.
    const bool fits = static_cast<int64_t>(layout.variadic_counts.size()) == shape.counts.variadics;
    const int64_t wanted_buffers = shape.counts.buffers + starts.back();
    if (!fits || nodes.count != shape.counts.nodes || buffers.count != wanted_buffers) {
        message.fail("a batch has " + std::to_string(nodes.count) + " nodes, " + std::to_string(buffers.count) +
                     " buffers and counts of " + std::to_string(layout.variadic_counts.size()) +
                     " view columns, its schema asks for " + std::to_string(shape.counts.nodes) + ", " +
                     std::to_string(wanted_buffers) + " and " + std::to_string(shape.counts.variadics));
    }
    layout.rows = message.number<int64_t>(batch, batch_slot::kLength, 0);
    if (layout.rows < 0) message.fail("a batch has a negative number of rows");
    layout.nodes.clear();
    for (int64_t i = 0; i < nodes.count; ++i) {
        const int64_t at = nodes.first + kStructBytes * i;
        layout.nodes.push_back({message.load<int64_t>(at), message.load<int64_t>(at + 8), 0});
        if (layout.nodes.back().length < 0) message.fail("a column has a negative length");
    }
    layout.buffers.clear();
    for (int64_t i = 0; i < buffers.count; ++i) {
        const int64_t at = buffers.first + kStructBytes * i;
        const auto offset = message.load<int64_t>(at);
        const auto length = message.load<int64_t>(at + 8);
        if (offset < 0 || length < 0 || offset > body_bytes || length > body_bytes - offset) {
            message.fail("a buffer lies outside of its batch");
        }
        layout.buffers.push_back({body + offset, nullptr, length});
    }
    settle_null_counts(shape.plans, starts, layout);
}

}  // namespace spillway
