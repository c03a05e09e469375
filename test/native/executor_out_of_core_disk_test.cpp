// SPDX-License-Identifier: Apache-2.0
// Joins out of core whose spilled rows go to spill files: right rows, full disks, missing folders, nothing left behind.
#include <sys/resource.h>

#include <stdexcept>

#include "executor/streaming/spill_disk.hpp"
#include "support/out_of_core_trial.hpp"
#include "support/temporary_folder.hpp"

namespace spillway::test {

namespace {

using batches::BatchCollector;

// A join with little room for spilled rows in memory.
struct DiskTest : OutOfCoreTest {
    DiskTest() {
        space = std::make_shared<SpillSpace>(folder.path());
        cuda::StreamSizes& sizes = stage.join.sizes;
        sizes.spill_bytes = 1000;
        sizes.disk_block_bytes = 500;
        sizes.disk_blocks = 3;
    }

    void expect_right() {
        BatchCollector sink;
        run(&sink);
        EXPECT(rows_of(sink) == expected());
        sink.batches.clear();
        expect_clean();
    }

    const TemporaryFolder folder;
};

// As a file system that is full: SpillFile looks at the limit before it writes.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(uint64_t bytes) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const struct rlimit lower { bytes, before_.rlim_max };
        setrlimit(RLIMIT_FSIZE, &lower);
    }
    ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

  private:
    struct rlimit before_ {};
};

// A lack of memory for spilled rows that no disk took: with both options that would help.
void expect_no_way(OutOfCoreTest& test, const std::string& why) {
    BatchCollector sink;
    try {
        test.run(&sink);
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
        EXPECT_EQ(detail(error, "tier"), "host");
        EXPECT_EQ(detail(error, "option"), "memory.host");
        EXPECT_EQ(detail(error, "otherOption"), why.empty() ? "" : "memory.spillDirectory");
        EXPECT(std::stoull(detail(error, "wantedBytes")) > 1000);
        EXPECT(std::stoull(detail(error, "freeBytes")) < 1000);
        EXPECT_EQ(detail(error, "limitBytes"), "1000");
        EXPECT(error.message().find(why) != std::string::npos);
    }
    test.expect_clean();
    test.build.control.cancelled = false;
}

// 64 rows of keys alone.
class ChunkOfKeys final : public GpuChunkSource {
  public:
    bool next(cuda::Chunk& chunk) override {
        if (given_) return false;
        given_ = true;
        chunk = {};
        chunk.rows = 64;
        chunk.key = keys_;
        return true;
    }
    void release() noexcept override {}

  private:
    const uint32_t keys_[64] = {};
    bool given_ = false;
};

struct BadDisk final : GpuSpillDisk {
    explicit BadDisk(bool fails_to_write) : fails_to_write(fails_to_write) {}
    uint64_t write(const void*, uint64_t) override {
        if (fails_to_write) throw std::runtime_error("no write");
        return 7;
    }
    void read(uint64_t at, uint64_t, void*, uint64_t) override {
        EXPECT_EQ(at, 7u);
        throw std::runtime_error("no read");
    }
    const bool fails_to_write;
};

std::string failure_of(bool fails_to_write) {
    OutOfCoreGpu gpu(kOutOfCoreLimitBytes);
    cuda::StagedJoinSpec spec;
    spec.key_bytes = 4;
    spec.result = cuda::JoinResultKind::kCount;
    spec.sizes.radix_bits = 0;
    spec.sizes.resident_partitions = 0;
    spec.sizes.chunk_rows = spec.sizes.host_chunk_rows = spec.sizes.page_rows = 64;
    spec.sizes.pages = 2;
    spec.sizes.disk_block_bytes = 100;
    spec.sizes.disk_blocks = 2;
    BadDisk disk(fails_to_write);
    std::string what;
    try {
        GpuStream join = GpuStream::begin(gpu.device, spec, &disk);
        ChunkOfKeys build;
        ChunkOfKeys probe;
        join.run(kBuildSide, build, nullptr);
        join.run(kProbeSide, probe, nullptr);
    } catch (const std::runtime_error& error) {
        what = error.what();
    }
    EXPECT_EQ(gpu.device.memory().used_bytes, 0u);
    return what;
}

}  // namespace

TEST(executor_out_of_core_disk_gives_the_rows_of_the_join) {
    DiskTest test;
    BatchCollector sink;
    const cuda::StreamReport report = test.run(&sink);
    EXPECT(rows_of(sink) == test.expected());
    EXPECT(report.disk_written_bytes > 10'000);
    EXPECT_EQ(report.disk_read_bytes, report.disk_written_bytes);
    EXPECT_EQ(test.build.control.spilled_bytes.load(), report.disk_written_bytes);
    EXPECT_EQ(test.build.control.unspilled_bytes.load(), report.disk_read_bytes);
    sink.batches.clear();
    test.expect_clean();
    EXPECT_EQ(test.folder.entries(), 0u);
    EXPECT(test.space->kept_bytes() > 0);  // for the next job
    test.stage.join.sizes.spill_bytes = 0;
    test.expect_right();
}

TEST(executor_out_of_core_disk_is_left_alone_where_memory_suffices) {
    DiskTest test;
    test.stage.join.sizes.spill_bytes = kMiB;
    test.expect_right();
    EXPECT_EQ(test.build.control.spilled_bytes.load(), 0u);
    EXPECT_EQ(test.space->kept_bytes(), 0u);
}

TEST(executor_out_of_core_disk_that_is_full_ends_the_join) {
    DiskTest test;
    {
        const FileSizeLimit limit(4096);
        BatchCollector sink;
        try {
            test.run(&sink);
            EXPECT(false);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "DISK_FULL");
            EXPECT_EQ(detail(error, "tier"), "disk");
            EXPECT_EQ(detail(error, "path"), test.folder.path());
            EXPECT_EQ(detail(error, "option"), "memory.spillDirectory");
            EXPECT_EQ(detail(error, "delivered"), "");
        }
    }
    EXPECT_EQ(test.folder.entries(), 0u);
    EXPECT_EQ(test.space->kept_bytes(), 0u);
    test.expect_clean();
    test.build.control.cancelled = false;
    test.expect_right();
}

TEST(executor_out_of_core_disk_needs_a_folder) {
    DiskTest test;
    test.space = std::make_shared<SpillSpace>("");
    expect_no_way(test, "there is no folder for spill files; set memory.spillDirectory");
    const std::string nothing = test.folder.file("nothing");
    test.space = std::make_shared<SpillSpace>(nothing);
    expect_no_way(test, "the spill folder '" + nothing + "' does not exist; set memory.spillDirectory");
    test.space = nullptr;
    expect_no_way(test, "");
    // A folder that cannot be used does no harm to those that need none.
    test.space = std::make_shared<SpillSpace>(nothing);
    test.stage.join.sizes.spill_bytes = kMiB;
    test.expect_right();
}

TEST(executor_out_of_core_disk_takes_what_the_system_does_not_pin) {
    DiskTest test;
    test.stage.join.sizes.spill_bytes = kMiB;
    test.gpu.folder.behave("pins-nothing");
    BatchCollector sink;
    const cuda::StreamReport report = test.run(&sink);
    EXPECT(rows_of(sink) == test.expected());
    sink.batches.clear();
    test.expect_clean();
    test.stage.join.sizes.spill_bytes = 0;
    EXPECT_EQ(test.run(&sink).disk_written_bytes, report.disk_written_bytes);
    test.stage.join.sizes.spill_bytes = kMiB;
    sink.batches.clear();
    test.space = std::make_shared<SpillSpace>("");
    try {
        test.run(&sink);
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error_code_name(error.code())), "OUT_OF_MEMORY");
        EXPECT_EQ(detail(error, "tier"), "host");
        EXPECT_EQ(detail(error, "otherOption"), "memory.spillDirectory");
    }
    test.expect_clean();
}

TEST(executor_out_of_core_disk_comes_after_a_peer_and_host_memory) {
    DiskTest test;
    cuda::StreamSizes& sizes = test.stage.join.sizes;
    EXPECT_EQ(test.gpu.device.open_peer(-1, kMiB).memory_bytes, 0u);  // there is no other GPU
    const GpuPeer peer = test.gpu.device.open_peer(0, 6000);
    EXPECT_EQ(peer.memory_bytes, 6000u);
    EXPECT(peer.read_bytes_per_ms > peer.write_bytes_per_ms);
    BatchCollector sink;
    EXPECT_EQ(test.run(&sink).peer_bytes, 0u);  // that of the plan
    sink.batches.clear();
    uint64_t disk_bytes = UINT64_MAX;
    for (const uint64_t peer_bytes : {2000, 100'000}) {
        sizes.peer_bytes = peer_bytes;
        const cuda::StreamReport report = test.run(&sink);
        EXPECT(rows_of(sink) == test.expected());
        EXPECT(report.peer_bytes > 1900 && report.peer_bytes <= std::min<uint64_t>(peer_bytes, 6000));
        EXPECT(report.disk_written_bytes > 0 && report.disk_written_bytes < disk_bytes);
        disk_bytes = report.disk_written_bytes;
        sink.batches.clear();
        test.expect_clean();
    }
    sizes.disk_blocks = 0;
    sizes.spill_bytes = kMiB;
    EXPECT_EQ(test.run(&sink).disk_written_bytes, 0u);
}

TEST(executor_out_of_core_disk_that_fails_says_so_itself) {
    EXPECT_EQ(failure_of(true), "no write");
    EXPECT_EQ(failure_of(false), "no read");
}

TEST(executor_out_of_core_disk_reads_from_any_place) {
    const TemporaryFolder folder;
    JobControl control;
    SpillDisk disk(std::make_shared<SpillSpace>(folder.path()), control);
    std::vector<uint64_t> places;
    for (int i = 0; i < 9; ++i) {
        const std::vector<uint8_t> bytes(5000, static_cast<uint8_t>(i));
        places.push_back(disk.write(bytes.data(), bytes.size()));
    }
    for (size_t i = 0; i < places.size(); ++i) {
        std::vector<uint8_t> bytes(4500, 0xff);
        disk.read(places[i], 500, bytes.data(), bytes.size());
        EXPECT(bytes == std::vector<uint8_t>(4500, static_cast<uint8_t>(i)));
    }
}

}  // namespace spillway::test
