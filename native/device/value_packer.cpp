// SPDX-License-Identifier: Apache-2.0
#include "device/value_packer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/value_packing.hpp"

namespace spillway {

void ValuePacker::start(uint8_t* words, cuda::PackedBlock* blocks, uint64_t first_line) {
    words_ = words;
    blocks_ = blocks;
    first_line_ = first_line;
    packed_bytes_ = 0;
    waiting_count_ = 0;
}

void ValuePacker::append(const uint8_t* values, uint64_t count) {
    while (count > 0) {
        uint64_t part = count / cuda::kPackedValues * cuda::kPackedValues;
        if (waiting_count_ == 0 && part > 0) {
            pack(values, part);
        } else {
            part = std::min(count, cuda::kPackedValues - waiting_count_);
            std::memcpy(waiting_.data() + waiting_count_ * width_, values, part * width_);
            waiting_count_ += part;
            if (waiting_count_ == cuda::kPackedValues) finish();
        }
        values += part * width_;
        count -= part;
    }
}

void ValuePacker::finish() {
    if (waiting_count_ > 0) pack(waiting_.data(), std::exchange(waiting_count_, 0));
}

void ValuePacker::pack(const uint8_t* values, uint64_t count) {
    const uint64_t bytes = pack_column(values, width_, count, words_ + packed_bytes_, blocks_);
    const uint64_t blocks = (count + cuda::kPackedValues - 1) / cuda::kPackedValues * cuda::packed_planes(width_);
    for (uint64_t i = 0; i < blocks; ++i) blocks_[i].line += static_cast<uint32_t>(first_line_ + packed_bytes_ / 64);
    blocks_ += blocks;
    packed_bytes_ += bytes;
}

}  // namespace spillway
