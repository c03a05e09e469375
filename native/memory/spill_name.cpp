// SPDX-License-Identifier: Apache-2.0
#include "memory/spill_name.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/owned_name.hpp"
#include "memory/spill_file.hpp"

namespace spillway {

namespace {

constexpr const char* kPrefix = "spillway-spill-";

}  // namespace

std::string next_spill_name() {
    return next_owned_name(kPrefix);
}

int create_unlinked_spill_file(const std::string& directory, std::string& path_left) {
    path_left.clear();
    for (;;) {
        std::string path = directory + "/" + next_spill_name();
        const int file = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (file >= 0) {
            lock_owned_file(file);
            if (unlink(path.c_str()) != 0 && errno != ENOENT) path_left = std::move(path);
            return file;
        }
        if (errno != EEXIST && errno != EINTR) return -1;
    }
}

void close_spill_file(int descriptor, const std::string& path_left) noexcept {
    close(descriptor);
    // Should it fail again, remove_stale_spill_files() finds the file when this process has ended.
    if (!path_left.empty()) unlink(path_left.c_str());
}

void remove_stale_spill_files(const std::string& directory) {
    remove_abandoned_files(directory, kPrefix);
}

}  // namespace spillway
