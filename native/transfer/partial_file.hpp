// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/job_control.hpp"

namespace spillway {

// An output file that has no name until publish(): a reader sees the whole result or what was there before. Unnamed
// (O_TMPFILE), so that even SIGKILL leaves nothing; where that or naming it later is not possible, a hidden
// .spillway-<pid>-..-<n>.partial beside the target, removed by the destructor.
class PartialFile {
  public:
    enum class Naming { kUnnamedIfPossible, kHidden /* tests */ };

    // make_room: called when the disk is full; true when it has freed some of it, and the write is tried again.
    using MakeRoom = std::function<bool()>;

    // Throws kOutputExists (target there, overwrite false) or kOutputFailed (folder missing or not writable, target not
    // a regular file or behind a link that may not be followed), kDiskFull.
    PartialFile(const std::string& path, bool overwrite, Naming naming = Naming::kUnnamedIfPossible,
                MakeRoom make_room = nullptr);
    // A file that never gets a name, made as spill files are (memory/spill_space.hpp): publish() leaves it without one,
    // and it goes with this object. It and write() throw what SpillFile throws.
    struct Nameless {
        std::string directory;
    };
    PartialFile(const Nameless& where, MakeRoom make_room);
    ~PartialFile();
    PartialFile(const PartialFile&) = delete;
    PartialFile& operator=(const PartialFile&) = delete;

    // Writes all pieces one behind the other from `offset` on; leaves `pieces` changed. Thread-safe. Throws kDiskFull,
    // kOutputFailed, or kAborted between system calls.
    void write(int64_t offset, std::vector<iovec>& pieces, const JobControl& control);
    // Gives the file its name; atomic. Without overwrite, throws kOutputExists when the name was taken meanwhile.
    void publish();
    // This process can open the file by it: its path, or a way to it while this object lives.
    std::string way() const;
    // Descriptor of the file that publish() replaced, or -1; the caller closes it. Its pages go with the last
    // descriptor, which for a file of 160 MB takes 50 ms that nobody need wait for.
    int take_replaced() { return std::exchange(replaced_, -1); }

  private:
    void check_target(bool overwrite);
    void keep_mode();
    bool open_unnamed();
    void open_hidden();
    void publish_unnamed();
    void publish_hidden();
    void rename_hidden(bool replace);
    void allocate(int64_t end) noexcept;
    void free_unused() noexcept;
    Error failure(int error_number, const char* doing) const;
    Error exists() const;

    std::string path_;         // as the user named it, for messages
    std::string name_;         // inside the folder
    std::string hidden_name_;  // empty = none on disk
    const bool overwrite_;
    const MakeRoom make_room_;
    std::optional<unsigned> mode_;  // of the file that will be replaced
    int folder_ = -1;               // every later call is relative to it: the process may change its working directory
    int descriptor_ = -1;
    int replaced_ = -1;
    const bool nameless_ = false;
    std::string path_left_;  // of a nameless file: as SpillSpace::File
    std::mutex allocation_mutex_;
    std::atomic<int64_t> allocated_{0};  // bytes that have disk blocks; INT64_MAX: the file system does not do it
};

}  // namespace spillway
