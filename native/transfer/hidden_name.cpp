// SPDX-License-Identifier: Apache-2.0
#include "transfer/hidden_name.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/owned_name.hpp"

namespace spillway {

namespace {

constexpr const char* kPrefix = ".spillway-";
constexpr const char* kSuffix = ".partial";

}  // namespace

std::string next_hidden_name() {
    return next_owned_name(kPrefix, kSuffix);
}

void remove_stale_hidden_files(int folder) {
    remove_abandoned_files(descriptor_path(folder), kPrefix, kSuffix);
}

std::string descriptor_path(int descriptor) {
    return "/proc/self/fd/" + std::to_string(descriptor);
}

// A security policy (AppArmor, seccomp), a file system without hard links or a missing /proc may forbid it, each with
// errors of its own: only a try tells. With a file of its own, for one that had a name once gets no other.
bool takes_names_later(int folder) {
    const int file = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) return false;
    const std::string name = next_hidden_name();
    const bool named = linkat(AT_FDCWD, descriptor_path(file).c_str(), folder, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    close(file);
    return named && unlinkat(folder, name.c_str(), 0) == 0;
}

}  // namespace spillway
