// SPDX-License-Identifier: Apache-2.0
// Group-bys out of core whose spilled rows go to spill files: right groups, full disks, missing folders, nothing left
// behind.
#include <sys/resource.h>

#include "support/out_of_core_group_trial.hpp"
#include "support/temporary_folder.hpp"

namespace spillway::test {

namespace {

using batches::BatchCollector;

// A group-by with little room for spilled rows in memory.
struct GroupDiskTest : GroupTest {
    GroupDiskTest() {
        space = std::make_shared<SpillSpace>(folder.path());
        cuda::StreamSizes& sizes = stage.group.sizes;
        sizes.spill_bytes = 1000;
        sizes.disk_block_bytes = 500;
        sizes.disk_blocks = 3;
    }

    cuda::StreamReport expect_right() {
        BatchCollector sink;
        const cuda::StreamReport report = run(&sink);
        EXPECT(rows_of(sink) == expected());
        sink.batches.clear();
        expect_clean();
        EXPECT_EQ(folder.entries(), 0u);
        return report;
    }

    const TemporaryFolder folder;
};

}  // namespace

TEST(executor_out_of_core_group_disk_gives_the_groups) {
    GroupDiskTest test;
    const cuda::StreamReport report = test.expect_right();
    EXPECT(report.disk_written_bytes > 1500);
    EXPECT_EQ(report.disk_read_bytes, report.disk_written_bytes);
    EXPECT_EQ(test.side.control.spilled_bytes.load(), report.disk_written_bytes);
    EXPECT_EQ(test.side.control.unspilled_bytes.load(), report.disk_read_bytes);
    EXPECT(test.space->kept_bytes() > 0);  // for the next job
    test.stage.group.sizes.spill_bytes = 0;
    EXPECT(test.expect_right().disk_written_bytes > report.disk_written_bytes);
    EXPECT_EQ(test.run(nullptr).result_rows, test.expected().size());
}

TEST(executor_out_of_core_group_disk_is_left_alone_where_memory_suffices) {
    GroupDiskTest test;
    test.stage.group.sizes.spill_bytes = kMiB;
    const cuda::StreamReport report = test.expect_right();
    EXPECT(report.spilled_rows[0] > 0);
    EXPECT_EQ(report.disk_written_bytes, 0u);
    EXPECT_EQ(test.side.control.spilled_bytes.load(), 0u);
    EXPECT_EQ(test.space->kept_bytes(), 0u);
}

TEST(executor_out_of_core_group_disk_counts_its_blocks_in_the_budget) {
    GroupDiskTest test;
    test.stage.group.sizes.disk_block_bytes = test.side.budget.limit();
    BatchCollector sink;
    EXPECT_ERROR(kBudgetTooSmall, test.run(&sink));
    test.expect_clean();
}

TEST(executor_out_of_core_group_disk_that_is_full_ends_the_group_by) {
    GroupDiskTest test;
    {
        // As a file system that is full: SpillFile looks at the limit before it writes.
        struct rlimit before {};
        getrlimit(RLIMIT_FSIZE, &before);
        const struct rlimit lower { 4096, before.rlim_max };
        setrlimit(RLIMIT_FSIZE, &lower);
        BatchCollector sink;
        try {
            test.run(&sink);
            EXPECT(false);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "DISK_FULL");
            EXPECT_EQ(detail(error, "tier"), "disk");
            EXPECT_EQ(detail(error, "path"), test.folder.path());
            EXPECT_EQ(detail(error, "delivered"), "");
        }
        setrlimit(RLIMIT_FSIZE, &before);
    }
    EXPECT_EQ(test.folder.entries(), 0u);
    EXPECT_EQ(test.space->kept_bytes(), 0u);
    test.expect_clean();
    test.side.control.cancelled = false;
    test.expect_right();
}

TEST(executor_out_of_core_group_disk_needs_a_folder) {
    GroupDiskTest test;
    const std::string nothing = test.folder.file("nothing");
    for (const auto& space : {std::make_shared<SpillSpace>(nothing), std::shared_ptr<SpillSpace>()}) {
        test.space = space;
        BatchCollector sink;
        try {
            test.run(&sink);
            EXPECT(false);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
            EXPECT_EQ(detail(error, "tier"), "host");
            EXPECT_EQ(detail(error, "option"), "memory.host");
            EXPECT_EQ(detail(error, "otherOption"), space == nullptr ? "" : "memory.spillDirectory");
            EXPECT_EQ(error.message().find(nothing) != std::string::npos, space != nullptr);
        }
        test.expect_clean();
        test.side.control.cancelled = false;
    }
    test.space = std::make_shared<SpillSpace>(nothing);
    test.stage.group.sizes.spill_bytes = kMiB;
    test.expect_right();
}

TEST(executor_out_of_core_group_disk_takes_what_the_system_does_not_pin) {
    GroupDiskTest test;
    test.stage.group.sizes.spill_bytes = kMiB;
    test.gpu.folder.behave("pins-nothing");
    const uint64_t written_bytes = test.expect_right().disk_written_bytes;
    test.stage.group.sizes.spill_bytes = 0;
    EXPECT_EQ(test.expect_right().disk_written_bytes, written_bytes);
    test.stage.group.sizes.spill_bytes = kMiB;
    test.space = nullptr;
    BatchCollector sink;
    EXPECT_ERROR(kOutOfMemory, test.run(&sink));
    test.expect_clean();
}

}  // namespace spillway::test
