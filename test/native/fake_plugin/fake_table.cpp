// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fake_gpu.hpp"
#include "memory_model/stream_memory.hpp"

namespace fake {

namespace {

thread_local std::shared_ptr<Claim> users_claim;

}  // namespace

Claim::Claim(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose) : gpu_(gpu) {
    if (bytes > gpu->limit_bytes - gpu->used_bytes - gpu->claimed_bytes) {
        throw Failure{SPILLWAY_CUDA_OUT_OF_MEMORY, purpose, bytes};
    }
    claim(bytes);
}

void Claim::claim(uint64_t bytes) {
    count(bytes, used_bytes_);
}

void Claim::use(uint64_t bytes) {
    count(bytes_, used_bytes_ + bytes);
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
}

void Claim::give_back(uint64_t bytes) {
    count(bytes_, used_bytes_ - bytes);
}

// For its user.
void Claim::keep_peak() {
    claim(std::max(bytes_, std::min(peak_bytes_, used_bytes_ + free_bytes(gpu_))));
}

void Claim::count(uint64_t bytes, uint64_t used_bytes) {
    gpu_->claimed_bytes -= unused_bytes();
    bytes_ = bytes;
    used_bytes_ = used_bytes;
    gpu_->claimed_bytes += unused_bytes();
}

ClaimUser::ClaimUser(std::shared_ptr<Claim> claim) : before_(std::exchange(users_claim, std::move(claim))) {}

ClaimUser::~ClaimUser() {
    users_claim = std::move(before_);
}

uint64_t free_bytes(const spillway_cuda_gpu* gpu) {
    const uint64_t own_bytes = users_claim == nullptr ? 0 : users_claim->unused_bytes();
    return gpu->limit_bytes - gpu->used_bytes - (gpu->claimed_bytes - own_bytes);
}

Room::Room(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose) {
    if (bytes > free_bytes(gpu) || is_asked_for("refuse")) {
        throw Failure{SPILLWAY_CUDA_OUT_OF_MEMORY, purpose, bytes, !is_asked_for("refuse")};
    }
    gpu_ = gpu;
    bytes_ = bytes;
    claim_ = users_claim;
    if (claim_ != nullptr) claim_->use(bytes);
    gpu->used_bytes += bytes;
    gpu->peak_bytes = std::max(gpu->peak_bytes, gpu->used_bytes);
}

Room::~Room() {
    if (gpu_ == nullptr) return;
    gpu_->used_bytes -= bytes_;
    if (claim_ != nullptr) claim_->give_back(bytes_);
}

// Whoever reads what nobody wrote is to notice.
Block::Block(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose)
    : room_(gpu, bytes, purpose), bytes_(bytes, 0xcd) {}

Column make_column(spillway_cuda_gpu* gpu, uint64_t rows, const ColumnSpec& is) {
    Column column;
    column.is = is;
    column.values = Block(gpu, column.is_bytes() ? is.bytes : rows * is.width, "values of a column");
    if (column.is_bytes()) column.offsets = Block(gpu, (rows + 1) * 8, "offsets of a column");
    if (is.nullable) column.validity = Block(gpu, spillway::cuda::validity_bytes(rows), "validity of a column");
    return column;
}

void ColumnWriter::add_value(const std::string& value, bool valid) {
    values_ += value;
    ends_.push_back(values_.size());
    valid_.push_back(valid);
    has_null_ = has_null_ || !valid;
}

Column ColumnWriter::finish(spillway_cuda_gpu* gpu, ColumnKind kind, uint32_t width) {
    const uint64_t rows = ends_.size();
    ColumnSpec is{};
    is.kind = kind;
    is.width = width;
    is.nullable = has_null_;
    is.bytes = kind == ColumnKind::kBytes ? values_.size() : 0;
    Column column = make_column(gpu, rows, is);
    if (!values_.empty()) std::memcpy(column.values.data(), values_.data(), values_.size());
    if (column.is_bytes()) {
        std::memset(column.offsets.data(), 0, 8);
        if (rows > 0) std::memcpy(column.offsets.data() + 8, ends_.data(), rows * 8);
    }
    if (has_null_) std::memset(column.validity.data(), 0, column.validity.size());
    for (uint64_t row = 0; has_null_ && row < rows; ++row) {
        if (valid_[row]) column.validity.data()[row / 8] |= static_cast<uint8_t>(1 << row % 8);
    }
    return column;
}

}  // namespace fake
