// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/job_control.hpp"
#include "memory/spill_space.hpp"

namespace spillway {

// Encoding of a spilled page: flags.
constexpr uint8_t kSpillPacked = 1;   // bit-packed (page_packing.hpp)
constexpr uint8_t kSpillUnmixed = 2;  // first word of each row stored as unmix64(word), so that dense keys pack

// Where one page lies in the spill files.
struct SpillExtent {
    int64_t offset = -1;
    uint32_t bytes = 0;    // bytes in the file
    uint8_t encoding = 0;  // kSpill flags; 0 = raw bytes
    uint8_t shard = 0;     // which of the job's files
};

// A piece of one write.
struct SpillPiece {
    const void* data;
    uint64_t bytes;
};

// The spill files of a partition set (shards: the kernel lets one writer at a time into a file, so workers that spill
// at the same time should find different ones), each taken from the runtime's spill space at its first write and
// invisible: O_TMPFILE where the file system has it, else created as spillway-spill-<pid>-<start time>-<n> and unlinked
// at once, so that nothing is left behind even after SIGKILL. Thread-safe: extents are taken from atomic cursors,
// writes and reads are positional. Extents are never reused inside a job; the files go back to the space with it.
class SpillFile {
  public:
    // The folder of the space must exist and be writable (checked here: throws kInvalidArgument naming option
    // memory.spillDirectory). Empty: there is no spill folder, and write() says so.
    // shards: files at most, 1 .. 16. is_used: false where nothing will be written, and no folder is looked at.
    SpillFile(std::shared_ptr<SpillSpace> space, JobControl& control, int shards = 1, bool is_used = true);
    ~SpillFile();
    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;

    struct Position {
        int64_t offset;
        uint8_t shard;
    };
    // Writes the pieces one behind the other and returns where. Throws kDiskFull (path, wanted) or kOutputFailed. One
    // system call per write: callers gather 256 KiB and more. writer: a number of the calling worker; workers of
    // different numbers (modulo shards) do not meet in a file.
    Position write(const std::vector<SpillPiece>& pieces, uint64_t writer = 0);
    void read(Position from, void* data, uint64_t bytes);
    // Asks the system to read ahead in the background, unless what was written is still in its memory.
    void prefetch(Position from, uint64_t bytes);

    const std::shared_ptr<SpillSpace>& space() const { return space_; }

    static constexpr int kShardsMax = 16;

  private:
    struct Shard {
        std::atomic<int> descriptor{-1};
        std::atomic<uint64_t> cursor{0};
        uint64_t bytes_before = 0;  // of the file when it was taken
        std::string path_left;      // as SpillSpace::File
    };
    int descriptor(Shard& shard);
    void read_whole(Position from, void* data, uint64_t bytes);
    void write_whole(int file, uint64_t offset, const std::vector<SpillPiece>& pieces, uint64_t bytes);
    Error write_failed(int error_number, uint64_t bytes);

    const std::shared_ptr<SpillSpace> space_;
    JobControl& control_;
    std::mutex create_mutex_;
    const int shard_count_;
    std::array<Shard, kShardsMax> shards_;
    std::atomic<int> prefetches_left_{0};
    std::atomic<bool> failed_{false};
    uint64_t size_limit_ = UINT64_MAX;  // RLIMIT_FSIZE when the set was made
};

// Why `bytes` could not be written to a file in the spill folder after `spilled` ones of the job: kDiskFull,
// kInvalidArgument where there is no such folder, or kOutputFailed.
Error spill_write_failed(int error_number, const std::string& directory, uint64_t bytes, uint64_t spilled);

// Removes spillway-spill-* files in `directory` whose process no longer exists (pid + start time). Never throws.
void remove_stale_spill_files(const std::string& directory);

}  // namespace spillway
