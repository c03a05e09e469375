// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace spillway {

// Tells a file from the one that was there before: device and inode, where those numbers last, size and time of the
// last write. Not the time of the last change of its attributes: a file with other permissions or another hard link is
// the same file. file_system: the type that statfs() tells.
std::string file_stamp(const struct stat& status, uint32_t file_system);

// The files of one relation, open for positional reads. Shared by a source and the sources of its dictionaries.
class FileTable {
  public:
    // Opens all; throws kFileNotFound or kFileUnreadable (folders, pipes and the like included). stamps: what stamp()
    // told of each file when its layout was read, "" for any, or none at all; throws kFileChanged for another one.
    explicit FileTable(const std::vector<std::string>& paths, const std::vector<std::string>& stamps = {});
    ~FileTable();
    FileTable(const FileTable&) = delete;
    FileTable& operator=(const FileTable&) = delete;

    int32_t count() const { return static_cast<int32_t>(files_.size()); }
    const std::string& path(int32_t file) const { return files_[static_cast<size_t>(file)].path; }
    int64_t bytes(int32_t file) const { return files_[static_cast<size_t>(file)].bytes; }
    // Which file was opened; see file_stamp().
    const std::string& stamp(int32_t file) const { return files_[static_cast<size_t>(file)].stamp; }
    // Equal as long as nobody wrote to the file or put another one in its place: device, inode, size and times. Empty
    // when it changed so lately that the next change may leave no other times.
    std::string identity(int32_t file) const;
    // Exactly [offset, offset + bytes); throws kFileTruncated when the file has become shorter since it was opened, and
    // kFileChanged when it was written to otherwise: what was read may be neither the old bytes nor the new ones.
    void read(int32_t file, int64_t offset, uint8_t* out, int64_t bytes) const;
    // The same for reads that belong together: behind the last one of them require_unwritten() throws kFileChanged, at
    // a call of the system for all of them instead of for each.
    void read_unchecked(int32_t file, int64_t offset, uint8_t* out, int64_t bytes) const;
    void require_unwritten(int32_t file) const;
    // Throws kFileChanged: it does not hold what it held when its layout was read.
    [[noreturn]] void fail_changed(int32_t file) const;

  private:
    struct File {
        std::string path;
        int descriptor = -1;
        int64_t bytes = 0;
        std::string stamp;
        timespec written{};
    };
    void close_all();
    std::vector<File> files_;
};

}  // namespace spillway
