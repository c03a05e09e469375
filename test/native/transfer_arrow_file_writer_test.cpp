// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/parallel.hpp"
#include "memory/spill_file.hpp"
#include "support/failing_calls.hpp"
#include "support/flat_table.hpp"
#include "support/output_columns.hpp"
#include "support/temporary_folder.hpp"
#include "support/test.hpp"
#include "transfer/arrow_file_writer.hpp"

using namespace spillway;
using namespace spillway::test::batches;
using spillway::test::read_file;
using spillway::test::TemporaryFolder;

namespace {

constexpr int kSkipped = 77;

// Any well-formed prefix will do: the writer passes schema and footer through.
std::vector<uint8_t> schema_message(int32_t metadata_bytes = 24) {
    std::vector<uint8_t> message(8 + static_cast<size_t>(metadata_bytes), 0x5c);
    std::memset(message.data(), 0xff, 4);
    std::memcpy(message.data() + 4, &metadata_bytes, 4);
    return message;
}

FlatTable message_at(const std::vector<uint8_t>& file, const FileBlock& block, uint8_t header_type) {
    EXPECT_EQ(block.offset % 64, int64_t{0});
    EXPECT_EQ(block.metadata_bytes % 64, 0);
    EXPECT_EQ(block.body_bytes % 64, int64_t{0});
    const auto begin = static_cast<size_t>(block.offset);
    EXPECT_EQ(load<uint32_t>(file, begin), 0xFFFFFFFFu);
    EXPECT_EQ(load<int32_t>(file, begin + 4), block.metadata_bytes - 8);
    const FlatTable message = FlatTable::at(file, begin + 8);
    EXPECT_EQ(message.get<int16_t>(0), int16_t{4});
    EXPECT_EQ(static_cast<int>(message.get<uint8_t>(1)), static_cast<int>(header_type));
    EXPECT_EQ(message.get<int64_t>(3), block.body_bytes);
    return message;
}

OutputBatch sample_batch(MemoryBudget& budget, int64_t first = 0) {
    auto numbers = fixed_column<int64_t>(budget, {first, first + 1, first + 2});
    set_nulls(budget, numbers, {1});
    return batch_of(std::move(numbers), text_column(budget, {"x", "", "yellow"}));
}

}  // namespace

TEST(arrow_file_writer_lays_out_the_file) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 20);
    JobControl control;
    const std::string path = folder.file("out.arrow");
    ArrowFileWriter writer(path, schema_message(), false, control);
    writer.write_dictionary(7, batch_of(text_column(budget, {"red", "green"})));
    writer.write_dictionary(7, batch_of(text_column(budget, {"blue"})));
    writer.write(sample_batch(budget));
    const std::vector<uint8_t> footer = {1, 2, 3, 4, 5, 6, 7, 8};
    writer.finish(footer);

    const auto file = read_file(path);
    EXPECT_EQ(file.size(), writer.bytes_written());
    EXPECT_EQ(std::memcmp(file.data(), "ARROW1\0\0", 8), 0);
    EXPECT_EQ(std::memcmp(file.data() + file.size() - 6, "ARROW1", 6), 0);
    EXPECT_EQ(load<int32_t>(file, file.size() - 10), 8);
    EXPECT_EQ(load<uint64_t>(file, file.size() - 18), uint64_t{0x0807060504030201});
    EXPECT_EQ(load<uint64_t>(file, file.size() - 26), uint64_t{0x00000000FFFFFFFF});
    // The schema message grew so that the next message begins right behind it at a multiple of 64.
    EXPECT_EQ(load<int32_t>(file, 12), 64 - 16);

    const auto dictionaries = writer.dictionary_blocks();
    EXPECT_EQ(dictionaries.size(), size_t{2});
    EXPECT_EQ(dictionaries[0].offset, int64_t{64});
    for (size_t i = 0; i < 2; ++i) {
        const FlatTable dictionary = message_at(file, dictionaries[i], 2).child(2);
        EXPECT_EQ(dictionary.get<int64_t>(0), int64_t{7});
        EXPECT_EQ(static_cast<int>(dictionary.get<uint8_t>(2)), static_cast<int>(i));
        EXPECT_EQ(dictionary.child(1).get<int64_t>(0), static_cast<int64_t>(2 - i));
    }
    const auto records = writer.record_blocks();
    EXPECT_EQ(records.size(), size_t{1});
    const FlatTable record = message_at(file, records[0], 3).child(2);
    EXPECT_EQ(record.get<int64_t>(0), int64_t{3});
    const auto nodes = record.structs(1);
    EXPECT(nodes == (std::vector<std::pair<int64_t, int64_t>>{{3, 1}, {3, 0}}));
    const auto buffers = record.structs(2);
    EXPECT(buffers == (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {64, 24}, {128, 0}, {128, 16}, {192, 7}}));
    const auto body = static_cast<size_t>(records[0].offset + records[0].metadata_bytes);
    EXPECT_EQ(file[body] & 7, 5);
    EXPECT_EQ(load<int64_t>(file, body + 64 + 16), int64_t{2});
    EXPECT_EQ(std::memcmp(file.data() + body + 192, "xyellow\0\0", 9), 0);
    EXPECT_EQ(file.size(), body + 256 + 8 + 8 + 4 + 6);
}

TEST(arrow_file_writer_lays_out_nested_columns) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 20);
    JobControl control;
    const std::string path = folder.file("out.arrow");
    ArrowFileWriter writer(path, schema_message(), false, control);
    OutputColumn list;
    list.type = column_type(Layout::kList, 4);
    list.length = 2;
    const int32_t offsets[] = {0, 0, 2};
    list.offsets = buffer_of(budget, offsets, sizeof offsets);
    list.children.push_back(fixed_column<int16_t>(budget, {4, 5}));
    OutputColumn dense;
    dense.type = column_type(Layout::kUnionDense, 0);
    dense.length = 2;
    dense.null_count = 1;  // a union has no validity of its own
    dense.data = buffer_of(budget, "\0\1", 2);
    const int32_t rows[] = {0, 0};
    dense.offsets = buffer_of(budget, rows, sizeof rows);
    dense.children.push_back(fixed_column<int32_t>(budget, {1}));
    dense.children.push_back(text_column(budget, {}));
    dense.children.back().offsets = Buffer();
    OutputColumn nothing;
    nothing.type = column_type(Layout::kNull, 0);
    nothing.length = 2;
    writer.write(batch_of(std::move(list), std::move(dense), std::move(nothing)));
    writer.finish({});

    const auto file = read_file(path);
    const FlatTable record = message_at(file, writer.record_blocks()[0], 3).child(2);
    EXPECT(record.structs(1) ==
           (std::vector<std::pair<int64_t, int64_t>>{{2, 0}, {2, 0}, {2, 0}, {1, 0}, {0, 0}, {2, 2}}));
    // list: validity, offsets, child validity, child data; union: ids, offsets, int validity, data, text validity,
    // one offset although the buffer was empty, no bytes.
    EXPECT(
        record.structs(2) ==
        (std::vector<std::pair<int64_t, int64_t>>{
            {0, 0}, {0, 12}, {64, 0}, {64, 4}, {128, 2}, {192, 8}, {256, 0}, {256, 4}, {320, 0}, {320, 4}, {384, 0}}));
}

TEST(arrow_file_writer_leaves_nothing_without_finish) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 20);
    JobControl control;
    {
        ArrowFileWriter writer(folder.file("out.arrow"), schema_message(), false, control);
        writer.write(sample_batch(budget));
        control.cancelled = true;
        EXPECT_ERROR(kAborted, writer.write(sample_batch(budget)));
        EXPECT_ERROR(kAborted, writer.finish({}));
    }
    EXPECT_EQ(folder.entries(), size_t{0});
}

TEST(arrow_file_writer_keeps_the_target_until_finish) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 20);
    JobControl control;
    const std::string path = folder.file("out.arrow");
    std::ofstream(path) << "old";
    EXPECT_ERROR(kOutputExists, ArrowFileWriter(path, schema_message(), false, control));
    ArrowFileWriter writer(path, schema_message(), true, control);
    writer.write(sample_batch(budget));
    EXPECT_EQ(read_file(path).size(), size_t{3});
    writer.finish({});
    EXPECT(read_file(path).size() > 64);
    EXPECT_EQ(folder.entries(), size_t{1});
    EXPECT_ERROR(kClosed, writer.write(sample_batch(budget)));
    EXPECT_ERROR(kClosed, writer.finish({}));
}

// The file is whole, but an abort that comes before it has its name leaves the target as it was.
TEST(arrow_file_writer_aborted_behind_its_last_byte_leaves_the_target) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 20);
    const std::string path = folder.file("out.arrow");
    std::ofstream(path) << "old";
    {
        JobControl control;
        ArrowFileWriter writer(path, schema_message(), true, control);
        writer.write(sample_batch(budget));
        const spillway::test::WithFailingCalls aborting({.pwritten = &control.cancelled});
        EXPECT_ERROR(kAborted, writer.finish({}));
    }
    EXPECT_EQ(read_file(path).size(), size_t{3});
    EXPECT_EQ(folder.entries(), size_t{1});
}

// A file with a hole where a batch should be must never get its name, whichever worker goes on.
TEST(arrow_file_writer_that_failed_writes_no_more) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 20);
    JobControl control;
    const std::string path = folder.file("out.arrow");
    {
        ArrowFileWriter writer(path, schema_message(), false, control);
        writer.write(sample_batch(budget));
        {
            const spillway::test::WithFailingCalls full({.pwritev = ENOSPC});
            EXPECT_ERROR(kDiskFull, writer.write(sample_batch(budget)));
        }
        EXPECT_ERROR(kDiskFull, writer.write(sample_batch(budget)));
        EXPECT_ERROR(kDiskFull, writer.write_dictionary(1, batch_of(text_column(budget, {"red"}))));
        EXPECT_ERROR(kDiskFull, writer.finish({}));
    }
    EXPECT_EQ(folder.entries(), size_t{0});
}

TEST(arrow_file_writer_refuses_a_target_that_appeared_meanwhile) {
    TemporaryFolder folder;
    JobControl control;
    const std::string path = folder.file("out.arrow");
    ArrowFileWriter writer(path, schema_message(), false, control);
    std::ofstream(path) << "other";
    EXPECT_ERROR(kOutputExists, writer.finish({}));
    EXPECT_EQ(read_file(path).size(), size_t{5});
}

TEST(arrow_file_writer_names_bad_targets) {
    TemporaryFolder folder;
    JobControl control;
    EXPECT_ERROR(kOutputFailed, ArrowFileWriter(folder.file("missing/out.arrow"), schema_message(), true, control));
    EXPECT_ERROR(kOutputFailed, ArrowFileWriter(folder.path() + "/", schema_message(), true, control));
    EXPECT_ERROR(kOutputFailed, ArrowFileWriter(folder.path(), schema_message(), true, control));
    EXPECT_ERROR(kOutputFailed, ArrowFileWriter("/dev/null", schema_message(), true, control));
    EXPECT_ERROR(kOutputFailed, ArrowFileWriter("/proc/out.arrow", schema_message(), true, control));
    EXPECT_ERROR(kInternal, ArrowFileWriter(folder.file("x"), std::vector<uint8_t>(16), true, control));
    EXPECT_EQ(folder.entries(), size_t{0});
}

TEST(arrow_file_writer_takes_batches_from_many_workers) {
    TemporaryFolder folder;
    MemoryBudget budget(64 << 20);
    JobControl control;
    const std::string path = folder.file("out.arrow");
    ArrowFileWriter writer(path, schema_message(1000), false, control);
    constexpr int kWorkers = 4;
    constexpr int kBatches = 50;
    parallel_run(kWorkers, [&](int worker) {
        for (int i = 0; i < kBatches; ++i) {
            std::vector<int32_t> values(1000 + static_cast<size_t>(i), worker * kBatches + i);
            writer.write(batch_of(fixed_column(budget, values)));
        }
    });
    writer.finish({9});

    const auto file = read_file(path);
    std::vector<int> seen(kWorkers * kBatches, 0);
    int64_t end = 0;
    for (const auto& block : writer.record_blocks()) {
        EXPECT(end == 0 || block.offset == end);  // no gaps
        end = block.offset + block.metadata_bytes + block.body_bytes;
        const auto rows = message_at(file, block, 3).child(2).get<int64_t>(0);
        const auto body = static_cast<size_t>(block.offset + block.metadata_bytes);
        const auto id = load<int32_t>(file, body);
        for (int64_t row = 0; row < rows; ++row)
            EXPECT_EQ(load<int32_t>(file, body + 4 * static_cast<size_t>(row)), id);
        EXPECT_EQ(rows, int64_t{1000} + id % kBatches);
        ++seen[static_cast<size_t>(id)];
    }
    for (const int count : seen) EXPECT_EQ(count, 1);
}

namespace {

// In a child with a file system of 1 MiB of its own, where the kernel allows that.
int write_until_full(const std::string& mount_point) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kSkipped;
    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (mount("none", mount_point.c_str(), "tmpfs", 0, "size=1m") != 0) return kSkipped;
    try {
        MemoryBudget budget(16 << 20);
        JobControl control;
        {
            ArrowFileWriter writer(mount_point + "/out.arrow", schema_message(), false, control);
            const auto batch = batch_of(fixed_column(budget, std::vector<int64_t>(1 << 16)));
            EXPECT_ERROR(kDiskFull, for (int i = 0; i < 4; ++i) writer.write(batch));
            EXPECT_ERROR(kDiskFull, writer.finish({}));
        }
        EXPECT(std::filesystem::is_empty(mount_point));
        EXPECT_EQ(std::filesystem::space(mount_point).available, std::filesystem::space(mount_point).capacity);
        // Spill files that are kept for the next job make room.
        const auto space = std::make_shared<SpillSpace>(mount_point);
        const std::vector<uint8_t> rows(600 << 10);
        SpillFile(space, control).write({{rows.data(), rows.size()}});
        EXPECT_EQ(space->kept_bytes(), uint64_t{600 << 10});
        ArrowFileWriter writer(mount_point + "/out.arrow", schema_message(), false, control,
                               [space] { return space->trim() > 0; });
        writer.write(batch_of(fixed_column(budget, std::vector<int64_t>(1 << 16))));
        EXPECT_EQ(space->kept_bytes(), 0u);
        writer.finish(std::vector<uint8_t>(8));
    } catch (const std::exception&) {
        return 1;
    }
    return 0;
}

}  // namespace

TEST(arrow_file_writer_reports_a_full_disk) {
    TemporaryFolder folder;
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) _exit(write_until_full(folder.path()));
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status));
    EXPECT(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kSkipped);
}
