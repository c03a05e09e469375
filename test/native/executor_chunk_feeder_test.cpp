// SPDX-License-Identifier: Apache-2.0
// Chunks on their way to a GPU, each of several slices that workers fill at once.
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "executor/streaming/chunk_feeder.hpp"
#include "support/out_of_core_trial.hpp"

namespace spillway::test {

namespace {

constexpr int64_t kFedRows = 380'000;
constexpr int64_t kFiledFrom = 270'001;   // these rows are in a file, those before in memory
constexpr uint64_t kChunkRows = 150'000;  // three slices, of which the last is no whole one
constexpr uint64_t kSlots = 2;            // fewer than chunks

// Row i: a key of 4 bytes, i * 7 - 500, or NULL, and a number of 8 bytes, i + 1.
struct NumberedSource : TestRelation {
    // Rows from `first` on, in batches of so many; those from kFiledFrom on in a file.
    explicit NumberedSource(const std::set<int64_t>& nulls, int64_t first = 0,
                            const std::vector<int64_t>& batches = {70'001, 0, 200'000, kFedRows - kFiledFrom})
        : TestRelation(71) {
        add_column(type_of(Layout::kFixed, 4));
        add_column(type_of(Layout::kFixed, 8));
        for (const int64_t rows : batches) {
            std::vector<Value> keys = integers(0, rows, 4);
            for (int64_t i = 0; i < rows; ++i) {
                const int32_t key = key_of(first + i);
                keys[static_cast<size_t>(i)].bytes.assign(reinterpret_cast<const char*>(&key), sizeof key);
                keys[static_cast<size_t>(i)].null = nulls.count(first + i) != 0;
            }
            add_batch({std::move(keys), integers(first + 1, rows)}, rows, first == kFiledFrom ? 0 : -1);
            first += rows;
        }
        values.clear();
        open();
    }
    static int32_t key_of(int64_t row) { return static_cast<int32_t>(row * 7 - 500); }
};

struct Feeding {
    explicit Feeding(const std::set<int64_t>& nulls, SourceStream* stream = nullptr)
        : relation(nulls),
          columns(*relation.source, side(), {4}, kChunkRows),
          pinned(kept_pinned(gpu.device, relation.budget, 256 * kMiB)),
          ring(*pinned, kSlots, columns.chunk_bytes()),
          feeder({relation.source.get(), stream}, columns, ring, kChunkRows, relation.budget, relation.control) {
        for (uint64_t slot = 0; slot < kSlots; ++slot) std::memset(ring.data(slot), 0xff, columns.chunk_bytes());
    }

    static OutOfCoreSide side() {
        OutOfCoreSide side;
        side.keys = {{0, KeyKind::kInteger, KeyKind::kInteger, 4}};
        side.columns = {{1, false}};
        return side;
    }

    OutOfCoreGpu gpu{kOutOfCoreLimitBytes};
    NumberedSource relation;
    ChunkColumns columns;
    std::unique_ptr<KeptPinned> pinned;
    ChunkRing ring;
    ChunkFeeder feeder;
};

void expect_rows(const cuda::Chunk& chunk, int64_t first, const std::set<int64_t>& nulls) {
    const auto* keys = static_cast<const int32_t*>(chunk.key);
    const auto* numbers = static_cast<const int64_t*>(chunk.columns[0]);
    bool has_null = false;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < chunk.rows; ++i) {
        const int64_t row = first + static_cast<int64_t>(i);
        const bool null = nulls.count(row) != 0;
        has_null = has_null || null;
        wrong += numbers[i] != row + 1;
        wrong += !null && keys[i] != NumberedSource::key_of(row);
        if (chunk.key_valid != nullptr) wrong += ((chunk.key_valid[i / 32] >> (i % 32)) & 1) != (null ? 0u : 1u);
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT(chunk.key_valid != nullptr || !has_null);
}

}  // namespace

TEST(executor_chunk_feeder_fills_chunks_of_several_slices) {
    // In the first slice of a chunk, in the last one of all, and nowhere in the chunk between.
    const std::set<int64_t> nulls = {5, 64'000, kFedRows - 1};
    for (const int workers : {1, 3}) {
        Feeding feeding(nulls);
        std::vector<std::thread> threads;
        for (int i = 0; i < workers; ++i) {
            threads.emplace_back([&] {
                try {
                    feeding.feeder.work();
                } catch (const Error&) {
                    // Cancelled below, where the failure is told.
                }
            });
        }
        int64_t rows = 0;
        std::string failure;
        cuda::Chunk chunk;
        try {
            while (feeding.feeder.next(chunk)) {
                expect_rows(chunk, rows, nulls);
                rows += static_cast<int64_t>(chunk.rows);
                feeding.feeder.release();
            }
        } catch (const std::exception& error) {
            failure = error.what();
            feeding.relation.control.cancelled = true;
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        EXPECT_EQ(failure, std::string());
        EXPECT_EQ(rows, kFedRows);
        EXPECT_EQ(feeding.relation.control.rows_in.load(), static_cast<uint64_t>(kFedRows));
    }
}

namespace {

// Sources of so many rows each, as they come: they begin inside of words and bytes of bitmaps, and end there.
const std::vector<int64_t> kPushed = {1, 63, 64, 65, 7, 0, 70'001, 130'000, 3, 99'999, 64};

// Pushes them one after the other, and tells the rows of those that were read.
int64_t push_all(SourceStream& stream, const std::set<int64_t>& nulls, JobControl& control) {
    int64_t first = 0;
    if (!stream.wait_for_reader(control)) return first;
    for (const int64_t rows : kPushed) {
        NumberedSource source(nulls, first, {rows});
        if (!stream.push(*source.source, control)) return first;
        first += rows;
    }
    stream.end();
    return first;
}

}  // namespace

TEST(executor_chunk_feeder_fills_chunks_from_the_sources_of_a_stream) {
    const std::set<int64_t> nulls = {0, 1, 64, 128, 192, 193, 70'200, 300'000};
    for (const int workers : {1, 3}) {
        SourceStream stream;
        Feeding feeding(nulls, &stream);
        std::atomic<int64_t> pushed{-1};
        std::vector<std::thread> threads;
        threads.emplace_back([&] { pushed = push_all(stream, nulls, feeding.relation.control); });
        for (int i = 0; i < workers; ++i) threads.emplace_back([&] { feeding.feeder.work(); });
        int64_t rows = 0;
        cuda::Chunk chunk;
        while (feeding.feeder.next(chunk)) {
            expect_rows(chunk, rows, nulls);
            rows += static_cast<int64_t>(chunk.rows);
            feeding.feeder.release();
        }
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(rows, 300'267);
        EXPECT_EQ(pushed.load(), rows);
        EXPECT_EQ(feeding.relation.control.rows_in.load(), static_cast<uint64_t>(rows));
    }
}

// Nobody takes chunks, so that the ring is full before the stream has ended: who pushes waits, until the job ends.
TEST(executor_chunk_feeder_lets_a_stream_wait_for_the_ring) {
    SourceStream stream;
    JobControl control;
    std::atomic<int> pushed{-1};
    NumberedSource more({}, 0, {static_cast<int64_t>(kSlots * kChunkRows) + 1});
    std::thread pusher;
    {
        Feeding feeding({}, &stream);
        pusher = std::thread([&] { pushed = stream.push(*more.source, control) ? 1 : 0; });
        std::thread worker([&] { EXPECT_ERROR(kAborted, feeding.feeder.work()); });
        while (feeding.relation.control.rows_in.load() < kSlots * kChunkRows) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        EXPECT_EQ(pushed.load(), -1);
        feeding.relation.control.cancelled = true;
        feeding.feeder.wake();
        worker.join();
        EXPECT_EQ(pushed.load(), -1);
    }
    pusher.join();
    EXPECT_EQ(pushed.load(), 0);
}

TEST(executor_chunk_feeder_gives_a_source_back_that_it_could_not_read) {
    SourceStream stream;
    JobControl control;
    std::atomic<bool> read{true};
    NumberedSource broken({}, kFiledFrom, {1000});
    std::filesystem::resize_file(broken.files[0]->path(), 100);
    std::thread pusher;
    {
        Feeding feeding({}, &stream);
        pusher = std::thread([&] { read = stream.push(*broken.source, control); });
        EXPECT_ERROR(kFileTruncated, feeding.feeder.work());
        stream.close();
    }
    pusher.join();
    EXPECT(!read.load());
    // Nobody will read what comes now.
    EXPECT(!stream.push(*broken.source, control));
    EXPECT(!stream.wait_for_reader(control));
}

// A worker failed behind the first slice of the second chunk, of which nobody ever writes the rest.
TEST(executor_chunk_feeder_hands_out_no_chunk_that_lacks_slices) {
    Feeding feeding({});
    std::filesystem::resize_file(feeding.relation.files[0]->path(), 1000);
    EXPECT_ERROR(kFileTruncated, feeding.feeder.work());
    EXPECT_EQ(feeding.relation.control.rows_in.load(), kChunkRows + 65'536);
    cuda::Chunk first;
    EXPECT(feeding.feeder.next(first));
    expect_rows(first, 0, {});
    std::atomic<bool> asks{false};
    bool is_given = false;
    std::thread taker([&] {
        cuda::Chunk chunk;
        asks = true;
        try {
            is_given = feeding.feeder.next(chunk);
        } catch (const Error&) {
            // Cancelled below: until then it waits.
        }
    });
    while (!asks) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    feeding.relation.control.cancelled = true;
    feeding.feeder.wake();
    taker.join();
    EXPECT(!is_given);
}

// The GPU may still read a chunk that was not released.
TEST(executor_chunk_feeder_leaves_chunks_alone_that_are_in_use) {
    Feeding feeding({});
    std::thread worker([&] { feeding.feeder.work(); });
    const auto fed = [&] { return feeding.relation.control.rows_in.load(); };
    cuda::Chunk chunk;
    feeding.feeder.next(chunk);
    while (fed() < kSlots * kChunkRows) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const uint64_t ahead = fed();
    cuda::Chunk second;
    feeding.feeder.next(second);
    feeding.feeder.release();
    feeding.feeder.release();
    while (fed() < static_cast<uint64_t>(kFedRows)) std::this_thread::yield();
    worker.join();
    EXPECT_EQ(ahead, kSlots * kChunkRows);
    feeding.feeder.next(chunk);
    expect_rows(chunk, static_cast<int64_t>(2 * kChunkRows), {});
    feeding.feeder.release();
    EXPECT(!feeding.feeder.next(chunk));
}

TEST(executor_chunk_feeder_lets_no_more_work_than_there_are_slices) {
    Feeding feeding({});
    EXPECT_EQ(feeding.feeder.workers_max(3), 3);
    EXPECT_EQ(feeding.feeder.workers_max(100), 3 + 3 + 2);
}

}  // namespace spillway::test
