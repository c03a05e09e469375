// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/job_control.hpp"

namespace spillway {

// Encoding of a spilled page: flags.
constexpr uint8_t kSpillPacked = 1;   // bit-packed (page_packing.hpp)
constexpr uint8_t kSpillUnmixed = 2;  // first word of each row stored as unmix64(word), so that dense keys pack

// Where one page lies in the spill file.
struct SpillExtent {
    int64_t offset = -1;
    uint32_t bytes = 0;      // bytes in the file
    uint32_t raw_bytes = 0;  // bytes of the page content
    uint8_t encoding = 0;    // kSpill flags; 0 = raw bytes
    bool present() const { return offset >= 0; }
};

// One spill file of a job, created at the first write and invisible: O_TMPFILE where the file system has it, else
// created as spillway-spill-<pid>-<start time>-<n> and unlinked at once, so that nothing is left behind even after
// SIGKILL. Thread-safe: extents are taken from an atomic cursor, writes and reads are positional. Extents are never
// reused inside a job; the whole file goes with it.
class SpillFile {
  public:
    // directory must exist and be writable (checked here: throws kInvalidArgument naming option memory.spillDirectory).
    // Empty: there is no spill folder, and write() says so.
    SpillFile(std::string directory, JobControl& control);
    ~SpillFile();
    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;

    // Writes `bytes` and returns the offset. Throws kDiskFull (path, wanted) or kOutputFailed. One system call per
    // write: callers gather 256 KiB and more.
    int64_t write(const void* data, uint64_t bytes);
    void read(int64_t offset, void* data, uint64_t bytes);
    // Asks the system to read ahead in the background.
    void prefetch(int64_t offset, uint64_t bytes);
    uint64_t bytes_written() const { return cursor_.load(std::memory_order_relaxed); }

  private:
    int descriptor();
    Error write_failed(int error_number, uint64_t bytes) const;

    const std::string directory_;
    JobControl& control_;
    std::mutex create_mutex_;
    std::atomic<int> descriptor_{-1};
    std::atomic<uint64_t> cursor_{0};
    uint64_t size_limit_ = UINT64_MAX;  // RLIMIT_FSIZE when the file was created
};

// Removes spillway-spill-* files in `directory` whose process no longer exists (pid + start time). Never throws.
void remove_stale_spill_files(const std::string& directory);

}  // namespace spillway
