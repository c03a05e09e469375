// SPDX-License-Identifier: Apache-2.0
#include "transfer/file_window.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace spillway {

namespace {

constexpr int64_t kUncountedBytes = 64 * 1024;
constexpr const char* kMetadataPurpose = "metadata of a record batch";

}  // namespace

const uint8_t* FileWindow::read(int32_t file, int64_t offset, int64_t bytes, int64_t ahead) {
    if (holds(file, offset, bytes)) return data_.get() + (offset - offset_);
    SPILLWAY_CHECK(offset >= 0 && bytes >= 0 && bytes <= files_.bytes(file) - offset);
    const int64_t wanted = std::max(bytes, std::min({window_bytes_, ahead, files_.bytes(file) - offset}));
    file_ = -1;  // until the bytes are there
    // A message with much metadata leaves no large buffer behind.
    if (wanted > capacity_ || (capacity_ > kUncountedBytes && wanted < capacity_ / 2)) {
        data_.reset();
        capacity_ = 0;
        reservation_.release();
        if (wanted > kUncountedBytes) {
            reservation_ = budget_.reserve(static_cast<uint64_t>(wanted), kMetadataPurpose);
        }
        data_ = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(wanted));
        capacity_ = wanted;
    }
    files_.read(file, offset, data_.get(), wanted);
    file_ = file;
    offset_ = offset;
    bytes_ = wanted;
    return data_.get();
}

}  // namespace spillway
