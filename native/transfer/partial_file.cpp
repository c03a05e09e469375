// SPDX-License-Identifier: Apache-2.0
#include "transfer/partial_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/owned_name.hpp"
#include "memory/spill_file.hpp"
#include "memory/spill_name.hpp"
#include "memory/spill_space.hpp"
#include "transfer/hidden_name.hpp"
#include "transfer/output_link.hpp"

namespace spillway {

namespace {

// One system call writes at most this much: an abort is noticed after tens of milliseconds even on a slow disk.
constexpr size_t kBytesPerCall = size_t{32} << 20;
constexpr size_t kPiecesPerCall = 1024;  // IOV_MAX of Linux
// Files up to this size are not worth allocating ahead; larger ones grow by half.
constexpr int64_t kAllocationMin = int64_t{16} << 20;
constexpr int64_t kAllocationMax = int64_t{256} << 20;
constexpr int kHiddenNameAttempts = 1000;
constexpr mode_t kPermissions = 0777;
constexpr mode_t kFileMode = 0666;  // less the umask, as any other new file

// Errors of renameat2() by which kernels, file systems and policies say that they know only plain renames. Should it be
// another matter, the plain rename says so.
bool may_lack_flags(int error_number) {
    return error_number == EINVAL || error_number == ENOSYS || error_number == EPERM || error_number == EOPNOTSUPP;
}

// Names that a process was killed with are removed once for each folder that is written to: reading a large one takes
// milliseconds, and where files need no name while they are written there is hardly ever one.
bool is_first_visit(int folder) {
    constexpr size_t kFoldersMax = 4096;
    static std::mutex mutex;
    static std::set<std::pair<dev_t, ino_t>> visited;
    struct stat status {};
    if (fstat(folder, &status) != 0) return false;
    std::lock_guard<std::mutex> lock(mutex);
    if (visited.size() >= kFoldersMax) visited.clear();
    return visited.emplace(status.st_dev, status.st_ino).second;
}

}  // namespace

PartialFile::PartialFile(const std::string& path, bool overwrite, Naming naming, MakeRoom make_room)
    : path_(path), overwrite_(overwrite), make_room_(std::move(make_room)) {
    const std::string target = resolve_output_links(path);
    const std::string folder = folder_of(target);
    name_ = target.substr(target.rfind('/') + 1);  // all of it where there is no slash
    if (name_.empty()) {
        throw Error(ErrorCode::kOutputFailed, "cannot write '" + path_ + "': it names a folder; add a file name",
                    {{"path", path_}});
    }
    folder_ = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder_ < 0) {
        const int reason = errno;
        if (reason == ENOENT || reason == ENOTDIR) {
            throw Error(
                ErrorCode::kOutputFailed,
                "cannot write '" + path_ + "': the folder '" + folder + "' does not exist; create it or name another",
                {{"path", path_}, {"folder", folder}});
        }
        throw failure(reason, "opening the folder of");
    }
    try {
        check_target(overwrite);
        if (naming == Naming::kHidden || is_first_visit(folder_)) remove_stale_hidden_files(folder_);
        if (naming == Naming::kHidden || !open_unnamed()) open_hidden();
        keep_mode();
    } catch (...) {
        if (descriptor_ >= 0) close(descriptor_);
        if (!hidden_name_.empty()) unlinkat(folder_, hidden_name_.c_str(), 0);
        close(folder_);
        throw;
    }
}

PartialFile::PartialFile(const Nameless& where, MakeRoom make_room)
    : path_(where.directory), overwrite_(false), make_room_(std::move(make_room)), nameless_(true) {
    // The file has a space of its own: one that was kept for the next job may be longer than what is written here.
    SpillSpace::File made = SpillSpace(where.directory).take();
    if (made.descriptor < 0) throw spill_write_failed(errno, where.directory, 0, 0);
    descriptor_ = made.descriptor;
    path_left_ = std::move(made.path_left);
}

PartialFile::~PartialFile() {
    if (nameless_) {
        close_spill_file(descriptor_, path_left_);
        return;
    }
    if (descriptor_ >= 0) close(descriptor_);
    if (replaced_ >= 0) close(replaced_);
    if (!hidden_name_.empty()) unlinkat(folder_, hidden_name_.c_str(), 0);
    close(folder_);
}

void PartialFile::check_target(bool overwrite) {
    struct stat status {};
    if (fstatat(folder_, name_.c_str(), &status, 0) != 0) {
        if (errno == ENOENT) return;
        throw failure(errno, "looking at");
    }
    if (!S_ISREG(status.st_mode)) {
        throw Error(ErrorCode::kOutputFailed,
                    "cannot write '" + path_ + "': it is there and not a regular file; name another file",
                    {{"path", path_}});
    }
    if (!overwrite) throw exists();
    // Replacing a name needs no right to the old file; a file that its owner made read-only is respected nevertheless.
    if (faccessat(folder_, name_.c_str(), W_OK, 0) != 0) throw failure(errno, "overwriting");
    mode_ = status.st_mode & kPermissions;
}

// To its readers it is the same file with other contents: who was kept out stays out, from the moment that the new file
// is there. Only what the umask took away is given back here.
void PartialFile::keep_mode() {
    struct stat status {};
    if (!mode_ || (fstat(descriptor_, &status) == 0 && (status.st_mode & kPermissions) == *mode_)) return;
    if (fchmod(descriptor_, *mode_) != 0) throw failure(errno, "setting the permissions of");
}

// False when the system does not allow it; then the hidden file says what is wrong, if anything is.
bool PartialFile::open_unnamed() {
    if (!takes_names_later(folder_)) return false;
    descriptor_ = openat(folder_, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode_.value_or(kFileMode));
    if (descriptor_ >= 0) lock_owned_file(descriptor_);  // publishing may give it a hidden name first
    return descriptor_ >= 0;
}

void PartialFile::open_hidden() {
    for (int attempt = 0; attempt < kHiddenNameAttempts; ++attempt) {
        const std::string name = next_hidden_name();
        descriptor_ = openat(folder_, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode_.value_or(kFileMode));
        if (descriptor_ >= 0) {
            lock_owned_file(descriptor_);
            hidden_name_ = name;
            return;
        }
        if (errno != EEXIST) throw failure(errno, "creating");
    }
    throw failure(EEXIST, "creating a hidden file beside");
}

// Gives the file its disk blocks ahead of the writes. ext4 allocates blocks late, and renaming over an existing file
// makes it catch up at once (so that a crash leaves the one or the other): 150 ms for 800 MB, all in the last step.
void PartialFile::allocate(int64_t end) noexcept {
    if (end <= std::max(allocated_.load(std::memory_order_relaxed), kAllocationMin)) return;
    std::lock_guard<std::mutex> lock(allocation_mutex_);
    const int64_t allocated = allocated_.load(std::memory_order_relaxed);
    if (end <= allocated) return;
    const int64_t until = end + std::clamp(end / 2, kAllocationMin, kAllocationMax);
    const bool done = fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, allocated, until - allocated) == 0;
    allocated_.store(done ? until : INT64_MAX, std::memory_order_relaxed);  // no space ahead: the writes will tell
}

void PartialFile::free_unused() noexcept {
    struct stat status {};
    if (allocated_.load(std::memory_order_relaxed) == 0 || fstat(descriptor_, &status) != 0) return;
    // To the size that it has: frees the blocks behind its end. Should it fail, they stay until the file goes.
    if (ftruncate(descriptor_, status.st_size) != 0) return;
}

void PartialFile::write(int64_t offset, std::vector<iovec>& pieces, const JobControl& control) {
    int64_t end = offset;
    for (const iovec& piece : pieces) end += static_cast<int64_t>(piece.iov_len);
    allocate(end);
    size_t first = 0;
    while (first < pieces.size()) {
        if (pieces[first].iov_len == 0) {
            ++first;
            continue;
        }
        control.check();
        size_t count = 0;
        size_t bytes = 0;
        while (first + count < pieces.size() && count < kPiecesPerCall && bytes < kBytesPerCall) {
            bytes += pieces[first + count++].iov_len;
        }
        // The last piece may reach beyond the limit: shortened for this call.
        iovec& last = pieces[first + count - 1];
        const size_t whole = last.iov_len;
        if (bytes > kBytesPerCall) last.iov_len -= bytes - kBytesPerCall;
        const ssize_t written = pwritev(descriptor_, &pieces[first], static_cast<int>(count), offset);
        const int reason = errno;
        last.iov_len = whole;
        if (written < 0) {
            if (reason == EINTR || reason == EAGAIN) continue;
            if ((reason == ENOSPC || reason == EDQUOT) && make_room_ && make_room_()) continue;
            if (nameless_) {
                throw spill_write_failed(reason, path_, static_cast<uint64_t>(end - offset), control.spilled_bytes);
            }
            throw failure(reason, "writing");
        }
        if (written == 0) throw failure(EIO, "writing");
        offset += written;
        auto left = static_cast<size_t>(written);
        while (left > 0) {
            const size_t taken = std::min(left, pieces[first].iov_len);
            pieces[first].iov_base = static_cast<uint8_t*>(pieces[first].iov_base) + taken;
            pieces[first].iov_len -= taken;
            left -= taken;
            if (pieces[first].iov_len == 0) ++first;
        }
    }
}

// No fsync anywhere: what is promised is that the name never shows half a file while the system runs. Surviving a
// power cut would cost the time of writing the result to the platter, for data that can be computed again.
void PartialFile::publish() {
    free_unused();
    if (nameless_) return;
    hidden_name_.empty() ? publish_unnamed() : publish_hidden();
}

std::string PartialFile::way() const {
    return nameless_ ? descriptor_path(descriptor_) : path_;
}

void PartialFile::publish_unnamed() {
    const std::string source = descriptor_path(descriptor_);
    if (!overwrite_) {  // linkat never replaces: atomic and safe against a file that appeared meanwhile
        if (linkat(AT_FDCWD, source.c_str(), folder_, name_.c_str(), AT_SYMLINK_FOLLOW) == 0) return;
        if (errno == EEXIST) throw exists();
        throw failure(errno, "naming");
    }
    for (int attempt = 0; attempt < kHiddenNameAttempts; ++attempt) {
        const std::string name = next_hidden_name();
        if (linkat(AT_FDCWD, source.c_str(), folder_, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
            hidden_name_ = name;
            rename_hidden(true);
            return;
        }
        if (errno != EEXIST) break;
    }
    throw failure(errno, "naming");
}

void PartialFile::publish_hidden() {
    // Network file systems report a full disk only when the file is closed.
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (close(descriptor) != 0 && errno != EINTR) throw failure(errno, "closing");
    rename_hidden(overwrite_);
}

void PartialFile::rename_hidden(bool replace) {
    bool done = false;
#ifdef RENAME_NOREPLACE
    if (!replace) {
        done = renameat2(folder_, hidden_name_.c_str(), folder_, name_.c_str(), RENAME_NOREPLACE) == 0;
        if (!done && errno == EEXIST) throw exists();
        if (!done && !may_lack_flags(errno)) throw failure(errno, "naming");
    }
#endif
    if (replace) replaced_ = openat(folder_, name_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (!done && !replace) check_target(false);  // file systems that cannot refuse atomically: best effort
    if (!done && renameat(folder_, hidden_name_.c_str(), folder_, name_.c_str()) != 0) throw failure(errno, "naming");
    hidden_name_.clear();
}

Error PartialFile::failure(int error_number, const char* doing) const {
    // A path that vanishes while it is written is a failed output, not a missing input.
    if (error_number == ENOENT) {
        return Error(ErrorCode::kOutputFailed,
                     std::string(doing) + " '" + path_ + "' failed: its folder takes no files; name another",
                     {{"path", path_}, {"errno", std::to_string(error_number)}});
    }
    return system_error(error_number, ErrorCode::kOutputFailed, doing, path_);
}

Error PartialFile::exists() const {
    return Error(ErrorCode::kOutputExists,
                 "the output file '" + path_ + "' exists; name another or set the option 'overwrite'",
                 {{"path", path_}, {"option", "overwrite"}});
}

}  // namespace spillway
