// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/job_control.hpp"
#include "transfer/file_window.hpp"
#include "transfer/flatbuffer.hpp"

namespace spillway {

// The footer of the Arrow file format, read where it lies: a million batches have a footer of 24 MB.
class FooterBlocks {
  public:
    // One message of the file, as the footer has it.
    struct Block {
        int64_t offset = 0;
        int64_t metadata_bytes = 0;
        int64_t body_bytes = 0;
        int64_t end() const { return offset + metadata_bytes + body_bytes; }
    };
    // A piece of the file.
    struct Range {
        int64_t offset = 0;
        int64_t bytes = 0;
    };

    // Throws kFileTruncated when the footer is missing, kFileCorrupt when it makes no sense.
    FooterBlocks(const FileTable& files, int32_t file, MemoryBudget& budget);

    int64_t dictionaries() const { return dictionaries_.count; }
    int64_t count() const { return dictionaries_.count + records_.count; }
    // Dictionaries come first. Throws kFileCorrupt and kFileTruncated for a block that lies in no file. Fast for one
    // after the other.
    Block block(int64_t index);
    // Throws kFileCorrupt when two blocks share a byte: a small footer could else name the same rows over and over.
    // Takes 16 bytes per block from the budget where blocks do not lie in the file as the footer lists them.
    void require_disjoint(const JobControl& control);

    // The footer, and the parts of it that are lists of blocks: whoever wants its schema can leave them out.
    Range footer() const { return footer_; }
    Range dictionary_list() const { return list(dictionaries_); }
    Range record_list() const { return list(records_); }

  private:
    bool are_ascending(const JobControl& control);
    void sort_and_compare(const JobControl& control);
    Block read(FileWindow& window, int64_t index) const;
    Range list(const FlatVector& vector) const;

    const FileTable& files_;
    const int32_t file_;
    MemoryBudget& budget_;
    FileWindow dictionary_window_;
    FileWindow record_window_;
    Range footer_;
    FlatVector dictionaries_;
    FlatVector records_;
};

}  // namespace spillway
