// SPDX-License-Identifier: Apache-2.0
#include "base/owned_name.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>

namespace spillway {

namespace {

// Field 22 of /proc/<pid>/stat, clock ticks since boot. The command in field 2 may hold blanks and parentheses, so
// fields are counted from its last ')'.
std::optional<uint64_t> start_time_of(int64_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t command_end = text.rfind(')');
    if (command_end == std::string::npos) return std::nullopt;
    constexpr int kFieldAfterCommand = 3;
    constexpr int kStartTimeField = 22;
    std::istringstream fields(text.substr(command_end + 1));
    std::string field;
    for (int i = kFieldAfterCommand; i < kStartTimeField; ++i) fields >> field;
    uint64_t ticks = 0;
    if (!(fields >> ticks)) return std::nullopt;
    return ticks;
}

// A decimal number at `at`, which moves behind it and its delimiter.
std::optional<uint64_t> number_at(const std::string& name, size_t& at, char delimiter) {
    uint64_t value = 0;
    const char* begin = name.data() + at;
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || rest == begin) return std::nullopt;
    at = static_cast<size_t>(rest - name.data());
    if (delimiter == '\0') return at == name.size() ? std::optional(value) : std::nullopt;
    if (at >= name.size() || name[at] != delimiter) return std::nullopt;
    ++at;
    return value;
}

// Owners are looked up in this pid namespace, but the folder may be shared with containers that have their own.
bool is_locked(int folder, const char* name) {
    const int file = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return true;
    const bool locked = flock(file, LOCK_EX | LOCK_NB) != 0;
    close(file);
    return locked;
}

bool is_own_regular_file(int folder, const char* name) {
    struct stat status {};
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
    return S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

}  // namespace

std::string next_owned_name(const std::string& prefix, const std::string& suffix) {
    static std::atomic<uint64_t> next{0};
    const int64_t pid = getpid();
    return prefix + std::to_string(pid) + "-" + std::to_string(start_time_of(pid).value_or(0)) + "-" +
           std::to_string(next.fetch_add(1)) + suffix;
}

bool is_abandoned_name(const std::string& name, const std::string& prefix, const std::string& suffix) {
    if (name.size() < prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0) return false;
    if (name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) return false;
    const std::string owner = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    size_t at = 0;
    const auto pid = number_at(owner, at, '-');
    const auto start_time = pid ? number_at(owner, at, '-') : std::nullopt;
    if (!start_time || !number_at(owner, at, '\0') || *pid == 0 || *pid > INT32_MAX) return false;
    if (kill(static_cast<pid_t>(*pid), 0) != 0) return errno == ESRCH;
    const auto alive_since = start_time_of(static_cast<int64_t>(*pid));
    // Without /proc the process that has the pid now is taken for the owner.
    return alive_since && *start_time != 0 && *alive_since != *start_time;
}

void lock_owned_file(int descriptor) {
    flock(descriptor, LOCK_EX | LOCK_NB);  // not every file system has locks
}

void remove_abandoned_files(const std::string& folder, const std::string& prefix, const std::string& suffix) {
    try {
        const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
        if (!entries) return;
        const int descriptor = dirfd(entries.get());
        while (const dirent* entry = readdir(entries.get())) {
            if (!is_abandoned_name(entry->d_name, prefix, suffix)) continue;
            if (!is_own_regular_file(descriptor, entry->d_name) || is_locked(descriptor, entry->d_name)) continue;
            unlinkat(descriptor, entry->d_name, 0);
        }
    } catch (const std::exception&) {
        // Cleaning is a courtesy: what stays is found the next time.
    }
}

}  // namespace spillway
