// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/job_control.hpp"
#include "memory/memory_budget.hpp"
#include "model/column_view.hpp"

namespace spillway {

// One Arrow record batch (or dictionary batch) as the IPC format lays it out: field nodes and buffers of all columns
// in pre-order. Buffers of file batches are absolute file offsets; of memory batches, addresses.
struct BatchLayout {
    struct Node {
        int64_t length = 0;
        int64_t null_count = 0;
        int64_t bit_offset = 0;  // memory batches: bits to skip in validity (and kBool data); else 0
    };
    struct Region {
        int64_t offset = 0;                // file offset
        const uint8_t* pointer = nullptr;  // or address; nullptr with length 0 = absent
        int64_t length = 0;                // bytes
    };
    int32_t file = -1;  // index into SourceSpec::paths; -1 = memory
    int64_t rows = 0;
    std::vector<Node> nodes;
    std::vector<Region> buffers;
    std::vector<int32_t> variadic_counts;  // kView columns, in pre-order: number of data buffers
    // kDictionary nodes, in pre-order: index into SourceSpec::dictionaries; -1 = the file has none (every row NULL)
    std::vector<int32_t> dictionaries;
};

// Index types of dictionary columns: byte_width 1, 2, 4 or 8, signed unless ColumnType::order is kUnsigned.
struct DictionarySpec {
    TypePtr value_type;
    std::vector<BatchLayout> batches;  // in order; later ones are deltas appended to the earlier
};

struct FileBatches;  // file_batches.hpp

// Dictionaries that a dictionary node goes through before any other, in this order: sources whose nodes share a list
// give equal values equal indices.
struct DictionaryLink {
    // Those that a dictionary node of `files` meets, in the order of its batches; without files those of the
    // SourceSpec.
    struct Part {
        std::shared_ptr<const FileBatches> files;
        int32_t node = 0;
        std::vector<int32_t> dictionaries;
    };
    int32_t node = 0;  // in pre-order over the columns
    std::vector<Part> parts;
};

struct SourceSpec {
    std::vector<TypePtr> columns;
    // Batches whose layout is known: those in memory, and those of `paths`.
    std::vector<std::string> paths;
    std::vector<std::string> stamps;  // which files the layout is of (FileTable::stamp); empty: whichever are there
    std::vector<BatchLayout> batches;
    std::vector<DictionarySpec> dictionaries;
    // Batches of files that follow, whose layouts are read when a reader turns to them. May be nullptr.
    std::shared_ptr<const FileBatches> files;
    std::vector<DictionaryLink> links;
    int64_t rows_max = INT64_MAX;  // of all batches: the first ones
};

class BatchPlaces;
class FileTable;
struct SourceParts;

// A relation that can be read any number of times, from any number of workers. Opens files at construction and checks
// that they are those of the layout (kFileChanged), that every buffer lies inside its file (kFileTruncated) and is long
// enough for its rows (kFileCorrupt). Batches of SourceSpec::files were checked when these were opened, and are again
// when they are read.
class Source {
  public:
    explicit Source(SourceSpec spec);
    ~Source();
    // As SourceReader hands them out: dictionary nodes (nested ones too) have int32 indices and their `dictionary` set.
    // The types never change, so that jobs may share a source; what a Dictionary holds is filled in by
    // load_dictionaries and must not be looked at before.
    const std::vector<TypePtr>& columns() const { return columns_; }
    int64_t rows() const { return rows_; }
    int64_t batch_count() const;
    int64_t batch_rows(int64_t batch) const;
    int64_t first_row(int64_t batch) const;  // row number of the batch's row 0

    // Reads and unifies the dictionaries of these columns (nested ones too) once; later calls return at once. The
    // memory stays reserved in `budget` while the Source lives. Thread-safe.
    void load_dictionaries(const std::vector<int32_t>& columns, MemoryBudget& budget, const JobControl& control);
    // The unified dictionary of a node: path = column, then child indices. Load the column's dictionaries first.
    std::shared_ptr<const Dictionary> dictionary(const std::vector<int32_t>& path) const;

  private:
    friend class SourceReader;
    Source(SourceSpec spec, std::unique_ptr<SourceParts> parts);
    void open();
    void check_batches();
    void keep_first_rows();
    int64_t all_batches() const;
    void open_values();
    SourceSpec spec_;
    std::vector<TypePtr> columns_;
    std::vector<int64_t> first_rows_;  // of spec_.batches, and of what follows
    int64_t rows_ = 0;
    int64_t batches_ = 0;                 // that have any of these
    std::unique_ptr<SourceParts> parts_;  // files, positions of each node, dictionary remap tables
};

// The last batch that begins at or before this row: the one that has it, if the row exists.
inline int64_t batch_of(const Source& source, int64_t row) {
    int64_t low = 0;
    for (int64_t high = source.batch_count(); high - low > 1;) {
        const int64_t middle = low + (high - low) / 2;
        (source.first_row(middle) <= row ? low : high) = middle;
    }
    return low;
}

// What readers do with those buffers of memory batches that say where values are: offsets, views, dictionary indices,
// type ids and validity.
enum class MemoryStructure : uint8_t {
    // Into the reader's memory before they are checked: what was checked is what is used, whatever JS (or a thread that
    // a buffer was transferred to) writes there meanwhile. 4 of the 12 bytes and more that a row with a string takes.
    kCopied,
    // Read where they lie: for columns of which every row is held at a time. JS must not write to them.
    kBorrowed
};

// One worker's way to read slices of batches. File rows come by pread into buffers of the reader (never a mapping: a
// file truncated while it is read must be an error and not SIGBUS); values in memory are borrowed without a copy.
class SourceReader {
  public:
    // columns: which columns of the source, in the order of the views returned. Their dictionaries must be loaded.
    SourceReader(const Source& source, std::vector<int32_t> columns, MemoryBudget& budget, JobControl& control,
                 MemoryStructure structure = MemoryStructure::kCopied);
    ~SourceReader();
    // Rows [row, row + rows) of a batch. The views live until the next read(). Validates what it hands out: offsets
    // monotone and inside their data, union ids known, dictionary indices in range, views inside their buffers
    // (kFileCorrupt). Adds bytes read to control.bytes_in. The reader's buffers only grow, so that slices of about the
    // same size need no allocation.
    const std::vector<ColumnView>& read(int64_t batch, int64_t row, int64_t rows);
    // How many rows from `row` on (1 .. rows; 0 only for rows = 0) need at most max_bytes of memory as a slice, judged
    // by offsets alone: a constant for fixed-width columns, two small reads per string or list column otherwise.
    // Readers of relations with long values ask before read().
    int64_t rows_within(int64_t batch, int64_t row, int64_t rows, uint64_t max_bytes);
    // Bytes of the strings of these rows in one of the reader's columns (kBinary: of NULLs too), judged by offsets or
    // views alone.
    uint64_t value_bytes(size_t column, int64_t batch, int64_t row, int64_t rows);
    // Bytes of the longest of those strings, judged by all of the offsets or views.
    uint64_t longest_value(size_t column, int64_t batch, int64_t row, int64_t rows);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

struct Morsel {
    int64_t batch = 0;
    int64_t row = 0;  // inside the batch
    int64_t rows = 0;
    int64_t share_end = 0;  // MorselQueue: pieces that begin before this row of the source are the same worker's
};

// Hands out the rows of a source in pieces of at most morsel_rows of one batch, each once. Thread-safe. Workers take
// them in shares: those that begin within the same morsel_rows rows of the source, so that small batches, which lie
// one behind the other in their file, go to the same worker.
class MorselQueue {
  public:
    MorselQueue(const Source& source, int64_t morsel_rows);
    // morsel: the last one that this worker was handed, or a new one.
    bool next(Morsel& morsel);

  private:
    bool first_of_share(int64_t share, Morsel& morsel) const;
    bool take_batch(int64_t batch, Morsel& morsel) const;

    const Source& source_;
    const int64_t morsel_rows_;
    const int64_t shares_;
    std::atomic<int64_t> next_{0};
};

}  // namespace spillway
