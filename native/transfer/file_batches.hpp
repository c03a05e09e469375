// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/job_control.hpp"
#include "memory/counted_array.hpp"
#include "model/column_type.hpp"

namespace spillway {

// Where a file has the message of a batch. The rest of its metadata is read again when a reader turns to the batch: it
// lies right before the rows, and its size grows with the number of columns.
struct BatchPlace {
    int64_t offset = 0;
    int32_t metadata_bytes = 0;  // prefix, flatbuffer and padding
    int32_t dictionaries = 0;    // record batches: which set of FileBatches::dictionary_sets applies
};

// The batches of one or several files in the order of their rows: 24 bytes for each.
class BatchPlaces {
  public:
    explicit BatchPlaces(const char* purpose) : places_(purpose), first_rows_(purpose) {}

    void reserve(MemoryBudget& budget, int64_t batches);
    // What is added from now on lies in this file (index into FileBatches::paths).
    void begin_file(int32_t file);
    // Returns false when there would be more than 2^63 rows.
    bool add(MemoryBudget& budget, const BatchPlace& place, int64_t rows);
    void fit(MemoryBudget& budget);

    int64_t count() const { return static_cast<int64_t>(places_.size()); }
    int64_t rows() const { return rows_; }
    const BatchPlace& operator[](int64_t batch) const { return places_[static_cast<size_t>(batch)]; }
    // Row number of the batch's row 0; batch == count(): all rows.
    int64_t first_row(int64_t batch) const {
        return batch == count() ? rows_ : first_rows_[static_cast<size_t>(batch)];
    }
    struct Number {
        int32_t file = 0;
        int64_t number = 0;  // of the batch in its file
    };
    Number number(int64_t batch) const;
    // These belong to the batch that is added next.
    int64_t next_number() const { return count() - files_.back().batch; }
    // Bytes to the message of the next batch in the same file; 0 when it lies elsewhere.
    int64_t extent(int64_t batch) const;
    uint64_t counted_bytes() const { return places_.counted_bytes() + first_rows_.counted_bytes(); }

  private:
    struct FileBegin {
        int64_t batch = 0;
        int32_t file = 0;
    };
    std::vector<FileBegin> files_;
    CountedArray<BatchPlace> places_;
    CountedArray<int64_t> first_rows_;
    int64_t rows_ = 0;
};

// All batches of a relation of files. The memory stays reserved in the budget that they were opened with, and grows
// with the number of batches, not with that of columns.
struct FileBatches {
    // The dictionary batches of one id in one file. A stream may replace a dictionary: each version is a run of batches
    // (one, and deltas that extend it).
    struct Values {
        TypePtr type;
        BatchPlaces places{"places of dictionary batches"};
        CountedArray<int32_t> versions{"versions of dictionaries"};  // first batch of each
    };
    // Which versions hold for a record batch: one number per dictionary node of the schema in pre-order, -1 where the
    // dictionary has not come (every row is NULL). Record batches share a set until a dictionary is replaced.
    struct FileSets {
        int64_t first_set = 0;
        std::vector<int32_t> values_of_node;  // which of `values` each dictionary node has
    };

    std::vector<std::string> paths;
    std::vector<std::string> stamps;
    BatchPlaces records{"places of record batches"};
    std::vector<Values> values;
    std::vector<FileSets> files;  // as many as paths
    int32_t dictionary_nodes = 0;
    CountedArray<int32_t> dictionary_sets{"dictionaries of record batches"};

    int64_t set_count() const {
        return dictionary_nodes == 0 ? 0 : static_cast<int64_t>(dictionary_sets.size()) / dictionary_nodes;
    }
    int32_t version_of(int64_t set, int32_t node) const {
        return dictionary_sets[static_cast<size_t>(set) * static_cast<size_t>(dictionary_nodes) +
                               static_cast<size_t>(node)];
    }
    uint64_t counted_bytes() const;
};

// What the headers of a relation's batches tell of it.
struct FileFacts {
    int64_t rows = 0;
    int64_t largest_batch_rows = 0;
    std::vector<int64_t> column_bytes;
    std::vector<int64_t> dictionary_bytes;  // of the dictionaries of each column; a shared one counts once
    std::vector<int64_t> dictionary_rows;
    std::vector<uint8_t> node_has_nulls;  // per field node in pre-order; by its dictionary too
};

struct FileBatchesSpec {
    struct File {
        std::string path;
        std::string stamp;       // see FileTable
        bool is_stream = false;  // else file format
        int64_t begin = 0;       // stream: behind the schema
        bool has_union = false;
        std::vector<int64_t> dictionary_ids;  // one per dictionary node in pre-order
    };
    std::vector<TypePtr> columns;
    std::vector<File> files;
};

// Finds the batches of the files, by the footer of the file format or message by message of a stream, and checks every
// header: what passes can be read without a look outside of its file. Throws kFileCorrupt, kFileTruncated and
// kFileChanged naming the file, kUnsupportedType for compressed bodies, and kBudgetTooSmall when the budget has no room
// for the places of so many batches.
FileBatches open_file_batches(const FileBatchesSpec& spec, MemoryBudget& budget, const JobControl& control,
                              FileFacts& facts);

}  // namespace spillway
