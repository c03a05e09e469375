// SPDX-License-Identifier: Apache-2.0
#include "memory/spill_name.hpp"

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
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "memory/spill_file.hpp"

namespace spillway {

namespace {

constexpr const char* kPrefix = "spillway-spill-";

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

// The process is looked up in this pid namespace, but the folder may be shared with containers that have their own:
// their files are locked while they have a name.
bool is_locked(int directory, const char* name) {
    const int file = openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return true;
    const bool locked = flock(file, LOCK_EX | LOCK_NB) != 0;
    close(file);
    return locked;
}

}  // namespace

std::string next_spill_name() {
    static std::atomic<uint64_t> next{0};
    const int64_t pid = getpid();
    return kPrefix + std::to_string(pid) + "-" + std::to_string(start_time_of(pid).value_or(0)) + "-" +
           std::to_string(next.fetch_add(1));
}

int create_unlinked_spill_file(const std::string& directory, std::string& path_left) {
    path_left.clear();
    for (;;) {
        std::string path = directory + "/" + next_spill_name();
        const int file = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (file >= 0) {
            flock(file, LOCK_EX | LOCK_NB);  // see is_locked(); not every file system has locks
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

bool is_stale_spill_name(const std::string& name) {
    const std::string prefix = kPrefix;
    if (name.compare(0, prefix.size(), prefix) != 0) return false;
    size_t at = prefix.size();
    const auto pid = number_at(name, at, '-');
    const auto start_time = pid ? number_at(name, at, '-') : std::nullopt;
    if (!start_time || !number_at(name, at, '\0') || *pid == 0 || *pid > INT32_MAX) return false;
    if (kill(static_cast<pid_t>(*pid), 0) != 0) return errno == ESRCH;
    const auto alive_since = start_time_of(static_cast<int64_t>(*pid));
    // Without /proc the process that has the pid now is taken for the owner.
    return alive_since && *start_time != 0 && *alive_since != *start_time;
}

void remove_stale_spill_files(const std::string& directory) {
    try {
        const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(directory.c_str()), closedir);
        if (!folder) return;
        while (const dirent* entry = readdir(folder.get())) {
            if (!is_stale_spill_name(entry->d_name)) continue;
            struct stat status {};
            if (fstatat(dirfd(folder.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
            if (!S_ISREG(status.st_mode) || is_locked(dirfd(folder.get()), entry->d_name)) continue;
            unlinkat(dirfd(folder.get()), entry->d_name, 0);
        }
    } catch (const std::exception&) {
        // Cleaning is a courtesy: what stays is found the next time.
    }
}

}  // namespace spillway
