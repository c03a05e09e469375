// SPDX-License-Identifier: Apache-2.0
// Joins out of core whose readers are slow, whose sources and sinks fail, whose memory does not suffice.
#include <chrono>
#include <filesystem>
#include <thread>

#include "executor/device_job.hpp"
#include "executor/kept_pinned.hpp"
#include "support/out_of_core_trial.hpp"

namespace spillway::test {

namespace {

class FailingSink final : public BatchSink {
  public:
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&&) override {
        if (++pushed == 3) throw Error(ErrorCode::kDiskFull, "no room");
    }
    BatchSize batch_size() const override { return {.rows = 100}; }
    std::atomic<int> pushed{0};
};

// A reader that takes its time.
class SlowSink final : public BatchSink {
  public:
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&& batch) override {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        rows += static_cast<uint64_t>(batch.rows);
    }
    BatchSize batch_size() const override { return {.rows = 100}; }
    std::atomic<uint64_t> rows{0};
};

}  // namespace

TEST(executor_out_of_core_waits_for_a_slow_reader) {
    OutOfCoreTest test;
    SlowSink sink;
    const cuda::StreamReport report = test.run(&sink);
    EXPECT_EQ(report.result_rows, sink.rows.load());
    EXPECT(test.pauses.load() > 0);  // others may use the GPU meanwhile
    test.expect_clean();
}

TEST(executor_out_of_core_ends_when_its_sink_fails) {
    OutOfCoreTest test;
    FailingSink sink;
    EXPECT_ERROR(kDiskFull, test.run(&sink));
    test.expect_clean();
    test.build.control.cancelled = false;
    batches::BatchCollector again;
    test.run(&again);
    EXPECT(rows_of(again) == test.expected());
}

TEST(executor_out_of_core_ends_when_a_source_fails) {
    OutOfCoreTest test;
    std::filesystem::resize_file(test.probe.files[0]->path(), 64);
    batches::BatchCollector sink;
    EXPECT_ERROR(kFileTruncated, test.run(&sink));
    test.expect_clean();
}

TEST(executor_out_of_core_stops_when_the_job_does) {
    OutOfCoreTest test;
    test.build.control.cancelled = true;
    batches::BatchCollector sink;
    EXPECT_ERROR(kAborted, test.run(&sink));
    test.expect_clean();
}

// Whoever asked for rows and got none may ask for them in another way: never where some have been given.
TEST(executor_out_of_core_errors_say_that_nothing_was_delivered) {
    const auto delivered = [](ErrorCode code, bool gave_rows) {
        try {
            try {
                throw Error(code, "message", {{"tier", "device"}});
            } catch (const Error& error) {
                rethrow_undelivered(error, gave_rows);
            }
        } catch (const Error& error) {
            EXPECT(error.code() == code);
            EXPECT_EQ(error.message(), std::string("message"));
            EXPECT_EQ(detail(error, "tier"), std::string("device"));
            return detail(error, "delivered");
        }
    };
    for (const ErrorCode code : {ErrorCode::kBudgetTooSmall, ErrorCode::kOutOfMemory, ErrorCode::kNoDevice}) {
        EXPECT_EQ(delivered(code, false), std::string("nothing"));
        EXPECT_EQ(delivered(code, true), std::string());
    }
    EXPECT_EQ(delivered(ErrorCode::kDiskFull, false), std::string());
}

TEST(executor_out_of_core_says_which_memory_is_too_small) {
    const auto tier_of = [](OutOfCoreTest& test) {
        batches::BatchCollector sink;
        try {
            test.run(&sink);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
            EXPECT_EQ(detail(error, "delivered"), "nothing");
            test.expect_clean();
            return detail(error, "tier") + " " + detail(error, "option");
        }
        return std::string("nothing");
    };
    OutOfCoreTest small(10 * kMiB);
    EXPECT_EQ(tier_of(small), "device memory.device");
    OutOfCoreTest spills;
    spills.stage.join.sizes.spill_bytes = 1000;
    EXPECT_EQ(tier_of(spills), "host memory.host");
    OutOfCoreTest host;
    host.stage.join.sizes.spill_bytes = 1ULL << 40;
    EXPECT_EQ(tier_of(host), "host memory.host");
}

TEST(executor_kept_pinned_memory_counts_until_somebody_needs_it) {
    OutOfCoreGpu gpu(kMiB);
    MemoryBudget budget(20 * kMiB);
    const auto owned = kept_pinned(gpu.device, budget, 2 * kMiB);
    KeptPinned& kept = *owned;
    const auto used_by_a_join = [&] {
        const PinnedReservation reserved = kept.reserve(10 * kMiB, "test");
        EXPECT_EQ(budget.used(), 10 * kMiB);
        gpu.device.allocate_pinned(10 * kMiB, "test");
    };
    used_by_a_join();
    EXPECT_EQ(budget.used(), 8 * kMiB);
    used_by_a_join();
    EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 10 * kMiB);
    {
        const Reservation all = budget.reserve(16 * kMiB, "test");
        EXPECT_EQ(budget.used(), 16 * kMiB);
        EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 0u);
    }
    {
        PinnedReservation reserved = kept.reserve(10 * kMiB, "test");
        gpu.device.allocate_pinned(10 * kMiB, "test");
        const Reservation all = budget.reserve(10 * kMiB, "test");
        reserved.release();
        EXPECT_EQ(budget.used(), 18 * kMiB);
        const Reservation rest = budget.reserve(10 * kMiB, "test");
        EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 0u);
    }
    used_by_a_join();
    kept.trim();
    EXPECT_EQ(budget.used(), 0u);
    EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 0u);
}

TEST(executor_kept_pinned_memory_counts_beside_a_smaller_join) {
    OutOfCoreGpu gpu(kMiB);
    MemoryBudget budget(20 * kMiB);
    const auto owned = kept_pinned(gpu.device, budget, 0);
    KeptPinned& kept = *owned;
    {
        const PinnedReservation large = kept.reserve(10 * kMiB, "test");
        gpu.device.allocate_pinned(10 * kMiB, "test");
    }
    EXPECT_EQ(budget.used(), 10 * kMiB);
    PinnedReservation small = kept.reserve(3 * kMiB, "test");
    EXPECT_EQ(budget.used(), 10 * kMiB);  // 7 of them kept
    PinnedReservation other = kept.reserve(9 * kMiB, "test");
    EXPECT_EQ(budget.used(), 12 * kMiB);  // none is
    other.release();
    EXPECT_EQ(budget.used(), 10 * kMiB);
    {
        // Who needs the room gets it while the small one runs, but for the segment of 4 MiB that this one uses.
        const PinnedBlock own = gpu.device.allocate_pinned(3 * kMiB, "test");
        EXPECT_ERROR(kBudgetTooSmall, budget.reserve(17 * kMiB, "test"));
        const Reservation rest = budget.reserve(16 * kMiB, "test");
        EXPECT_EQ(budget.used(), 20 * kMiB);
        EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 4 * kMiB);
    }
    small.release();
    EXPECT_EQ(budget.used(), 4 * kMiB);
    // What cannot be reserved leaves all as it was.
    EXPECT_ERROR(kBudgetTooSmall, kept.reserve(21 * kMiB, "test"));
    EXPECT_EQ(budget.used(), 4 * kMiB);
}

}  // namespace spillway::test
