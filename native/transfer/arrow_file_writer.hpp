// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/job_control.hpp"
#include "model/output_batch.hpp"
#include "transfer/partial_file.hpp"

namespace spillway {

// Position of one message in the file, for the footer.
struct FileBlock {
    int64_t offset = 0;
    int32_t metadata_bytes = 0;
    int64_t body_bytes = 0;
};

// Writes an Arrow IPC file. The schema message and the footer are flatbuffers made in TypeScript (Arrow JS knows every
// logical type); record and dictionary batch messages are encoded here. The file appears under its name only when
// finish() has succeeded: until then it is an unnamed file in the same folder (O_TMPFILE; else a hidden
// .spillway-<pid>-..-<n>.partial that the destructor removes). Thread-safe: batches are appended in call order.
class ArrowFileWriter {
  public:
    // schema_message: encapsulated schema message (with its length prefix), written after the magic.
    // make_room: see PartialFile. Throws kOutputFailed / kOutputExists (when overwrite is false).
    ArrowFileWriter(std::string path, std::vector<uint8_t> schema_message, bool overwrite, JobControl& control,
                    std::function<bool()> make_room = nullptr);
    // A file without a name, for rows that nobody but this process reads (PartialFile::Nameless).
    ArrowFileWriter(const PartialFile::Nameless& where, std::vector<uint8_t> schema_message, JobControl& control,
                    std::function<bool()> make_room);
    ~ArrowFileWriter();  // not finished: nothing is left
    ArrowFileWriter(const ArrowFileWriter&) = delete;

    // The first batch of an id is the dictionary, later ones are deltas appended to it.
    void write_dictionary(int64_t dictionary_id, const OutputBatch& values);
    void write(const OutputBatch& batch);
    // Written in order of the calls.
    std::vector<FileBlock> dictionary_blocks() const;
    std::vector<FileBlock> record_blocks() const;
    uint64_t bytes_written() const;
    // footer: flatbuffer bytes; adds end-of-stream marker, length and magic, makes the file durable in name.
    void finish(const std::vector<uint8_t>& footer);
    // This process can open the file by it after finish(): its path, or a way to it while the writer lives.
    std::string way() const;
    // After finish(): descriptor of the file that was replaced, to be closed by the caller when it has time; else -1.
    int take_replaced();

  private:
    struct State;
    void begin(std::vector<uint8_t>&& schema_message);
    std::unique_ptr<State> state_;
};

}  // namespace spillway
