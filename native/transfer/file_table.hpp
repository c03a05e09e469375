// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// The files of one relation, open for positional reads. Shared by a source and the sources of its dictionaries.
class FileTable {
  public:
    // Opens all; throws kFileNotFound or kFileUnreadable (folders, pipes and the like included).
    explicit FileTable(const std::vector<std::string>& paths);
    ~FileTable();
    FileTable(const FileTable&) = delete;
    FileTable& operator=(const FileTable&) = delete;

    int32_t count() const { return static_cast<int32_t>(files_.size()); }
    const std::string& path(int32_t file) const { return files_[static_cast<size_t>(file)].path; }
    int64_t bytes(int32_t file) const { return files_[static_cast<size_t>(file)].bytes; }
    // Equal as long as nobody wrote to the file or put another one in its place: device, inode, size and times. Empty
    // when it changed so lately that the next change may leave no other times.
    std::string identity(int32_t file) const;
    // Exactly [offset, offset + bytes); throws kFileTruncated when the file has become shorter since it was opened.
    void read(int32_t file, int64_t offset, uint8_t* out, int64_t bytes) const;

  private:
    struct File {
        std::string path;
        int descriptor = -1;
        int64_t bytes = 0;
    };
    void close_all();
    std::vector<File> files_;
};

}  // namespace spillway
