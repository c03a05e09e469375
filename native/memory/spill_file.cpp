// SPDX-License-Identifier: Apache-2.0
#include "memory/spill_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "memory/memory_budget.hpp"
#include "memory/spill_name.hpp"

namespace spillway {

namespace {

constexpr const char* kOption = "memory.spillDirectory";
constexpr uint64_t kCallBytesMax = uint64_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB per call

uint64_t free_bytes_of(const std::string& directory) {
    struct statvfs status {};
    if (statvfs(directory.c_str(), &status) != 0) return 0;
    return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

Error bad_directory(const std::string& directory, const std::string& why) {
    return Error(ErrorCode::kInvalidArgument,
                 "the spill folder '" + directory + "' " + why + "; set " + kOption +
                     " to an existing folder that this process may write to",
                 {{"path", directory}, {"option", kOption}});
}

void check_directory(const std::string& directory) {
    struct stat status {};
    if (stat(directory.c_str(), &status) != 0) {
        throw bad_directory(directory, errno == ENOENT ? std::string("does not exist")
                                                       : std::string("cannot be used: ") + std::strerror(errno));
    }
    if (!S_ISDIR(status.st_mode)) throw bad_directory(directory, "is not a folder");
    if (access(directory.c_str(), W_OK | X_OK) != 0) {
        throw bad_directory(directory, std::string("cannot be written to: ") + std::strerror(errno));
    }
}

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

SpillFile::SpillFile(std::string directory, JobControl& control, int shards)
    : directory_(std::move(directory)), control_(control), shard_count_(std::clamp(shards, 1, kShardsMax)) {
    if (!directory_.empty()) check_directory(directory_);
    struct rlimit limit {};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) size_limit_ = limit.rlim_cur;
}

SpillFile::~SpillFile() {
    for (Shard& shard : shards_) {
        const int descriptor = shard.descriptor.load();
        if (descriptor >= 0) close(descriptor);
    }
}

uint64_t SpillFile::bytes_written() const {
    uint64_t bytes = 0;
    for (const Shard& shard : shards_) bytes += shard.cursor.load(std::memory_order_relaxed);
    return bytes;
}

int SpillFile::descriptor(Shard& shard) {
    int descriptor = shard.descriptor.load(std::memory_order_acquire);
    if (descriptor >= 0) return descriptor;
    std::lock_guard<std::mutex> lock(create_mutex_);
    descriptor = shard.descriptor.load(std::memory_order_relaxed);
    if (descriptor >= 0) return descriptor;
    if (directory_.empty()) {
        throw Error(ErrorCode::kInvalidArgument,
                    std::string("the job must spill to disk, but there is no spill folder; set ") + kOption,
                    {{"option", kOption}});
    }
    descriptor = open_unnamed(directory_);
    if (descriptor < 0) descriptor = create_unlinked_spill_file(directory_);
    if (descriptor < 0) throw write_failed(errno, 0);
    shard.descriptor.store(descriptor, std::memory_order_release);
    return descriptor;
}

SpillFile::Position SpillFile::write(const void* data, uint64_t bytes) {
    const uint32_t index = next_shard_.fetch_add(1, std::memory_order_relaxed) % static_cast<uint32_t>(shard_count_);
    Shard& shard = shards_[index];
    const int file = descriptor(shard);
    const uint64_t offset = shard.cursor.fetch_add(bytes, std::memory_order_relaxed);
    // Beyond the size limit of the process the kernel sends SIGXFSZ, whose default action ends Node: stop before.
    if (offset + bytes > size_limit_) throw write_failed(EFBIG, bytes);
    const auto* from = static_cast<const char*>(data);
    // Plain writes: extents are written once and whole, so there is nothing to preallocate, and a full file system
    // shows right here. Early write-back (sync_file_range every 8 MiB) measured the same 1.2 GB/s for 6 GiB with 24 GiB
    // of memory; dropping written pages (POSIX_FADV_DONTNEED) made writing 2.7 times faster but reading back 6 to 10
    // times slower (0.6 - 1.2 GB/s instead of 5 - 8), and every page is read back once.
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t written =
            pwrite(file, from + done, std::min(bytes - done, kCallBytesMax), static_cast<off_t>(offset + done));
        if (written < 0) {
            if (errno == EINTR) continue;
            throw write_failed(errno, bytes);
        }
        if (written == 0) throw write_failed(ENOSPC, bytes);
        done += static_cast<uint64_t>(written);
    }
    control_.spilled_bytes.fetch_add(bytes, std::memory_order_relaxed);
    return {static_cast<int64_t>(offset), static_cast<uint8_t>(index)};
}

Error SpillFile::write_failed(int error_number, uint64_t bytes) const {
    if (error_number != ENOSPC && error_number != EDQUOT && error_number != EFBIG) {
        const Error error = system_error(error_number, ErrorCode::kOutputFailed, "writing a spill file in", directory_);
        auto details = error.details();
        details.emplace_back("option", kOption);
        return Error(error.code(), error.message(), std::move(details));
    }
    const uint64_t free_bytes = free_bytes_of(directory_);
    const uint64_t spilled = control_.spilled_bytes.load(std::memory_order_relaxed);
    std::string why = "the disk of the spill folder is full";
    if (error_number == EDQUOT) why = "the disk quota of the spill folder is used up";
    if (error_number == EFBIG) why = "the spill file reached the largest size that the system allows";
    return Error(ErrorCode::kDiskFull,
                 why + ": wanted " + bytes_text(bytes) + " more in '" + directory_ + "' after " + bytes_text(spilled) +
                     " of this job, " + bytes_text(free_bytes) + " are free; free space there, set " + kOption +
                     " to another folder, or raise memory.host so that less is spilled",
                 {{"tier", "disk"},
                  {"path", directory_},
                  {"wantedBytes", std::to_string(bytes)},
                  {"freeBytes", std::to_string(free_bytes)},
                  {"spilledBytes", std::to_string(spilled)},
                  {"option", kOption}});
}

void SpillFile::read(Position from, void* data, uint64_t bytes) {
    const int64_t offset = from.offset;
    const int file = shards_[from.shard].descriptor.load(std::memory_order_acquire);
    auto* to = static_cast<char*>(data);
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(file, to + done, std::min(bytes - done, kCallBytesMax), offset + static_cast<off_t>(done));
        if (got < 0) {
            if (errno == EINTR) continue;
            throw system_error(errno, ErrorCode::kFileUnreadable, "reading back a spill file in", directory_);
        }
        if (got == 0) {
            throw Error(ErrorCode::kFileTruncated,
                        "a spill file in '" + directory_ + "' ends at " + std::to_string(offset + done) + ", but " +
                            std::to_string(bytes - done) +
                            " bytes more were written; check the disk and the file system of " + kOption,
                        {{"path", directory_}, {"offset", std::to_string(offset)}, {"option", kOption}});
        }
        done += static_cast<uint64_t>(got);
    }
    control_.unspilled_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void SpillFile::prefetch(Position from, uint64_t bytes) {
    const int file = shards_[from.shard].descriptor.load(std::memory_order_acquire);
    // A hint: when it fails the read itself will say what is wrong.
    if (file >= 0) posix_fadvise(file, from.offset, static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace spillway
