// SPDX-License-Identifier: Apache-2.0
// Group-bys beyond GPU memory whose spilled rows go to disk: how many of them, in which blocks, partitions that are
// read again for each part of their keys, disks that are slow or fail.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/spill_disks.hpp"
#include "support/staged_group_by_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;

constexpr std::chrono::microseconds kSlow{200};

const std::vector<WantedAggregate> kSumAndCount = {{Aggregate::kSum, 1}, {Aggregate::kCountRows}};

StreamSizes disk_sizes(StreamSizes sizes, uint64_t host_bytes, uint64_t disk_block_bytes, uint32_t disk_blocks) {
    sizes.spill_block_bytes = 4096;
    sizes.spill_bytes = host_bytes;
    sizes.disk_block_bytes = disk_block_bytes;
    sizes.disk_blocks = disk_blocks;
    return sizes;
}

StreamReport run_on(cuda::SpillDisk& disk, const StagedGroupByCheck& check, const StreamSizes& sizes,
                    const std::string& what, cuda::Device* peer = nullptr) {
    const StagedGroupBySpec spec = check.spec(sizes);
    PinnedChunks source = check.chunks(sizes);
    CollectingSink rows = check.sink(spec);
    return check.run(test_device(), spec, source, rows, what, &disk, peer);
}

// Bytes on disk are those of the report, all of them come back, and no memory stays behind.
StreamReport check_disk(const StagedGroupByCheck& check, const StreamSizes& sizes, const std::string& what) {
    cuda::Device& device = test_device();
    const uint64_t pinned_blocks = device.staging().blocks();
    MemoryDisk disk;
    const StreamReport report = run_on(disk, check, sizes, what);
    try {
        CHECK(report.disk_written_bytes > 0);
        CHECK_EQ(report.disk_written_bytes, disk.written_bytes());
        CHECK_EQ(report.disk_read_bytes, disk.read_bytes());
        CHECK(report.disk_read_bytes >= report.disk_written_bytes);
        CHECK(report.disk_written_bytes <= report.spilled_bytes[0]);
        CHECK(report.disk_written_bytes + sizes.spill_bytes >= report.spilled_bytes[0]);
        CHECK_EQ(device.staging().blocks(), pinned_blocks);
    } catch (const Failure& failure) {
        throw Failure(what + ": " + failure.what());
    }
    return report;
}

StagedGroupByCheck group_per_row(uint64_t rows) {
    return StagedGroupByCheck(keyed_values(sparse_keys(rows, test_seed()), 8, 0.02), kSumAndCount, true);
}

}  // namespace

GPU_TEST("staged group-by on disk: any share of the spilled rows") {
    const uint64_t rows = small_or_full(1500, 20'000);
    const StagedGroupByCheck check = group_per_row(rows);
    const StreamSizes some = ample_group_sizes(rows / 4, 3);
    const StreamSizes few = least_group_sizes(3);
    const StreamReport all = check_disk(check, disk_sizes(few, 0, 1000, 2), "all on disk");
    CHECK_EQ(all.disk_written_bytes, all.spilled_bytes[0]);
    check_disk(check, disk_sizes(few, 8192, 1 << 20, 2), "8 KiB in memory, one block holds all others");
    check_disk(check, disk_sizes(some, 0, 4096, 8), "resident partitions");
    if (!full_suite()) return;
    for (const uint64_t host_bytes : {0, 4095, 8192, 32'768}) {
        for (const uint64_t block_bytes : {500, 4096, 70'000}) {
            const std::string what = std::to_string(host_bytes) + " bytes in memory, " + std::to_string(block_bytes);
            check_disk(check, disk_sizes(few, host_bytes, block_bytes, 3), what);
            check_disk(check, disk_sizes(some, host_bytes, block_bytes, 2), what + ", resident partitions");
        }
    }
}

GPU_TEST("staged group-by on disk: a partition with more groups than pages is read again") {
    const uint64_t rows = small_or_full(1500, 8000);
    const StagedGroupByCheck check(keyed_values(repeated_keys(sparse_keys(rows / 2, test_seed()), 2, test_seed())),
                                   kSumAndCount);
    for (const uint64_t host_bytes : {0, 8192}) {
        const std::string what = "one partition, " + std::to_string(host_bytes) + " bytes in memory";
        const StreamReport report = check_disk(check, disk_sizes(least_group_sizes(0), host_bytes, 3000, 3), what);
        CHECK(report.narrowed_parts > 1);
        CHECK(report.disk_read_bytes > report.disk_written_bytes);
    }
    // Several partitions, each of which is cut.
    const StreamReport two = check_disk(check, disk_sizes(least_group_sizes(1), 4096, 1000, 2), "two of them");
    CHECK(two.narrowed_parts > 1);
}

GPU_TEST("staged group-by on disk: what the system does not pin") {
    const StagedGroupByCheck check = group_per_row(small_or_full(1500, 4000));
    const StreamSizes sizes = disk_sizes(least_group_sizes(3), 1 << 20, 2000, 3);
    check_refused_pinning([&](MemoryDisk& disk) { run_on(disk, check, sizes, "a refusal"); });
}

// The peer is a second logical device of the same GPU.
GPU_TEST("staged group-by on disk: a peer's memory takes rows first, then the host's, then the disk") {
    const StagedGroupByCheck check = group_per_row(small_or_full(1500, 5000));
    cuda::Device peer(test_device().ordinal(), 64ULL << 20);
    StreamSizes sizes = disk_sizes(least_group_sizes(3), 1 << 20, 2000, 3);
    sizes.peer_bytes = 1 << 20;
    MemoryDisk unused;
    const StreamReport all = run_on(unused, check, sizes, "all with the peer", &peer);
    CHECK_EQ(all.peer_bytes, all.spilled_bytes[0]);
    CHECK_EQ(unused.writes(), 0);
    sizes.peer_bytes = 8192;
    sizes.spill_bytes = 4096;
    MemoryDisk disk;
    const StreamReport three = run_on(disk, check, sizes, "every tier", &peer);
    CHECK(three.peer_bytes > 0 && three.peer_bytes <= 8192);
    CHECK(three.disk_written_bytes > 0);
    CHECK(three.peer_bytes + three.disk_written_bytes <= three.spilled_bytes[0]);
    CHECK_EQ(peer.memory().blocks(), 0);
}

GPU_TEST("staged group-by on disk: nothing is written where all is resident or memory suffices") {
    const uint64_t rows = small_or_full(600, 10'000);
    const StagedGroupByCheck check = group_per_row(rows);
    for (StreamSizes sizes : {ample_group_sizes(rows, 3), least_group_sizes(3)}) {
        sizes.disk_block_bytes = 4096;
        sizes.disk_blocks = 4;
        MemoryDisk disk;
        const StreamReport report = run_on(disk, check, sizes, "no disk needed");
        CHECK_EQ(disk.writes() + disk.reads(), 0);
        CHECK_EQ(report.disk_written_bytes + report.disk_read_bytes, 0);
    }
}

GPU_TEST("staged group-by on disk: a slow disk, and one in a file") {
    const uint64_t rows = small_or_full(1000, 10'000);
    const StagedGroupByCheck check = group_per_row(rows);
    const StreamSizes sizes = disk_sizes(least_group_sizes(2), 4096, small_or_full(2000, 30'000), 2);
    MemoryDisk slow(kSlow);
    run_on(slow, check, sizes, "a slow disk");
    CHECK(slow.reads() > 0);
    FileDisk file;
    run_on(file, check, sizes, "a file");
}

GPU_TEST("staged group-by on disk: writes and reads that fail") {
    const uint64_t rows = small_or_full(600, 5000);
    const StagedGroupByCheck check = group_per_row(rows);
    const StreamSizes sizes = disk_sizes(least_group_sizes(1), 0, 1000, 3);
    cuda::Device& device = test_device();
    const uint64_t blocks = device.memory().blocks();
    const uint64_t pinned_blocks = device.staging().blocks();
    MemoryDisk good;
    run_on(good, check, sizes, "a good disk");
    CHECK(good.writes() > 1);
    const auto check_failure = [&](uint64_t write, uint64_t read) {
        MemoryDisk disk;
        disk.failing_write = write;
        disk.failing_read = read;
        bool failed = false;
        try {
            run_on(disk, check, sizes, "a disk that fails");
        } catch (const DiskFailure&) {
            failed = true;
        }
        CHECK(failed);
        CHECK_EQ(device.memory().blocks(), blocks);
        CHECK_EQ(device.staging().blocks(), pinned_blocks);
    };
    for (const uint64_t n : {uint64_t{1}, good.writes() / 2}) check_failure(n, 0);
    for (const uint64_t n : {uint64_t{1}, good.reads() / 2}) check_failure(0, n);
    MemoryDisk again;
    run_on(again, check, sizes, "a group-by after a failure");
}

GPU_TEST("staged group-by on disk: cancelled while the disk is waited for") {
    const StagedGroupByCheck check = group_per_row(small_or_full(600, 5000));
    const StreamSizes sizes = disk_sizes(least_group_sizes(2), 0, 1000, 2);
    cuda::Device& device = test_device();
    const uint64_t pinned_blocks = device.staging().blocks();
    MemoryDisk disk(kSlow);
    disk.context = &device;
    disk.on_call = [](void* context) { static_cast<cuda::Device*>(context)->set_cancelled(true); };
    try {
        CHECK_THROWS(run_on(disk, check, sizes, "cancelled"), ErrorCode::kCancelled);
    } catch (...) {
        device.set_cancelled(false);
        throw;
    }
    device.set_cancelled(false);
    CHECK_EQ(device.staging().blocks(), pinned_blocks);
    MemoryDisk again;
    run_on(again, check, sizes, "a group-by after it was cancelled");
}

GPU_TEST("staged group-by on disk: sizes that no caller may give") {
    const StagedGroupByCheck check = group_per_row(100);
    MemoryDisk disk;
    for (const auto& [block_bytes, blocks] : {std::make_pair(4096, 1), std::make_pair(0, 2)}) {
        const StreamSizes sizes = disk_sizes(ample_group_sizes(100, 2), 4096, static_cast<uint64_t>(block_bytes),
                                             static_cast<uint32_t>(blocks));
        CHECK_THROWS(run_on(disk, check, sizes, "refused"), ErrorCode::kInvalid);
    }
}

}  // namespace spillway::gpu_test
