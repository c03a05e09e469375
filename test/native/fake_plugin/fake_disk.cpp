// SPDX-License-Identifier: Apache-2.0
#include "fake_disk.hpp"

#include <algorithm>
#include <thread>

namespace fake {

namespace {

// On a thread of its own; -1: it failed.
template <class Call>
void on_thread(Call call) {
    int32_t told = 0;
    std::thread([&] { told = call(); }).join();
    if (told < 0) throw Failure{SPILLWAY_CUDA_CANCELLED, "a disk of the caller failed"};
}

// Not a divisor of anything: the real plugin begins reads wherever rows begin.
constexpr uint64_t kReadBytes = 997;

}  // namespace

FakeDisk::FakeDisk(const DiskCalls* disk, uint64_t block_bytes, uint32_t blocks) : block_bytes_(block_bytes) {
    if (disk == nullptr || blocks == 0) return;
    if (blocks < 2 || block_bytes_ == 0) throw Failure{SPILLWAY_CUDA_INVALID, "two blocks at least"};
    disk_ = *disk;
}

void FakeDisk::append(int side, const std::string& bytes) {
    pending_[side] += bytes;
    while (pending_[side].size() >= block_bytes_) write(side);
}

void FakeDisk::write(int side) {
    const uint64_t bytes = std::min<uint64_t>(block_bytes_, pending_[side].size());
    Written written{0, bytes};
    on_thread([&] { return disk_.write(disk_.context, pending_[side].data(), bytes, &written.at); });
    written_[side].push_back(written);
    written_bytes_ += bytes;
    pending_[side].erase(0, bytes);
}

std::string FakeDisk::read(int side) {
    if (!pending_[side].empty()) write(side);
    std::string all;
    on_thread([&] {
        for (const Written& block : written_[side]) {
            for (uint64_t done = 0; done < block.bytes; done += kReadBytes) {
                std::string part(std::min(kReadBytes, block.bytes - done), '\0');
                if (disk_.read(disk_.context, block.at, done, part.data(), part.size()) < 0) return -1;
                all += part;
            }
        }
        return 0;
    });
    read_bytes_ += all.size();
    return all;
}

}  // namespace fake
