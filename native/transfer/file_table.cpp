// SPDX-License-Identifier: Apache-2.0
#include "transfer/file_table.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/error.hpp"

namespace spillway {

namespace {

// The system cuts single reads at 2^31 - 4096 bytes; 1 GiB keeps every request aligned the same way.
constexpr int64_t kReadMax = int64_t{1} << 30;
constexpr int64_t kNanoseconds = 1'000'000'000;

int open_file(const std::string& path) {
    // O_NONBLOCK: opening a pipe by mistake must fail below and not wait for a writer; regular files ignore it.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) return descriptor;
    if (errno == EMFILE || errno == ENFILE) {
        throw Error(ErrorCode::kFileUnreadable,
                    "opening '" + path + "' failed: too many files are open; raise the limit (ulimit -n) or " +
                        "name fewer files in one relation",
                    {{"path", path}, {"errno", std::to_string(errno)}});
    }
    throw system_error(errno, ErrorCode::kFileUnreadable, "opening", path);
}

std::string time_text(const timespec& at) {
    return std::to_string(at.tv_sec) + "." + std::to_string(at.tv_nsec);
}

std::string contents_of(const struct stat& status) {
    return std::to_string(status.st_size) + ":" + time_text(status.st_mtim);
}

std::string place_of(const struct stat& status) {
    return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) + ":";
}

// File systems that make up inode numbers when they first see a file, and again after they forgot it or were mounted
// anew; the device number of network file systems is that of the mount.
bool has_lasting_numbers(uint32_t file_system) {
    switch (file_system) {
        case 0x65735546:  // FUSE, virtiofs
        case 0x6969:      // NFS
        case 0x01021997:  // 9p
        case 0xFF534D42:  // CIFS
        case 0xFE534D42:  // SMB 2 and 3
        case 0x517B:      // SMB 1
        case 0x4D44:      // FAT
        case 0x2011BAB0:  // exFAT
            return false;
        default:
            return true;
    }
}

uint32_t file_system_of(int descriptor) {
    struct statfs status {};
    return ::fstatfs(descriptor, &status) == 0 ? static_cast<uint32_t>(status.f_type) : 0;
}

struct stat examined(int descriptor, const std::string& path) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) {
        throw system_error(errno, ErrorCode::kFileUnreadable, "examining", path);
    }
    return status;
}

void require_regular(const struct stat& status, const std::string& path) {
    if (S_ISDIR(status.st_mode)) {
        throw Error(ErrorCode::kFileUnreadable, "'" + path + "' is a folder; name the Arrow files inside it",
                    {{"path", path}});
    }
    if (!S_ISREG(status.st_mode)) {
        throw Error(ErrorCode::kFileUnreadable,
                    "'" + path + "' is not a regular file and cannot be read at any position; copy it to a file first",
                    {{"path", path}});
    }
}

// What was read of the file before (where its batches lie) does not hold for another one: reading that at these places
// would give rows that are in no file.
[[noreturn]] void throw_changed(const std::string& path) {
    throw Error(ErrorCode::kFileChanged,
                "'" + path + "' was written to or replaced since it was opened; open it again with fromArrowFile() " +
                    "and make the query of that relation, which reads what the file holds now",
                {{"path", path}});
}

[[noreturn]] void fail_truncated(const std::string& path, int64_t opened_bytes, int64_t found_bytes) {
    throw Error(
        ErrorCode::kFileTruncated,
        "'" + path + "' became shorter while it was read: it had " + std::to_string(opened_bytes) +
            " bytes when it was opened and has " + std::to_string(found_bytes) +
            " now; do not write to input files during a job",
        {{"path", path}, {"wantedBytes", std::to_string(opened_bytes)}, {"foundBytes", std::to_string(found_bytes)}});
}

}  // namespace

std::string file_stamp(const struct stat& status, uint32_t file_system) {
    return (has_lasting_numbers(file_system) ? place_of(status) : "") + contents_of(status);
}

FileTable::FileTable(const std::vector<std::string>& paths, const std::vector<std::string>& stamps) {
    SPILLWAY_CHECK(stamps.empty() || stamps.size() == paths.size());
    files_.reserve(paths.size());
    try {
        for (const std::string& path : paths) {
            files_.push_back({path, open_file(path), 0, "", {}});
            File& file = files_.back();
            const struct stat status = examined(file.descriptor, path);
            require_regular(status, path);
            file.bytes = status.st_size;
            file.stamp = file_stamp(status, file_system_of(file.descriptor));
            file.written = status.st_mtim;
            const std::string expected = stamps.empty() ? "" : stamps[files_.size() - 1];
            if (!expected.empty() && file.stamp != expected) throw_changed(path);
            // Columns are read front to back: a wider read-ahead window. Advice only, failure does not matter.
            ::posix_fadvise(file.descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
        }
    } catch (...) {
        close_all();
        throw;
    }
}

FileTable::~FileTable() {
    close_all();
}

void FileTable::close_all() {
    for (File& file : files_) ::close(file.descriptor);
    files_.clear();
}

std::string FileTable::identity(int32_t file) const {
    const File& source = files_[static_cast<size_t>(file)];
    const struct stat status = examined(source.descriptor, source.path);
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    for (const timespec& changed : {status.st_mtim, status.st_ctim}) {
        // The system's clock for files ticks every 1 to 10 ms, that of a file system without fractions every 2 s.
        const int64_t tick = changed.tv_nsec == 0 ? 2 * kNanoseconds : kNanoseconds / 10;
        const int64_t age = (now.tv_sec - changed.tv_sec) * kNanoseconds + now.tv_nsec - changed.tv_nsec;
        if (age < 2 * tick) return "";
    }
    // Numbers that do not last make it look like another file; that only costs reading it again.
    return place_of(status) + contents_of(status) + ":" + time_text(status.st_ctim);
}

void FileTable::read(int32_t file, int64_t offset, uint8_t* out, int64_t bytes) const {
    read_unchecked(file, offset, out, bytes);
    require_unwritten(file);
}

void FileTable::read_unchecked(int32_t file, int64_t offset, uint8_t* out, int64_t bytes) const {
    const File& source = files_[static_cast<size_t>(file)];
    while (bytes > 0) {
        const auto wanted = static_cast<size_t>(std::min(bytes, kReadMax));
        const ssize_t got = ::pread(source.descriptor, out, wanted, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw system_error(errno, ErrorCode::kFileUnreadable, "reading", source.path);
        if (got == 0) fail_truncated(source.path, source.bytes, examined(source.descriptor, source.path).st_size);
        offset += got;
        out += got;
        bytes -= got;
    }
}

void FileTable::fail_changed(int32_t file) const {
    throw_changed(path(file));
}

// Behind the read: a write sets the time before it copies its bytes.
void FileTable::require_unwritten(int32_t file) const {
    const File& source = files_[static_cast<size_t>(file)];
    const struct stat status = examined(source.descriptor, source.path);
    if (status.st_size < source.bytes) fail_truncated(source.path, source.bytes, status.st_size);
    const bool same_time =
        status.st_mtim.tv_sec == source.written.tv_sec && status.st_mtim.tv_nsec == source.written.tv_nsec;
    if (!same_time || status.st_size != source.bytes) throw_changed(source.path);
}

}  // namespace spillway
