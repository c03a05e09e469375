// SPDX-License-Identifier: Apache-2.0
// Spill files whose writes fail: what the job gives up for them, and when it goes on.
#include <cerrno>
#include <memory>
#include <vector>

#include "memory/spill_file.hpp"
#include "support/failing_calls.hpp"
#include "support/temporary_folder.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using test::TemporaryFolder;

std::vector<uint8_t> some_bytes(size_t count) {
    std::vector<uint8_t> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251);
    return bytes;
}

}  // namespace

// Kept files of earlier jobs are what a full disk can spare.
TEST(memory_spill_file_gives_up_kept_files_for_a_full_disk) {
    for (const int error : {ENOSPC, EDQUOT}) {
        const TemporaryFolder folder;
        const auto space = std::make_shared<SpillSpace>(folder.path());
        const auto data = some_bytes(10'000);
        JobControl control;
        {
            SpillFile two(space, control, 2);
            two.write({{data.data(), data.size()}}, 0);
            two.write({{data.data(), data.size()}}, 1);
        }
        SpillFile file(space, control);
        file.write({{data.data(), data.size()}});
        EXPECT(space->kept_bytes() > 0);
        SpillFile::Position position;
        {
            const test::WithFailingCalls full({.pwritev = error});
            position = file.write({{data.data(), data.size()}});
        }
        EXPECT_EQ(space->kept_bytes(), 0u);
        std::vector<uint8_t> back(data.size());
        file.read(position, back.data(), back.size());
        EXPECT(back == data);
        // Nothing is kept any more: the disk is full.
        const test::WithFailingCalls full({.pwritev = error});
        EXPECT_ERROR(kDiskFull, file.write({{data.data(), data.size()}}));
    }
}

// A disk that failed may be full for others too: they get what was kept for later jobs.
TEST(memory_spill_file_that_failed_keeps_nothing) {
    const TemporaryFolder folder;
    const auto space = std::make_shared<SpillSpace>(folder.path());
    const auto data = some_bytes(10'000);
    JobControl control;
    {
        SpillFile two(space, control, 2);
        for (const uint64_t writer : {0, 1}) two.write({{data.data(), data.size()}}, writer);
    }
    {
        SpillFile file(space, control);
        const test::WithFailingCalls broken({.pwritev = EIO});
        EXPECT_ERROR(kOutputFailed, file.write({{data.data(), data.size()}}));
        EXPECT(space->kept_bytes() > 0);
    }
    EXPECT_EQ(space->kept_bytes(), 0u);
}

TEST(memory_spill_file_writes_on_after_a_signal) {
    const TemporaryFolder folder;
    const auto data = some_bytes(10'000);
    JobControl control;
    SpillFile file(std::make_shared<SpillSpace>(folder.path()), control);
    const test::WithFailingCalls interrupted({.pwritev = EINTR, .pwritev_times = 3});
    const SpillFile::Position position = file.write({{data.data(), data.size()}});
    std::vector<uint8_t> back(data.size());
    file.read(position, back.data(), back.size());
    EXPECT(back == data);
    const test::WithFailingCalls broken({.pwritev = EIO});
    EXPECT_ERROR(kOutputFailed, file.write({{data.data(), data.size()}}));
}

}  // namespace spillway
