// SPDX-License-Identifier: Apache-2.0
#include "memory/spill_space.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "memory/spill_name.hpp"

namespace spillway {

namespace {

// -1 where kernel (EISDIR) or file system (EOPNOTSUPP) lack O_TMPFILE. An error that a named file would meet as well is
// reported by create_unlinked_spill_file().
int open_unnamed(const std::string& directory) {
#ifdef O_TMPFILE
    return open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#else
    return -1;
#endif
}

}  // namespace

SpillSpace::File SpillSpace::take() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!kept_.empty()) {
            File file = std::move(kept_.back());
            kept_.pop_back();
            kept_bytes_ -= file.bytes;
            return file;
        }
    }
    File file;
    file.descriptor = open_unnamed(directory_);
    if (file.descriptor < 0) file.descriptor = create_unlinked_spill_file(directory_, file.path_left);
    return file;
}

void SpillSpace::give_back(File file) noexcept {
    try {
        std::lock_guard<std::mutex> lock(mutex_);
        if (kept_bytes_ + file.bytes <= kKeptBytesMax && kept_.size() < kKeptFilesMax) {
            const auto at = std::lower_bound(kept_.begin(), kept_.end(), file.bytes,
                                             [](const File& kept, uint64_t bytes) { return kept.bytes < bytes; });
            const uint64_t bytes = file.bytes;
            kept_.insert(at, std::move(file));
            kept_bytes_ += bytes;
            return;
        }
    } catch (const std::exception&) {
        // No memory for the list.
    }
    close_spill_file(file.descriptor, file.path_left);
}

uint64_t SpillSpace::trim() noexcept {
    std::vector<File> files;
    uint64_t bytes = 0;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        files.swap(kept_);
        bytes = std::exchange(kept_bytes_, 0);
    }
    for (const File& file : files) close_spill_file(file.descriptor, file.path_left);
    return bytes;
}

uint64_t SpillSpace::kept_bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return kept_bytes_;
}

}  // namespace spillway
