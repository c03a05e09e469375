// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "stream/spill_store.hpp"
#include "stream/stream_policy.hpp"
#include "tier/page_pool.hpp"

namespace spillway::cuda { inline namespace stream {

SpillStore::SpillStore(Device& device, Device* peer, SpillDisk* disk, const StreamSizes& sizes)
    : device_(device),
      block_bytes_(sizes.spill_block_bytes),
      peer_{peer, peer == nullptr ? 0 : sizes.peer_bytes, {}},
      host_{nullptr, sizes.spill_bytes, {}},
      disk_(DiskTier::make(device, disk, sizes.disk_block_bytes, sizes.disk_blocks)) {
    if (block_bytes_ == 0) throw Error(ErrorCode::kInvalid, "blocks of spilled rows have at least a byte");
    device.make_current();
    stream_.wait_for(device.stream());
}

SpillStore::~SpillStore() {
    try {
        stream_.synchronize();
    } catch (const Error&) {  // a lost device copies nothing any more
    }
}

// Until the blocks have so many bytes. False: they cannot.
bool SpillStore::grow(Blocks& blocks, uint64_t bytes) {
    if (bytes > blocks.limit_bytes / block_bytes_ * block_bytes_) return false;
    Device* const peer = blocks.peer;
    BlockPool& pool = peer == nullptr ? static_cast<BlockPool&>(device_.staging()) : peer->memory();
    try {
        while (blocks.memory.size() * block_bytes_ < bytes) {
            blocks.memory.push_back(pool.allocate(block_bytes_, kSpilledRows));
            if (peer != nullptr) order_behind_peer(*peer, device_, stream_.get());
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
        // Who was refused once is not likely to get more, and asking costs a synchronisation of the device.
        blocks.limit_bytes = blocks.memory.size() * block_bytes_;
        blocks.refusal = error;
        return false;
    }
    return true;
}

// The first tier that has room for so many bytes more; nullptr: disk alone has.
SpillStore::Blocks* SpillStore::blocks_for(uint64_t bytes) {
    for (Blocks* const blocks : {&peer_, &host_}) {
        if (grow(*blocks, blocks->used_bytes + bytes)) return blocks;
    }
    return nullptr;
}

// Where there is no disk, more of host memory would do.
Error SpillStore::no_room(uint64_t bytes) const {
    if (host_.refusal) return *host_.refusal;
    const uint64_t wanted_bytes = host_.used_bytes + bytes;
    Error error(ErrorCode::kOutOfMemory, std::string(kSpilledRows) + ": " + std::to_string(wanted_bytes) +
                                             " bytes wanted beyond the device's memory, but the limit is " +
                                             std::to_string(host_.limit_bytes) + " bytes, and there is no way to disk");
    error.tier = Tier::kHost;
    error.limit_reached = true;
    error.wanted_bytes = wanted_bytes;
    error.free_bytes = host_.limit_bytes - std::min(host_.limit_bytes, host_.used_bytes);
    error.limit_bytes = host_.limit_bytes;
    return error;
}

uint64_t SpillStore::append_to_blocks(Blocks& blocks, uint64_t bytes, const uint32_t* packed) {
    device_.make_current();
    const uint64_t at = blocks.used_bytes;
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t in_block = (at + done) % block_bytes_;
        const uint64_t some = std::min(bytes - done, block_bytes_ - in_block);
        uint8_t* const block = blocks.memory[(at + done) / block_bytes_].as<uint8_t>();
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(block + in_block, reinterpret_cast<const uint8_t*>(packed) + done, some,
                                            cudaMemcpyDefault, stream_.get()));
        done += some;
    }
    blocks.used_bytes += bytes;
    return at;
}

uint64_t SpillStore::append_to_disk(const FragmentSet& set, uint64_t bytes, const uint32_t* packed) {
    if (disk_ == nullptr) throw no_room(bytes);
    if (set.pieces.size() > 1) {
        ++disk_runs_;
        disk_runs_bytes_ += bytes;
    }
    return disk_->append(reinterpret_cast<const uint8_t*>(packed), bytes, stream_.get());
}

void SpillStore::append(int side, FragmentSet set, const uint32_t* packed) {
    const uint64_t bytes = set.words * sizeof(uint32_t);
    Blocks* const blocks = blocks_for(bytes);
    const uint64_t at =
        blocks == nullptr ? append_to_disk(set, bytes, packed) : append_to_blocks(*blocks, bytes, packed);
    side_bytes_[side] += bytes;
    for (const RowPiece& piece : set.pieces) side_rows_[side] += piece.rows;
    runs_[side].push_back({std::move(set), at, blocks});
}

void SpillStore::precede(CopyRing& ring) {
    if (disk_ != nullptr) disk_->finish(stream_.get());
    joint_.record(stream_.get());
    ring.wait_for(joint_);
}

void SpillStore::announce(int side, const std::vector<FragmentRange>& ranges) {
    for (const FragmentRange& range : ranges) {
        const Run& run = runs_[side][range.run];
        if (run.blocks == nullptr) disk_->announce(disk_range(run, range));
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

std::vector<uint64_t> SpillStore::partition_rows(int side, uint64_t partitions) const {
    std::vector<uint64_t> rows(partitions);
    for (const Run& run : runs_[side]) {
        for (const RowPiece& piece : run.set.pieces) rows[piece.partition] += piece.rows;
    }
    return rows;
}

std::vector<std::vector<FragmentRange>> SpillStore::find(int side, const std::vector<PartitionGroup>& groups) const {
    std::vector<std::vector<FragmentRange>> found(groups.size());
    if (groups.empty()) return found;
    constexpr size_t kNoGroup = SIZE_MAX;
    std::vector<size_t> group_of(groups.back().partitions.back() + 1, kNoGroup);
    for (size_t g = 0; g < groups.size(); ++g) {
        const std::vector<uint64_t>& partitions = groups[g].partitions;
        for (uint64_t p = partitions.front(); p <= partitions.back(); ++p) group_of[p] = g;
    }
    for (size_t run = 0; run < runs_[side].size(); ++run) {
        const FragmentSet& set = runs_[side][run].set;
        size_t before = kNoGroup;
        for (size_t piece = 0; piece < set.pieces.size(); ++piece) {
            const uint64_t partition = set.pieces[piece].partition;
            const size_t group = partition < group_of.size() ? group_of[partition] : kNoGroup;
            if (group == kNoGroup) continue;
            std::vector<FragmentRange>& ranges = found[group];
            if (group != before) ranges.push_back({run, piece, piece, 0, 0});
            before = group;
            FragmentRange& range = ranges.back();
            range.last = piece + 1;
            range.rows += set.pieces[piece].rows;
            range.bytes = (set.end_word(piece) - set.first_word[range.first]) * sizeof(uint32_t);
        }
    }
    return found;
}

DiskRange SpillStore::disk_range(const Run& run, const FragmentRange& range) const {
    return {run.at + run.set.first_word[range.first] * sizeof(uint32_t), range.bytes};
}

void SpillStore::load(int side, const FragmentRange& range, CopyRing& ring, uint32_t slot, uint64_t offset) {
    const Run& run = runs_[side][range.run];
    if (run.blocks == nullptr) return disk_->load(disk_range(run, range), ring, slot, offset);
    const std::vector<Allocation>& blocks = run.blocks->memory;
    const bool from_host = run.blocks->peer == nullptr;
    const uint64_t at = run.at + run.set.first_word[range.first] * sizeof(uint32_t);
    for (uint64_t done = 0; done < range.bytes;) {
        const uint64_t in_block = (at + done) % block_bytes_;
        const uint64_t some = std::min(range.bytes - done, block_bytes_ - in_block);
        ring.copy_together(slot, offset + done, blocks[(at + done) / block_bytes_].as<const uint8_t>() + in_block, some,
                           from_host);
        done += some;
    }
}

void SpillStore::tell(StreamReport& report) const {
    for (int side = 0; side < 2; ++side) {
        report.spilled_rows[side] = side_rows_[side];
        report.spilled_bytes[side] = side_bytes_[side];
    }
    report.peer_bytes = peer_.used_bytes;
    if (disk_ == nullptr) return;
    report.disk_written_bytes = disk_->written_bytes();
    report.disk_read_bytes = disk_->read_bytes();
}

}}  // namespace spillway::cuda::stream
