// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace spillway {

// Spill files of one runtime that no job uses at the moment. The next job writes over them: pages that the system holds
// already are written two to three times faster than new ones (12 GB/s instead of 4.6 per thread), and nobody waits for
// the freeing of the old ones. Files have no name and go with the process. Thread-safe.
class SpillSpace {
  public:
    // directory: of the spill files; empty = none may be made.
    explicit SpillSpace(std::string directory) : directory_(std::move(directory)) {}
    ~SpillSpace() { trim(); }
    SpillSpace(const SpillSpace&) = delete;
    SpillSpace& operator=(const SpillSpace&) = delete;

    struct File {
        int descriptor = -1;
        uint64_t bytes = 0;     // that were written to it
        std::string path_left;  // see create_unlinked_spill_file()
    };
    const std::string& directory() const { return directory_; }
    // A file to be written from its start: the largest that is kept, or a new one. Descriptor -1 and errno on failure.
    File take();
    // Kept for the next job, or closed when much is kept already.
    void give_back(File file) noexcept;
    // Closes what is kept: the system frees it (50 ms for 1 GB). Returns how many bytes that were.
    uint64_t trim() noexcept;
    uint64_t kept_bytes() const;

  private:
    // What is kept takes disk space, and the system's memory until that needs it; a runtime trims it when it is idle.
    static constexpr uint64_t kKeptBytesMax = uint64_t{4} << 30;
    static constexpr size_t kKeptFilesMax = 64;

    const std::string directory_;
    mutable std::mutex mutex_;
    std::vector<File> kept_;  // ascending in size
    uint64_t kept_bytes_ = 0;
};

}  // namespace spillway
