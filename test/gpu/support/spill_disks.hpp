// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "stream/stream_operator.hpp"
#include "support/failing_allocations.hpp"

// Disks for joins and group-bys beyond GPU memory: in memory, in a file, and such that fail.
namespace spillway::gpu_test {

struct DiskFailure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Takes its time before it looks at the memory that it was given, and again before it returns, so that whoever uses
// that memory too early is found out. Places are numbers that mean nothing to others.
class MemoryDisk final : public cuda::SpillDisk {
  public:
    explicit MemoryDisk(std::chrono::microseconds pause = {}) : pause_(pause) {}

    // Calls, from 1, that fail; 0: none.
    uint64_t failing_write = 0;
    uint64_t failing_read = 0;
    // Told of each call, by the thread that makes it.
    void (*on_call)(void*) = nullptr;
    void* context = nullptr;

    uint64_t write(const void* data, uint64_t bytes) override {
        begin();
        if (++writes_ == failing_write) throw DiskFailure("a write fails");
        auto copy = std::make_unique<std::vector<uint8_t>>(bytes);
        std::memcpy(copy->data(), data, bytes);
        written_bytes_ += bytes;
        std::this_thread::sleep_for(pause_);
        const std::lock_guard<std::mutex> lock(mutex_);
        extents_.push_back(std::move(copy));
        return 1000 + 7 * (extents_.size() - 1);
    }
    void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) override {
        begin();
        if (++reads_ == failing_read) throw DiskFailure("a read fails");
        const std::vector<uint8_t>* extent = nullptr;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (at >= 1000 && (at - 1000) % 7 == 0 && (at - 1000) / 7 < extents_.size()) {
                extent = extents_[(at - 1000) / 7].get();
            }
        }
        if (extent == nullptr || offset + bytes > extent->size()) throw DiskFailure("nobody has written there");
        std::memcpy(data, extent->data() + offset, bytes);
        read_bytes_ += bytes;
        std::this_thread::sleep_for(pause_);
    }

    uint64_t writes() const { return writes_; }
    uint64_t reads() const { return reads_; }
    uint64_t written_bytes() const { return written_bytes_; }
    uint64_t read_bytes() const { return read_bytes_; }

  private:
    void begin() {
        if (on_call != nullptr) on_call(context);
        std::this_thread::sleep_for(pause_);
    }

    const std::chrono::microseconds pause_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<std::vector<uint8_t>>> extents_;
    std::atomic<uint64_t> writes_{0};
    std::atomic<uint64_t> reads_{0};
    std::atomic<uint64_t> written_bytes_{0};
    std::atomic<uint64_t> read_bytes_{0};
};

// A file without a name.
class FileDisk final : public cuda::SpillDisk {
  public:
    FileDisk() : file_(std::tmpfile()) {
        if (file_ == nullptr) fail("no temporary file", __FILE__, __LINE__);
    }
    ~FileDisk() override { std::fclose(file_); }

    uint64_t write(const void* data, uint64_t bytes) override {
        const uint64_t at = end_.fetch_add(bytes);
        if (pwrite(fileno(file_), data, bytes, static_cast<off_t>(at)) != static_cast<ssize_t>(bytes)) {
            throw DiskFailure("a write fails");
        }
        return at;
    }
    void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) override {
        if (pread(fileno(file_), data, bytes, static_cast<off_t>(at + offset)) != static_cast<ssize_t>(bytes)) {
            throw DiskFailure("a read fails");
        }
    }

  private:
    std::FILE* const file_;
    std::atomic<uint64_t> end_{0};
};

// run(disk) runs an operation that has pinned memory for all that it spills, in several blocks, and checks its result.
// Each of its allocations of pinned memory is refused once: what was for spilled rows makes them go to disk, and no
// error names them.
template <class Run>
void check_refused_pinning(const Run& run) {
    cuda::BlockPool& pinned = test_device().staging();
    const uint64_t pinned_blocks = pinned.blocks();
    const auto written_bytes = [&] {
        MemoryDisk disk;
        run(disk);
        return disk.written_bytes();
    };
    const uint64_t allocations = allocations_of(pinned, [&] { CHECK_EQ(written_bytes(), 0); });
    uint64_t refused = 0;
    for (uint64_t n = 1; n <= allocations; ++n) {
        const InjectedFault fault(pinned, n);
        try {
            if (written_bytes() > 0) ++refused;
        } catch (const cuda::Error& error) {
            CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
            CHECK_EQ(std::string(error.what()).find(cuda::kSpilledRows), std::string::npos);
        }
        CHECK_EQ(pinned.blocks(), pinned_blocks);
    }
    CHECK(refused > 1);
}

}  // namespace spillway::gpu_test
