// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace spillway::test {

using Bytes = std::vector<uint8_t>;

// One file for tests; removed with the object.
class TestFile {
  public:
    TestFile() {
        static std::atomic<int> count{0};
        path_ = "/tmp/spillway-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".bin";
        descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    ~TestFile() {
        ::close(descriptor_);
        ::unlink(path_.c_str());
    }
    TestFile(const TestFile&) = delete;
    const std::string& path() const { return path_; }
    int64_t append(const Bytes& bytes) {
        end_ = (end_ + 7) / 8 * 8;
        const int64_t offset = end_;
        if (::pwrite(descriptor_, bytes.data(), bytes.size(), offset) != static_cast<ssize_t>(bytes.size())) {
            throw std::runtime_error("test file: write failed");
        }
        end_ += static_cast<int64_t>(bytes.size());
        return offset;
    }
    void skip_to(int64_t offset) { end_ = offset; }
    void truncate(int64_t bytes) {
        if (::ftruncate(descriptor_, bytes) != 0) throw std::runtime_error("test file: truncate failed");
    }
    void overwrite(int64_t offset, const Bytes& bytes) {
        if (::pwrite(descriptor_, bytes.data(), bytes.size(), offset) < 0) throw std::runtime_error("write failed");
    }
    Bytes read(int64_t offset, int64_t count) const {
        Bytes bytes(static_cast<size_t>(count));
        if (::pread(descriptor_, bytes.data(), bytes.size(), offset) != count) throw std::runtime_error("read failed");
        return bytes;
    }

  private:
    std::string path_;
    int descriptor_ = -1;
    int64_t end_ = 8;
};

}  // namespace spillway::test
