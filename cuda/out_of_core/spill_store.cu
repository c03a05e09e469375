// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "out_of_core/spill_store.hpp"

namespace spillway::cuda {

SpillStore::SpillStore(Device& device, Device* peer, uint64_t block_bytes, uint64_t limit_bytes)
    : device_(device), peer_(peer), block_bytes_(block_bytes), limit_bytes_(limit_bytes) {
    if (block_bytes == 0) throw Error(ErrorCode::kInvalid, "blocks of spilled rows have at least a byte");
    device.make_current();
    stream_.wait_for(device.stream());
}

SpillStore::~SpillStore() {
    try {
        stream_.synchronize();
    } catch (const Error&) {  // a lost device copies nothing any more
    }
}

void SpillStore::grow(uint64_t bytes) {
    while (blocks_.size() * block_bytes_ < bytes) {
        if ((blocks_.size() + 1) * block_bytes_ > limit_bytes_) {
            Error error(ErrorCode::kOutOfMemory, "spilled rows: " + std::to_string(bytes) +
                                                     " bytes wanted beyond the device's memory, but the limit is " +
                                                     std::to_string(limit_bytes_) + " bytes");
            error.tier = peer_ == nullptr ? Tier::kHost : Tier::kDevice;
            error.limit_reached = true;
            error.wanted_bytes = bytes;
            error.free_bytes = limit_bytes_ - std::min(limit_bytes_, blocks_.size() * block_bytes_);
            error.limit_bytes = limit_bytes_;
            throw error;
        }
        BlockPool& pool = peer_ == nullptr ? static_cast<BlockPool&>(device_.staging()) : peer_->memory();
        blocks_.push_back(pool.allocate(block_bytes_, "spilled rows"));
    }
}

void SpillStore::append(int side, FragmentSet set, const uint32_t* packed) {
    const uint64_t bytes = set.words * sizeof(uint32_t);
    grow(used_bytes_ + bytes);
    device_.make_current();
    const uint64_t at = used_bytes_;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t in_block = (at + done) % block_bytes_;
        const uint64_t some = std::min(bytes - done, block_bytes_ - in_block);
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(blocks_[(at + done) / block_bytes_].as<uint8_t>() + in_block,
                                            reinterpret_cast<const uint8_t*>(packed) + done, some, cudaMemcpyDefault,
                                            stream_.get()));
        done += some;
    }
    used_bytes_ += bytes;
    side_bytes_[side] += bytes;
    for (const RowPiece& piece : set.pieces) side_rows_[side] += piece.rows;
    runs_[side].push_back({std::move(set), at});
}

void SpillStore::precede(CopyRing& ring) {
    joint_.record(stream_.get());
    ring.wait_for(joint_);
}

std::vector<FragmentRange> SpillStore::find(int side, uint64_t first, uint64_t last) const {
    std::vector<FragmentRange> ranges;
    for (size_t run = 0; run < runs_[side].size(); ++run) {
        const FragmentSet& set = runs_[side][run].set;
        const auto below = [](const RowPiece& piece, uint64_t partition) { return piece.partition < partition; };
        const auto begin = std::lower_bound(set.pieces.begin(), set.pieces.end(), first, below);
        const auto end = std::lower_bound(begin, set.pieces.end(), last, below);
        if (begin == end) continue;
        FragmentRange range;
        range.run = run;
        range.first = static_cast<size_t>(begin - set.pieces.begin());
        range.last = static_cast<size_t>(end - set.pieces.begin());
        for (auto piece = begin; piece != end; ++piece) range.rows += piece->rows;
        range.bytes = (set.end_word(range.last - 1) - set.first_word[range.first]) * sizeof(uint32_t);
        ranges.push_back(range);
    }
    return ranges;
}

void SpillStore::load(int side, const FragmentRange& range, CopyRing& ring, uint32_t slot, uint64_t offset) const {
    const Run& run = runs_[side][range.run];
    const uint64_t at = run.at + run.set.first_word[range.first] * sizeof(uint32_t);
    for (uint64_t done = 0; done < range.bytes;) {
        const uint64_t in_block = (at + done) % block_bytes_;
        const uint64_t some = std::min(range.bytes - done, block_bytes_ - in_block);
        ring.copy(slot, offset + done, blocks_[(at + done) / block_bytes_].as<const uint8_t>() + in_block, some);
        done += some;
    }
}

}  // namespace spillway::cuda
