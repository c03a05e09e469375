// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "stream/spill_store.hpp"
#include "stream/stream_policy.hpp"
#include "tier/page_pool.hpp"

namespace spillway::cuda { inline namespace stream {

SpillStore::SpillStore(Device& device, Device* peer, uint64_t block_bytes, uint64_t limit_bytes,
                       std::unique_ptr<DiskTier> disk)
    : device_(device), peer_(peer), block_bytes_(block_bytes), limit_bytes_(limit_bytes), disk_(std::move(disk)) {
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

bool SpillStore::fits(uint64_t bytes) const {
    return bytes <= limit_bytes_ / block_bytes_ * block_bytes_;
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
        if (peer_ != nullptr) order_behind_peer(*peer_, device_, stream_.get());
    }
}

void SpillStore::append_to_blocks(uint64_t bytes, const uint32_t* packed) {
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
}

void SpillStore::append(int side, FragmentSet set, const uint32_t* packed) {
    const uint64_t bytes = set.words * sizeof(uint32_t);
    const bool to_disk = disk_ != nullptr && !fits(used_bytes_ + bytes);
    uint64_t at = used_bytes_;
    if (to_disk) {
        at = disk_->append(reinterpret_cast<const uint8_t*>(packed), bytes, stream_.get());
        if (set.pieces.size() > 1) {
            ++disk_runs_;
            disk_runs_bytes_ += bytes;
        }
    } else {
        append_to_blocks(bytes, packed);
    }
    side_bytes_[side] += bytes;
    for (const RowPiece& piece : set.pieces) side_rows_[side] += piece.rows;
    runs_[side].push_back({std::move(set), at, to_disk});
}

void SpillStore::precede(CopyRing& ring) {
    if (disk_ != nullptr) disk_->finish(stream_.get());
    joint_.record(stream_.get());
    ring.wait_for(joint_);
}

void SpillStore::announce(int side, const std::vector<FragmentRange>& ranges) {
    for (const FragmentRange& range : ranges) {
        const Run& run = runs_[side][range.run];
        if (run.on_disk) disk_->announce(disk_range(run, range));
    }
}

// Partitions are alike: a group's part of a run is to the run as the group's rows are to all that were spilled. Runs of
// one partition come back as a whole.
uint64_t SpillStore::group_rows_min(int side) const {
    if (disk_runs_ == 0) return 0;
    const double run_bytes = static_cast<double>(disk_runs_bytes_) / static_cast<double>(disk_runs_);
    const double share = std::min(1.0, kDiskReadBytes / std::max(run_bytes, 1.0));
    return static_cast<uint64_t>(share * static_cast<double>(side_rows_[side]));
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

DiskRange SpillStore::disk_range(const Run& run, const FragmentRange& range) const {
    return {run.at + run.set.first_word[range.first] * sizeof(uint32_t), range.bytes};
}

void SpillStore::load(int side, const FragmentRange& range, CopyRing& ring, uint32_t slot, uint64_t offset) {
    const Run& run = runs_[side][range.run];
    if (run.on_disk) return disk_->load(disk_range(run, range), ring, slot, offset);
    const uint64_t at = run.at + run.set.first_word[range.first] * sizeof(uint32_t);
    for (uint64_t done = 0; done < range.bytes;) {
        const uint64_t in_block = (at + done) % block_bytes_;
        const uint64_t some = std::min(range.bytes - done, block_bytes_ - in_block);
        ring.copy_together(slot, offset + done, blocks_[(at + done) / block_bytes_].as<const uint8_t>() + in_block,
                           some, peer_ == nullptr);
        done += some;
    }
}

void SpillStore::tell(StreamReport& report) const {
    for (int side = 0; side < 2; ++side) {
        report.spilled_rows[side] = side_rows_[side];
        report.spilled_bytes[side] = side_bytes_[side];
    }
    if (disk_ == nullptr) return;
    report.disk_written_bytes = disk_->written_bytes();
    report.disk_read_bytes = disk_->read_bytes();
}

}}  // namespace spillway::cuda::stream
