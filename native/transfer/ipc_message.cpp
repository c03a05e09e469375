// SPDX-License-Identifier: Apache-2.0
#include "transfer/ipc_message.hpp"

#include <bit>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "transfer/ipc_limits.hpp"

namespace spillway {

static_assert(std::endian::native == std::endian::little, "flatbuffers and Arrow bodies are written as they lie");

namespace {

constexpr uint8_t kHeaderDictionaryBatch = 2;
constexpr uint8_t kHeaderRecordBatch = 3;

// Appends front to back: every offset in a flatbuffer points forward from where it stands (only a table's offset to
// its vtable is signed), so an offset is written as 0 and patched when its target is placed.
class FlatWriter {
  public:
    template <class T>
    size_t put(T value) {
        const size_t position = bytes_.size();
        bytes_.resize(position + sizeof value);
        std::memcpy(bytes_.data() + position, &value, sizeof value);
        return position;
    }
    void align(size_t alignment, size_t remainder = 0) {
        while (bytes_.size() % alignment != remainder) bytes_.push_back(0);
    }
    void point(size_t offset_position) {
        const auto distance = static_cast<uint32_t>(bytes_.size() - offset_position);
        std::memcpy(bytes_.data() + offset_position, &distance, sizeof distance);
    }
    // Places vtable and table begin; slots: byte position of each field in the table, 0 = absent. The table begins
    // 8-aligned, so that 8-byte fields sit at multiples of 8 inside it. `reference` points to the table.
    void begin_table(size_t reference, uint16_t table_bytes, std::initializer_list<uint16_t> slots) {
        const size_t vtable_bytes = 4 + 2 * slots.size();
        align(8, (8 - vtable_bytes % 8) % 8);
        put(static_cast<uint16_t>(vtable_bytes));
        put(table_bytes);
        for (const uint16_t slot : slots) put(slot);
        point(reference);
        put(static_cast<int32_t>(vtable_bytes));
    }
    // A vector of 16-byte structs: the count stands right before the first struct, which must be 8-aligned.
    template <class Struct>
    void put_structs(size_t reference, const std::vector<Struct>& structs) {
        static_assert(sizeof(Struct) == 16);
        align(8, 4);
        point(reference);
        put(static_cast<uint32_t>(structs.size()));
        const size_t position = bytes_.size();
        bytes_.resize(position + structs.size() * sizeof(Struct));
        if (!structs.empty()) std::memcpy(bytes_.data() + position, structs.data(), structs.size() * sizeof(Struct));
    }
    std::vector<uint8_t> take() { return std::move(bytes_); }

  private:
    std::vector<uint8_t> bytes_;
};

// Message: version (slot 0), header type (1), header (2), bodyLength (3). Returns where the header offset stands.
size_t put_message(FlatWriter& writer, uint8_t header_type, int64_t body_bytes) {
    const size_t root = writer.put(uint32_t{0});
    writer.begin_table(root, 20, {16, 18, 4, 8});
    const size_t header = writer.put(uint32_t{0});  // at 4
    writer.put(body_bytes);                         // at 8
    writer.put(kMetadataV5);                        // at 16
    writer.put(header_type);                        // at 18
    writer.put(uint8_t{0});
    return header;
}

// RecordBatch: length (0), nodes (1), buffers (2).
void put_record_batch(FlatWriter& writer, size_t reference, const IpcRecordBatch& batch) {
    writer.begin_table(reference, 24, {8, 4, 16});
    const size_t nodes = writer.put(uint32_t{0});    // at 4
    writer.put(batch.rows);                          // at 8
    const size_t buffers = writer.put(uint32_t{0});  // at 16
    writer.put(uint32_t{0});
    writer.put_structs(nodes, batch.nodes);
    writer.put_structs(buffers, batch.buffers);
}

std::vector<uint8_t> encapsulate(FlatWriter& writer) {
    const std::vector<uint8_t> flatbuffer = writer.take();
    const int64_t total = ipc_padded(kIpcPrefixBytes + static_cast<int64_t>(flatbuffer.size()));
    SPILLWAY_CHECK(total <= std::numeric_limits<int32_t>::max());
    const auto metadata_bytes = static_cast<int32_t>(total - kIpcPrefixBytes);
    std::vector<uint8_t> message(static_cast<size_t>(total));
    std::memcpy(message.data(), &kIpcContinuation, 4);
    std::memcpy(message.data() + 4, &metadata_bytes, 4);
    std::memcpy(message.data() + kIpcPrefixBytes, flatbuffer.data(), flatbuffer.size());
    return message;
}

}  // namespace

std::vector<uint8_t> encode_record_batch_message(const IpcRecordBatch& batch) {
    FlatWriter writer;
    put_record_batch(writer, put_message(writer, kHeaderRecordBatch, batch.body_bytes), batch);
    return encapsulate(writer);
}

std::vector<uint8_t> encode_dictionary_message(int64_t dictionary_id, bool is_delta, const IpcRecordBatch& values) {
    FlatWriter writer;
    const size_t header = put_message(writer, kHeaderDictionaryBatch, values.body_bytes);
    writer.begin_table(header, 20, {8, 4, 16});   // id (0), data (1), isDelta (2)
    const size_t data = writer.put(uint32_t{0});  // at 4
    writer.put(dictionary_id);                    // at 8
    writer.put(uint32_t{is_delta ? 1u : 0u});     // at 16: one byte used
    put_record_batch(writer, data, values);
    return encapsulate(writer);
}

void align_message_end(std::vector<uint8_t>& message, int64_t position) {
    uint32_t continuation = 0;
    int32_t metadata_bytes = 0;
    SPILLWAY_CHECK(message.size() >= static_cast<size_t>(kIpcPrefixBytes));
    std::memcpy(&continuation, message.data(), 4);
    std::memcpy(&metadata_bytes, message.data() + 4, 4);
    SPILLWAY_CHECK(continuation == kIpcContinuation && metadata_bytes > 0);
    SPILLWAY_CHECK(message.size() == static_cast<size_t>(kIpcPrefixBytes + metadata_bytes));
    const int64_t total = ipc_padded(position + kIpcPrefixBytes + metadata_bytes) - position;
    metadata_bytes = static_cast<int32_t>(total - kIpcPrefixBytes);
    message.resize(static_cast<size_t>(total));
    std::memcpy(message.data() + 4, &metadata_bytes, 4);
}

}  // namespace spillway
