// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "transfer/file_window.hpp"
#include "transfer/source_parts.hpp"

namespace spillway {

// The batch that one reader is at. The header of a batch in a file is read, and checked, when the reader turns to it.
class BatchCursor {
  public:
    BatchCursor(const SourceSpec& spec, const SourceParts& parts, MemoryBudget& budget);

    // Valid until the next call. Throws kFileCorrupt, kFileChanged or kFileTruncated where the file does not hold what
    // it held when it was opened.
    const BatchPosition& at(int64_t batch);
    // Small batches are read with their neighbours: where the bytes of a file lie if they are in memory, else nullptr.
    const uint8_t* in_memory(int32_t file, int64_t offset, int64_t bytes);

  private:
    void read_header(int64_t batch);

    const SourceSpec& spec_;
    const SourceParts& parts_;
    MemoryBudget& budget_;
    FileWindow window_;
    Reservation layout_bytes_;
    int64_t batch_ = -1;
    BatchPosition position_;
    BatchLayout layout_;  // of a batch in a file
    std::vector<int64_t> starts_;
    std::vector<DictionaryRef> dictionaries_;
};

}  // namespace spillway
