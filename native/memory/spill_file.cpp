// SPDX-License-Identifier: Apache-2.0
#include "memory/spill_file.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "memory/mapped_block.hpp"
#include "memory/memory_budget.hpp"
#include "memory/spill_name.hpp"

namespace spillway {

namespace {

constexpr const char* kOption = "memory.spillDirectory";
constexpr const char* kMissing = "does not exist";
constexpr const char* kNoFolder = "is not a folder";
constexpr uint64_t kCallBytesMax = uint64_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB per call

uint64_t free_bytes_of(const std::string& directory) {
    struct statvfs status {};
    if (statvfs(directory.c_str(), &status) != 0) return 0;
    return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

// " (8 MiB)", or nothing where the limit is the file system's own.
std::string file_size_limit_text() {
    struct rlimit limit {};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
    return " (" + bytes_text(limit.rlim_cur) + ")";
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
        throw bad_directory(directory, errno == ENOENT ? std::string(kMissing)
                                                       : std::string("cannot be used: ") + std::strerror(errno));
    }
    if (!S_ISDIR(status.st_mode)) throw bad_directory(directory, kNoFolder);
    if (access(directory.c_str(), W_OK | X_OK) != 0) {
        throw bad_directory(directory, std::string("cannot be written to: ") + std::strerror(errno));
    }
}

uint64_t whole_pages(uint64_t bytes) {
    const uint64_t page = system_page_bytes();  // 4 KiB, on some Arm and POWER systems 16 or 64
    return (bytes + page - 1) / page * page;
}

}  // namespace

SpillFile::SpillFile(std::shared_ptr<SpillSpace> space, JobControl& control, int shards, bool is_used)
    : space_(std::move(space)), control_(control), shard_count_(std::clamp(shards, 1, kShardsMax)) {
    if (!is_used) return;
    if (!space_->directory().empty()) check_directory(space_->directory());
    struct rlimit limit {};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) size_limit_ = limit.rlim_cur;
}

SpillFile::~SpillFile() {
    for (Shard& shard : shards_) {
        const int descriptor = shard.descriptor.load();
        if (descriptor < 0) continue;
        // A disk that is full needs the space now; a query that was stopped is mostly not the first of many.
        if (failed_.load() || control_.cancelled.load()) {
            close_spill_file(descriptor, shard.path_left);
        } else {
            const uint64_t bytes = std::max(shard.cursor.load(), shard.bytes_before);
            space_->give_back({descriptor, bytes, std::move(shard.path_left)});
        }
    }
    if (failed_.load()) space_->trim();
}

int SpillFile::descriptor(Shard& shard) {
    int descriptor = shard.descriptor.load(std::memory_order_acquire);
    if (descriptor >= 0) return descriptor;
    std::lock_guard<std::mutex> lock(create_mutex_);
    descriptor = shard.descriptor.load(std::memory_order_relaxed);
    if (descriptor >= 0) return descriptor;
    if (space_->directory().empty()) {
        throw Error(ErrorCode::kInvalidArgument,
                    std::string("the job must spill to disk, but there is no spill folder; set ") + kOption,
                    {{"option", kOption}});
    }
    SpillSpace::File file = space_->take();
    if (file.descriptor < 0) throw write_failed(errno, 0);
    shard.bytes_before = file.bytes;
    shard.path_left = std::move(file.path_left);
    shard.descriptor.store(file.descriptor, std::memory_order_release);
    return file.descriptor;
}

SpillFile::Position SpillFile::write(const std::vector<SpillPiece>& pieces, uint64_t writer) {
    uint64_t bytes = 0;
    for (const SpillPiece& piece : pieces) bytes += piece.bytes;
    const uint64_t index = writer % static_cast<uint64_t>(shard_count_);
    Shard& shard = shards_[index];
    const int file = descriptor(shard);
    // Whole pages of the system: to write over a part of one, the system would have to read the rest first, and two
    // writers would meet in it.
    const uint64_t offset = shard.cursor.fetch_add(whole_pages(bytes), std::memory_order_relaxed);
    // Beyond the size limit of the process the kernel sends SIGXFSZ, whose default action ends Node: stop before.
    if (offset + whole_pages(bytes) > size_limit_) throw write_failed(EFBIG, bytes);
    write_whole(file, offset, pieces, bytes);
    control_.spilled_bytes.fetch_add(bytes, std::memory_order_relaxed);
    return {static_cast<int64_t>(offset), static_cast<uint8_t>(index)};
}

// Plain writes: extents are written once and whole, so there is nothing to preallocate, and a full file system shows
// right here. Early write-back (sync_file_range every 8 MiB) measured the same 1.2 GB/s for 6 GiB with 24 GiB of
// memory; dropping written pages (POSIX_FADV_DONTNEED) made writing 2.7 times faster but reading back 6 to 10 times
// slower (0.6 - 1.2 GB/s instead of 5 - 8), and every page is read back once.
void SpillFile::write_whole(int file, uint64_t offset, const std::vector<SpillPiece>& pieces, uint64_t bytes) {
    static const std::vector<char> padding(system_page_bytes());
    std::vector<iovec> parts;
    parts.reserve(pieces.size() + 1);
    for (const SpillPiece& piece : pieces) {
        if (piece.bytes > 0) parts.push_back({const_cast<void*>(piece.data), piece.bytes});
    }
    const uint64_t total = whole_pages(bytes);
    if (total > bytes) parts.push_back({const_cast<char*>(padding.data()), total - bytes});
    size_t next = 0;
    for (uint64_t done = 0; done < total;) {
        const auto count = static_cast<int>(std::min<size_t>(parts.size() - next, IOV_MAX));
        const ssize_t written = pwritev(file, &parts[next], count, static_cast<off_t>(offset + done));
        if (written < 0) {
            if (errno == EINTR) continue;
            const int reason = errno;
            // Files that only wait for the next job go first.
            if ((reason == ENOSPC || reason == EDQUOT) && space_->trim() > 0) continue;
            throw write_failed(reason, bytes);
        }
        if (written == 0) throw write_failed(ENOSPC, bytes);
        done += static_cast<uint64_t>(written);
        for (auto left = static_cast<uint64_t>(written); left > 0;) {
            iovec& part = parts[next];
            const uint64_t of_part = std::min<uint64_t>(left, part.iov_len);
            part.iov_base = static_cast<char*>(part.iov_base) + of_part;
            part.iov_len -= of_part;
            left -= of_part;
            if (part.iov_len == 0) ++next;
        }
    }
}

Error SpillFile::write_failed(int error_number, uint64_t bytes) {
    failed_.store(true);
    return spill_write_failed(error_number, space_->directory(), bytes, control_.spilled_bytes.load());
}

Error spill_write_failed(int error_number, const std::string& directory, uint64_t bytes, uint64_t spilled) {
    // The folder was there when the job began: whoever removed it gets the error of a folder that never was.
    if (error_number == ENOENT) return bad_directory(directory, kMissing);
    if (error_number == ENOTDIR) return bad_directory(directory, kNoFolder);
    if (error_number != ENOSPC && error_number != EDQUOT && error_number != EFBIG) {
        const Error error = system_error(error_number, ErrorCode::kOutputFailed, "writing a spill file in", directory);
        auto details = error.details();
        details.emplace_back("option", kOption);
        return Error(error.code(), error.message(), std::move(details));
    }
    const uint64_t free_bytes = free_bytes_of(directory);
    const std::string set_option = std::string("set ") + kOption;
    std::string why = "the disk of the spill folder is full";
    std::string advice = "free space there, " + set_option + " to another folder";
    std::string room = ", " + bytes_text(free_bytes) + " are free";
    if (error_number == EDQUOT) why = "the disk quota of the spill folder is used up";
    if (error_number == EFBIG) {
        why = "the spill file reached the largest size that the system allows" + file_size_limit_text();
        advice = "raise that limit (ulimit -f), " + set_option + " to a folder whose file system allows larger files";
        room.clear();  // space is not what is missing
    }
    return Error(ErrorCode::kDiskFull,
                 why + ": wanted " + bytes_text(bytes) + " more in '" + directory + "' after " + bytes_text(spilled) +
                     " of this job" + room + "; " + advice + ", or raise memory.host so that less is spilled",
                 {{"tier", "disk"},
                  {"path", directory},
                  {"errno", std::to_string(error_number)},
                  {"wantedBytes", std::to_string(bytes)},
                  {"freeBytes", std::to_string(free_bytes)},
                  {"spilledBytes", std::to_string(spilled)},
                  {"option", kOption}});
}

// A prefetch of data that is in memory costs as much as reading it (2 us), and spilled data mostly is: reading ahead
// begins with a read that had to wait for the disk, and goes on for a while after each.
void SpillFile::read(Position from, void* data, uint64_t bytes) {
    using Clock = std::chrono::steady_clock;
    constexpr int kPrefetches = 256;
    const Clock::time_point begin = Clock::now();
    read_whole(from, data, bytes);
    // From memory: 3 us and 5 to 10 GB/s. From a disk: 50 us and more before the first byte.
    const auto patience = std::chrono::microseconds(40) + std::chrono::nanoseconds(bytes);
    if (Clock::now() - begin > patience) prefetches_left_.store(kPrefetches, std::memory_order_relaxed);
}

void SpillFile::read_whole(Position from, void* data, uint64_t bytes) {
    const std::string& directory = space_->directory();
    const int64_t offset = from.offset;
    const int file = shards_[from.shard].descriptor.load(std::memory_order_acquire);
    auto* to = static_cast<char*>(data);
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(file, to + done, std::min(bytes - done, kCallBytesMax), offset + static_cast<off_t>(done));
        if (got < 0) {
            if (errno == EINTR) continue;
            throw system_error(errno, ErrorCode::kFileUnreadable, "reading back a spill file in", directory);
        }
        if (got == 0) {
            throw Error(ErrorCode::kFileTruncated,
                        "a spill file in '" + directory + "' ends at " + std::to_string(offset + done) + ", but " +
                            std::to_string(bytes - done) +
                            " bytes more were written; check the disk and the file system of " + kOption,
                        {{"path", directory}, {"offset", std::to_string(offset)}, {"option", kOption}});
        }
        done += static_cast<uint64_t>(got);
    }
    control_.unspilled_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void SpillFile::prefetch(Position from, uint64_t bytes) {
    if (prefetches_left_.load(std::memory_order_relaxed) <= 0) return;
    prefetches_left_.fetch_sub(1, std::memory_order_relaxed);
    const int file = shards_[from.shard].descriptor.load(std::memory_order_acquire);
    // A hint: when it fails the read itself will say what is wrong.
    if (file >= 0) posix_fadvise(file, from.offset, static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace spillway
