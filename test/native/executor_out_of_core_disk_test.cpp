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

// 64 rows of keys alone.
class ChunkOfKeys final : public GpuChunkSource {
  public:
    bool next(cuda::Chunk& chunk) override {
        if (given_) return false;
        given_ = true;
        chunk = {64, keys_, nullptr, {}};
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
    spec.sizes.chunk_rows = spec.sizes.page_rows = 64;
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
    BatchCollector sink;
    test.space = std::make_shared<SpillSpace>("");
    EXPECT_ERROR(kInvalidArgument, test.run(&sink));
    test.build.control.cancelled = false;
    test.space = std::make_shared<SpillSpace>(test.folder.file("nothing"));
    EXPECT_ERROR(kInvalidArgument, test.run(&sink));
    test.expect_clean();
    test.build.control.cancelled = false;
    // Without one, what memory has no room for is an error of memory.
    test.space = nullptr;
    EXPECT_ERROR(kBudgetTooSmall, test.run(&sink));
    test.expect_clean();
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
