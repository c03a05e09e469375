// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory whose spilled rows go to disk: how many of them, in which blocks, through disks that are slow
// or fail.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "stream/disk_tier.hpp"
#include "support/device_array.hpp"
#include "support/spill_disks.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::DiskRange;
using cuda::DiskTier;
using cuda::ErrorCode;

constexpr std::chrono::microseconds kSlow{200};

class DiskJoin {
  public:
    explicit DiskJoin(uint64_t rows, const JoinKind& kind = {JoinEmit::kPairs, false, true, true})
        : build_(sparse_keys(rows, test_seed()), 8, {8}, test_seed(), 0.02),
          probe_(foreign_keys(sparse_keys(rows, test_seed()), 2 * rows, 0.7, test_seed()), 8, {4}, test_seed() + 1),
          check_(build_, probe_, kind) {}

    StagedJoinOutcome run(const StreamSizes& sizes, JoinResultKind result, cuda::SpillDisk& disk,
                          const std::string& what, cuda::Device* peer = nullptr) const {
        const StagedJoinSpec spec = check_.spec(result, sizes);
        PinnedChunks build = check_.chunks(0, sizes);
        PinnedChunks probe = check_.chunks(1, sizes);
        CollectingSink rows = check_.sink();
        CollectingSink* const sink = result == JoinResultKind::kRows ? &rows : nullptr;
        const StagedJoinOutcome outcome = run_staged_join(test_device(), spec, build, probe, sink, &disk, peer);
        check_.check(spec, outcome, what);
        return outcome;
    }

  private:
    KeyedRelation build_;
    KeyedRelation probe_;
    StagedJoinCheck check_;
};

StreamSizes disk_sizes(StreamSizes sizes, uint64_t host_bytes, uint64_t disk_block_bytes, uint32_t disk_blocks) {
    sizes.spill_block_bytes = 4096;
    sizes.spill_bytes = host_bytes;
    sizes.disk_block_bytes = disk_block_bytes;
    sizes.disk_blocks = disk_blocks;
    return sizes;
}

uint64_t spilled_bytes(const StreamReport& report) {
    return report.spilled_bytes[0] + report.spilled_bytes[1];
}

// Bytes on disk are those of the report, all of them come back, and no memory stays behind.
void check_disk(const DiskJoin& join, const StreamSizes& sizes, JoinResultKind result, const std::string& what) {
    cuda::Device& device = test_device();
    const uint64_t pinned_blocks = device.staging().blocks();
    MemoryDisk disk;
    const StreamReport report = join.run(sizes, result, disk, what).report;
    try {
        CHECK_EQ(report.disk_written_bytes, disk.written_bytes());
        CHECK_EQ(report.disk_read_bytes, disk.read_bytes());
        CHECK(report.disk_read_bytes >= report.disk_written_bytes);
        CHECK(report.disk_written_bytes <= spilled_bytes(report));
        CHECK(report.disk_written_bytes + sizes.spill_bytes >= spilled_bytes(report));
        CHECK_EQ(device.staging().blocks(), pinned_blocks);
    } catch (const Failure& failure) {
        throw Failure(what + ": " + failure.what());
    }
}

// One round: what was appended is `bytes`, and comes back range by range.
void check_round(DiskTier& tier, cuda::CopyRing& ring, const std::vector<uint8_t>& bytes,
                 const std::vector<DiskRange>& ranges) {
    for (const DiskRange& range : ranges) tier.announce(range);
    for (size_t i = 0; i < ranges.size(); ++i) {
        const DiskRange& range = ranges[i];
        const uint64_t offset = bytes.size() - range.bytes;
        const uint32_t slot = ring.take();
        tier.load(range, ring, slot, offset);
        ring.filled(slot);
        ring.wait_copied(slot);
        std::vector<uint8_t> found(range.bytes);
        if (range.bytes > 0) {
            CHECK_CUDA(cudaMemcpy(found.data(), ring.data(slot) + offset, range.bytes, cudaMemcpyDeviceToHost));
        }
        CHECK(std::equal(found.begin(), found.end(), bytes.begin() + static_cast<int64_t>(range.at)));
        ring.emptied(slot);
        if (i == 0) CHECK_THROWS(tier.announce({0, 1}), ErrorCode::kInternal);
    }
}

}  // namespace

GPU_TEST("staged join on disk: any ranges of what was written, in any order, by blocks of any size") {
    const uint64_t total_bytes = small_or_full(50'000, 1'500'000);
    std::mt19937_64 random(test_seed());
    std::vector<uint8_t> bytes(total_bytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const DeviceArray<uint8_t> from = upload(bytes);
    cuda::Device& device = test_device();
    // The system pins any number of blocks, or as many as are before the one that it refuses: where that is less than
    // two, the others are plain memory.
    const std::pair<uint64_t, uint64_t> blocks[] = {{997, 0},         {997, 1},         {997, 2},
                                                    {4096, 0},        {4096, 1},        {4096, 4},
                                                    {total_bytes, 0}, {total_bytes, 2}, {2 * total_bytes, 0}};
    for (const auto& [block_bytes, refused] : blocks) {
        MemoryDisk disk;
        cuda::CopyRing ring(device, 2, total_bytes);
        cuda::Stream stream;
        DiskTier tier(device, disk, block_bytes, block_bytes == 997 ? 2 : 5);
        const uint64_t pinned_blocks = device.staging().blocks();
        const InjectedFault fault(device.staging(), refused);
        for (uint64_t done = 0; done < total_bytes;) {
            const uint64_t some = std::min(total_bytes - done, random() % 9000);
            CHECK_EQ(tier.append(from.data() + done, some, stream.get()), done);
            done += some;
        }
        tier.finish(stream.get());
        CHECK_EQ(disk.written_bytes(), total_bytes);
        const uint64_t pinned = device.staging().blocks() - pinned_blocks;
        if (refused > 0) CHECK_EQ(pinned, refused - 1);
        if (refused == 0) CHECK_EQ(pinned, block_bytes == 997 ? 2 : 5);
        uint64_t read_bytes = 0;
        // The first round ends within a block, most likely, the second one is short, the third begins anew.
        for (const size_t count : {30, 5, 12}) {
            std::vector<DiskRange> ranges = {{0, total_bytes}, {total_bytes - 1, 1}, {0, 0}, {0, 1}};
            if (count == 5) ranges = {{total_bytes / 2, 1}};
            while (ranges.size() < count) {
                const uint64_t at = random() % total_bytes;
                ranges.push_back({at, std::min(total_bytes - at, random() % 7000)});
            }
            check_round(tier, ring, bytes, ranges);
            for (const DiskRange& range : ranges) read_bytes += range.bytes;
            CHECK_EQ(tier.read_bytes(), read_bytes);
            CHECK_EQ(disk.read_bytes(), read_bytes);
        }
        const uint32_t slot = ring.take();
        CHECK_THROWS(tier.load({0, 1}, ring, slot, 0), ErrorCode::kInternal);
    }
}

GPU_TEST("staged join on disk: joins with any share of their spilled rows on disk") {
    const uint64_t rows = small_or_full(600, 8'000);
    const DiskJoin join(rows);
    const StreamSizes none = spilled_sizes(rows, 3, 0);
    const StreamSizes some = spilled_sizes(rows, 3, 3);
    check_disk(join, disk_sizes(none, 0, 1000, 2), JoinResultKind::kRows, "all on disk, blocks of 1000 bytes");
    check_disk(join, disk_sizes(some, 16'384, 4096, 8), JoinResultKind::kSums, "16 KiB in memory");
    check_disk(join, disk_sizes(least_sizes(3), 4096, 1 << 20, 2), JoinResultKind::kCount, "partitions that leave");
    check_disk(join, disk_sizes(least_sizes(0), 0, 5000, 3), JoinResultKind::kRows, "a partition in parts");
    if (!full_suite()) return;
    for (const uint64_t host_bytes : {0, 4095, 8192, 65'536}) {
        for (const uint64_t block_bytes : {500, 4096, 70'000}) {
            const std::string what = std::to_string(host_bytes) + " bytes in memory, " + std::to_string(block_bytes);
            check_disk(join, disk_sizes(none, host_bytes, block_bytes, 3), JoinResultKind::kRows, what);
            check_disk(join, disk_sizes(some, host_bytes, block_bytes, 2), JoinResultKind::kSums, what);
        }
    }
}

GPU_TEST("staged join on disk: what the system does not pin") {
    const uint64_t rows = small_or_full(600, 2000);
    const DiskJoin join(rows);
    const StreamSizes sizes = disk_sizes(spilled_sizes(rows, 2, 0), 1 << 20, 2000, 3);
    check_refused_pinning([&](MemoryDisk& disk) { join.run(sizes, JoinResultKind::kRows, disk, "a refusal"); });
}

// The peer is a second logical device of the same GPU: all but the link between them is that of two.
GPU_TEST("staged join on disk: a peer's memory takes rows first, then the host's, then the disk") {
    const uint64_t rows = small_or_full(600, 5000);
    const DiskJoin join(rows);
    cuda::Device peer(test_device().ordinal(), 64ULL << 20);
    StreamSizes sizes = disk_sizes(spilled_sizes(rows, 2, 0), 0, 2000, 3);
    const auto run = [&](uint64_t peer_bytes, uint64_t host_bytes, const std::string& what) {
        sizes.peer_bytes = peer_bytes;
        sizes.spill_bytes = host_bytes;
        MemoryDisk disk;
        const StreamReport report = join.run(sizes, JoinResultKind::kRows, disk, what, &peer).report;
        CHECK_EQ(peer.memory().blocks(), 0);
        CHECK(report.peer_bytes <= peer_bytes);
        CHECK_EQ(disk.written_bytes(), report.disk_written_bytes);
        return report;
    };
    const StreamReport all = run(1 << 20, 1 << 20, "all with the peer");
    CHECK_EQ(all.peer_bytes, spilled_bytes(all));
    CHECK_EQ(all.disk_written_bytes, 0);
    const uint64_t few = small_or_full(8192, 16'384);
    const StreamReport two = run(few, 1 << 20, "some with the peer, the rest in host memory");
    CHECK(two.peer_bytes > 0);
    CHECK_EQ(two.disk_written_bytes, 0);
    const StreamReport three = run(few, 4096, "every tier");
    CHECK(three.peer_bytes > 0 && three.disk_written_bytes > 0);
    CHECK(three.peer_bytes + three.disk_written_bytes <= spilled_bytes(three));
    const StreamReport rest = run(few, 0, "some with the peer, the rest on disk");
    CHECK_EQ(rest.peer_bytes + rest.disk_written_bytes, spilled_bytes(rest));
    for (const uint64_t n : {1, 2}) {
        const InjectedFault fault(peer.memory(), n);
        const StreamReport refused = run(1 << 20, 1 << 20, "a peer that has no more memory");
        CHECK(refused.peer_bytes < spilled_bytes(refused));
        CHECK_EQ(refused.disk_written_bytes, 0);
    }
}

GPU_TEST("staged join on disk: nothing is written where all is resident or memory suffices") {
    const uint64_t rows = small_or_full(600, 20'000);
    const DiskJoin join(rows);
    for (const StreamSizes& sizes : {ample_sizes(rows, 3), spilled_sizes(rows, 3, 0)}) {
        MemoryDisk disk;
        StreamSizes with_disk = sizes;
        with_disk.disk_block_bytes = 4096;
        with_disk.disk_blocks = 4;
        const StreamReport report = join.run(with_disk, JoinResultKind::kCount, disk, "no disk needed").report;
        CHECK_EQ(disk.writes() + disk.reads(), 0);
        CHECK_EQ(report.disk_written_bytes + report.disk_read_bytes, 0);
    }
}

GPU_TEST("staged join on disk: a slow disk, and one in a file") {
    const uint64_t rows = small_or_full(600, 20'000);
    const DiskJoin join(rows);
    const StreamSizes sizes = disk_sizes(spilled_sizes(rows, 2, 0), 4096, small_or_full(2000, 30'000), 2);
    MemoryDisk slow(kSlow);
    join.run(sizes, JoinResultKind::kRows, slow, "a slow disk");
    CHECK(slow.reads() > 0);
    FileDisk file;
    join.run(sizes, JoinResultKind::kRows, file, "a file");
}

GPU_TEST("staged join on disk: writes and reads that fail") {
    const uint64_t rows = small_or_full(600, 5000);
    const DiskJoin join(rows);
    const StreamSizes sizes = disk_sizes(spilled_sizes(rows, 2, 0), 4096, 2000, 3);
    cuda::Device& device = test_device();
    const uint64_t blocks = device.memory().blocks();
    const uint64_t pinned_blocks = device.staging().blocks();
    MemoryDisk good;
    join.run(sizes, JoinResultKind::kRows, good, "a good disk");
    const auto check_failure = [&](uint64_t write, uint64_t read) {
        MemoryDisk disk;
        disk.failing_write = write;
        disk.failing_read = read;
        bool failed = false;
        try {
            join.run(sizes, JoinResultKind::kRows, disk, "a disk that fails");
        } catch (const DiskFailure&) {
            failed = true;
        }
        CHECK(failed);
        CHECK_EQ(device.memory().blocks(), blocks);
        CHECK_EQ(device.staging().blocks(), pinned_blocks);
    };
    for (const uint64_t n : {uint64_t{1}, good.writes() / 2, good.writes()}) check_failure(n, 0);
    for (const uint64_t n : {uint64_t{1}, good.reads() / 2, good.reads()}) check_failure(0, n);
    MemoryDisk again;
    join.run(sizes, JoinResultKind::kRows, again, "a join after a failure");
}

GPU_TEST("staged join on disk: cancelled while the disk is waited for") {
    const uint64_t rows = small_or_full(600, 5000);
    const DiskJoin join(rows);
    const StreamSizes sizes = disk_sizes(spilled_sizes(rows, 2, 0), 0, 2000, 2);
    cuda::Device& device = test_device();
    const uint64_t pinned_blocks = device.staging().blocks();
    MemoryDisk disk(kSlow);
    disk.context = &device;
    disk.on_call = [](void* context) { static_cast<cuda::Device*>(context)->set_cancelled(true); };
    try {
        CHECK_THROWS(join.run(sizes, JoinResultKind::kRows, disk, "cancelled"), ErrorCode::kCancelled);
    } catch (...) {
        device.set_cancelled(false);
        throw;
    }
    device.set_cancelled(false);
    CHECK_EQ(device.staging().blocks(), pinned_blocks);
    MemoryDisk again;
    join.run(sizes, JoinResultKind::kRows, again, "a join after it was cancelled");
}

GPU_TEST("staged join on disk: sizes that no caller may give") {
    const DiskJoin join(100);
    MemoryDisk disk;
    for (const auto& [block_bytes, blocks] : {std::make_pair(4096, 1), std::make_pair(0, 2)}) {
        const StreamSizes sizes =
            disk_sizes(ample_sizes(100, 2), 4096, static_cast<uint64_t>(block_bytes), static_cast<uint32_t>(blocks));
        CHECK_THROWS(join.run(sizes, JoinResultKind::kCount, disk, "refused"), ErrorCode::kInvalid);
    }
}

}  // namespace spillway::gpu_test
