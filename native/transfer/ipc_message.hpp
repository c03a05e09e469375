// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// Arrow IPC metadata of record and dictionary batches. The two message shapes have no optional part, so their
// flatbuffers are laid out by fixed offsets and need neither a library nor a builder. Schema: Message.fbs of the
// Arrow format, version 5 (V5: no validity buffer for unions).

struct IpcFieldNode {
    int64_t length = 0;
    int64_t null_count = 0;
};

struct IpcBuffer {
    int64_t offset = 0;  // from the begin of the body
    int64_t length = 0;  // without padding
};

struct IpcRecordBatch {
    int64_t rows = 0;
    std::vector<IpcFieldNode> nodes;  // pre-order
    std::vector<IpcBuffer> buffers;
    int64_t body_bytes = 0;  // with padding
};

// Every message of a file begins and ends at a multiple of this, and so does every buffer: readers that map the file
// get what the format recommends for SIMD.
constexpr int64_t kIpcAlignment = 64;

inline int64_t ipc_padded(int64_t bytes) {
    return (bytes + kIpcAlignment - 1) / kIpcAlignment * kIpcAlignment;
}

// Encapsulated: continuation marker, metadata length, flatbuffer, padding to a multiple of kIpcAlignment.
std::vector<uint8_t> encode_record_batch_message(const IpcRecordBatch& batch);
std::vector<uint8_t> encode_dictionary_message(int64_t dictionary_id, bool is_delta, const IpcRecordBatch& values);

// Grows the padding of an encapsulated message that will stand at `position` of the file, so that it ends at a multiple
// of kIpcAlignment. The padding is counted in the message, since a gap between messages reads as the end of the stream.
// Throws kInternal when `message` has no well-formed prefix.
void align_message_end(std::vector<uint8_t>& message, int64_t position);

}  // namespace spillway
