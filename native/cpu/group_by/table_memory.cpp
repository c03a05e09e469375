// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/table_memory.hpp"

#include <algorithm>

namespace spillway {

void TableMemory::charge(uint64_t bytes) {
    if (bytes > limit_ - std::min(limit_, used_)) {
        wanted_ = used_ + bytes;
        throw TableFull{};
    }
    used_ += bytes;
}

TableBlock::TableBlock(TableMemory& memory, uint64_t bytes) {
    memory.charge(bytes);
    try {
        buffer_ = Buffer::allocate(*memory.budget_, bytes, "group-by tables");
    } catch (const Error& error) {
        memory.give_back(bytes);
        if (error.code() != ErrorCode::kBudgetTooSmall) throw;
        memory.wanted_ = memory.used_ + bytes;
        throw TableFull{};
    }
    memory_ = &memory;
    bytes_ = bytes;
}

TableBlock::TableBlock(TableBlock&& other) noexcept
    : memory_(other.memory_), bytes_(other.bytes_), buffer_(std::move(other.buffer_)) {
    other.memory_ = nullptr;
    other.bytes_ = 0;
}

TableBlock& TableBlock::operator=(TableBlock&& other) noexcept {
    if (this != &other) {
        release();
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        buffer_ = std::move(other.buffer_);
    }
    return *this;
}

void TableBlock::release() {
    buffer_ = Buffer();
    if (memory_ != nullptr) memory_->give_back(bytes_);
    memory_ = nullptr;
    bytes_ = 0;
}

// A chunk is a small part of the share, so that the unused end of the last one does not matter, and at most 1 MiB,
// from where fewer allocations no longer save time.
ByteArena::ByteArena(TableMemory& memory)
    : memory_(memory), chunk_bytes_(std::clamp<uint64_t>(memory.limit() / 64, 1024, 1 << 20)) {}

void ByteArena::add_chunk(uint64_t bytes) {
    const uint64_t size = std::max(bytes, chunk_bytes_);
    chunks_.emplace_back(memory_, size);
    bytes_ += size;
    next_ = chunks_.back().data();
    end_ = next_ + size;
}

void ByteArena::clear() {
    chunks_.clear();
    bytes_ = 0;
    next_ = end_ = nullptr;
}

}  // namespace spillway
