// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/test_relation.hpp"
#include "transfer/file_batches.hpp"
#include "transfer/file_table.hpp"
#include "transfer/ipc_message.hpp"

// Arrow files with messages, blocks and all, for tests of what reads them.
namespace spillway::test {

class IpcFile {
  public:
    struct Block {
        int64_t offset = 0;
        int64_t metadata_bytes = 0;
        int64_t body_bytes = 0;
    };

    // stream: with a message per batch from byte 8 on; else a footer lists them.
    explicit IpcFile(bool stream) { spec.is_stream = stream, spec.begin = 8; }

    // layout: of a batch in memory, without view columns.
    void add_records(const BatchLayout& layout) {
        records.push_back(append(encode_record_batch_message(message_of(layout)), body_of(layout)));
    }
    void add_dictionary(int64_t id, bool is_delta, const BatchLayout& layout) {
        dictionaries.push_back(append(encode_dictionary_message(id, is_delta, message_of(layout)), body_of(layout)));
    }
    // Ends the file; spec is ready then.
    void finish() {
        const uint32_t end_of_stream[2] = {0xFFFFFFFFu, 0};
        append_words(end_of_stream, 2);
        if (!spec.is_stream) append_footer();
        spec.path = file.path();
        spec.stamp = FileTable({file.path()}).stamp(0);
    }

    // The bytes of a message, without a file.
    static IpcRecordBatch message_of(const BatchLayout& layout) {
        IpcRecordBatch batch;
        batch.rows = layout.rows;
        for (const BatchLayout::Node& node : layout.nodes) batch.nodes.push_back({node.length, node.null_count});
        for (const BatchLayout::Region& region : layout.buffers) {
            batch.buffers.push_back({batch.body_bytes, region.length});
            batch.body_bytes += (region.length + 7) / 8 * 8;
        }
        return batch;
    }

    TestFile file;
    FileBatchesSpec::File spec;
    std::vector<Block> records;
    std::vector<Block> dictionaries;

  private:
    static Bytes body_of(const BatchLayout& layout) {
        Bytes body;
        for (const BatchLayout::Region& region : layout.buffers) {
            body.insert(body.end(), region.pointer, region.pointer + region.length);
            body.resize((body.size() + 7) / 8 * 8);
        }
        return body;
    }
    Block append(const Bytes& message, const Bytes& body) {
        const int64_t offset = file.append(message);
        if (!body.empty()) file.append(body);
        return {offset, static_cast<int64_t>(message.size()), static_cast<int64_t>(body.size())};
    }
    void append_words(const uint32_t* words, size_t count) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(words);
        file.append(Bytes(bytes, bytes + 4 * count));
    }

    static void put_list(Bytes& footer, size_t reference, const std::vector<Block>& blocks) {
        const auto distance = static_cast<uint32_t>(footer.size() - reference);
        std::memcpy(footer.data() + reference, &distance, 4);
        const auto count = static_cast<uint32_t>(blocks.size());
        const auto* bytes = reinterpret_cast<const uint8_t*>(&count);
        footer.insert(footer.end(), bytes, bytes + 4);
        for (const Block& block : blocks) {
            bytes = reinterpret_cast<const uint8_t*>(&block);
            footer.insert(footer.end(), bytes, bytes + sizeof block);
        }
    }
    // Table at 16, its vtable at 4, without a schema.
    void append_footer() {
        Bytes footer{16, 0, 0, 0, 12, 0, 12, 0, 0, 0, 0, 0, 4, 0, 8, 0, 12, 0, 0, 0};
        footer.resize(28);
        put_list(footer, 20, dictionaries);
        put_list(footer, 24, records);
        const auto bytes = static_cast<uint32_t>(footer.size());
        const auto* length = reinterpret_cast<const uint8_t*>(&bytes);
        footer.insert(footer.end(), length, length + 4);
        for (const char letter : {'A', 'R', 'R', 'O', 'W', '1'}) footer.push_back(static_cast<uint8_t>(letter));
        file.append(footer);
    }
};

// A relation of test values in one such file, opened.
struct IpcRelation : TestRelation {
    IpcRelation(uint64_t seed, bool stream) : TestRelation(seed), ipc(stream) {}

    // Batches that were added in memory become messages, each with dictionaries of its own in front of it.
    void write() {
        int64_t ids = 0;
        for (BatchLayout& batch : spec.batches) {
            ids = static_cast<int64_t>(batch.dictionaries.size());
            for (size_t id = 0; id < batch.dictionaries.size(); ++id) {
                const DictionarySpec& dictionary = spec.dictionaries[static_cast<size_t>(batch.dictionaries[id])];
                for (size_t i = 0; i < dictionary.batches.size(); ++i) {
                    ipc.add_dictionary(static_cast<int64_t>(id), i > 0, dictionary.batches[i]);
                }
            }
            ipc.add_records(batch);
        }
        ipc.finish();
        for (int64_t id = 0; id < ids; ++id) ipc.spec.dictionary_ids.push_back(id);
        spec.batches.clear();
        spec.dictionaries.clear();
    }
    FileBatches find_batches() { return open_file_batches({spec.columns, {ipc.spec}}, budget, control, facts); }
    Source& open_ipc() {
        spec.files = std::make_shared<FileBatches>(find_batches());
        return open();
    }

    IpcFile ipc;
    FileFacts facts;
};

// The file as it was written last, whatever was written since.
class KeptTimes {
  public:
    explicit KeptTimes(const std::string& path) : path_(path) { ::stat(path.c_str(), &status_); }
    void restore() const {
        const timespec times[2] = {status_.st_atim, status_.st_mtim};
        ::utimensat(AT_FDCWD, path_.c_str(), times, 0);
    }

  private:
    std::string path_;
    struct stat status_ {};
};

}  // namespace spillway::test
