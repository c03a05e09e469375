// SPDX-License-Identifier: Apache-2.0
// One block for the buffers of a batch: slices, and what has no room in it.
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "memory/batch_memory.hpp"
#include "model/output_batch.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using test::kKiB;
using test::kMiB;

bool lies_in(const Buffer& buffer, const Buffer& block) {
    return buffer.data() >= block.data() && buffer.data() + buffer.size() <= block.data() + block.size();
}

}  // namespace

TEST(memory_batch_memory_gives_slices_of_one_block) {
    MemoryBudget budget(kMiB);
    BatchMemory memory(budget, BatchMemory::padded(100) + BatchMemory::padded(64) + BatchMemory::padded(1));
    EXPECT_EQ(budget.used(), 0u);
    EXPECT(!memory.has_block());
    std::vector<Buffer> slices;
    for (const uint64_t bytes : {100, 64, 1}) slices.push_back(memory.take_padded(bytes));
    EXPECT(memory.has_block());
    const uint64_t used = budget.used();
    EXPECT(used >= 256u);
    const Buffer block = memory.take_block();
    EXPECT_EQ(block.size(), 256u);
    EXPECT(!memory.has_block());
    for (const Buffer& slice : slices) {
        EXPECT(slice.is_slice());
        EXPECT(lies_in(slice, block));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(slice.data()) % 64, 0u);
        const uint64_t padded = BatchMemory::padded(slice.size());
        EXPECT(std::all_of(slice.data() + slice.size(), slice.data() + padded, [](uint8_t byte) { return byte == 0; }));
    }
    EXPECT_EQ(slices[0].size(), 100u);
    EXPECT_EQ(slices[1].data() - slices[0].data(), 128);
    slices.clear();
    EXPECT_EQ(budget.used(), used);  // the block's alone
}

TEST(memory_batch_memory_of_what_has_no_room_is_a_block_of_its_own) {
    MemoryBudget budget(kMiB);
    BatchMemory memory(budget, 128);
    Buffer first = memory.take_padded(100);
    Buffer second = memory.take_padded(1);
    EXPECT(first.is_slice());
    EXPECT(!second.is_slice());
    EXPECT_EQ(second.size(), 1u);
    EXPECT(memory.take(0).empty());
    BatchMemory none(budget, 0);
    const Buffer own = none.take(10);
    EXPECT(!own.is_slice());
    EXPECT(none.take_block().empty());
}

TEST(memory_batch_memory_of_4_gib_is_a_block_for_each_buffer) {
    MemoryBudget budget(kMiB);
    BatchMemory memory(budget, uint64_t{1} << 32);
    EXPECT(!memory.take(100).is_slice());
    EXPECT(!memory.has_block());
}

TEST(memory_batch_memory_that_the_budget_lacks_is_said_and_asked_for_again) {
    MemoryBudget budget(64 * kKiB);
    BatchMemory memory(budget, 256 * kKiB);
    EXPECT_ERROR(kBudgetTooSmall, memory.take(10));
    EXPECT(!memory.has_block());
    EXPECT_EQ(budget.used(), 0u);
}

TEST(memory_batch_memory_gives_several_threads_parts_of_their_own) {
    MemoryBudget budget(8 * kMiB);
    constexpr uint64_t kThreads = 4;
    constexpr uint64_t kTaken = 200;
    BatchMemory memory(budget, kThreads * kTaken * 64);
    std::vector<std::vector<Buffer>> taken(kThreads);
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (uint64_t i = 0; i < kTaken; ++i) {
                taken[t].push_back(memory.take_padded(64));
                std::memset(taken[t].back().data(), static_cast<int>(t + 1), 64);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const Buffer block = memory.take_block();
    EXPECT_EQ(block.size(), kThreads * kTaken * 64);
    for (uint64_t t = 0; t < kThreads; ++t) {
        for (const Buffer& slice : taken[t]) {
            EXPECT(lies_in(slice, block));
            EXPECT(std::all_of(slice.data(), slice.data() + 64, [&](uint8_t byte) { return byte == t + 1; }));
        }
    }
}

TEST(memory_buffer_slice_that_grows_becomes_a_block) {
    MemoryBudget budget(kMiB);
    BatchMemory memory(budget, 128);
    Buffer slice = memory.take_padded(100);
    std::memset(slice.data(), 7, 100);
    const Buffer block = memory.take_block();
    const uint64_t used = budget.used();
    slice.grow(budget, 128, "a slice");
    EXPECT(slice.is_slice());  // it had the room
    slice.grow(budget, 1000, "a slice");
    EXPECT(!slice.is_slice());
    EXPECT_EQ(slice.size(), 100u);
    EXPECT(std::all_of(slice.data(), slice.data() + 100, [](uint8_t byte) { return byte == 7; }));
    EXPECT(budget.used() >= used + 1000);
    Buffer moved = std::move(slice);
    EXPECT(slice.empty());
    EXPECT_EQ(moved.size(), 100u);
}

TEST(memory_buffer_slice_of_a_large_block_is_not_remapped) {
    MemoryBudget budget(32 * kMiB);
    BatchMemory memory(budget, 8 * kMiB);
    Buffer slice = memory.take_padded(4 * kMiB);
    std::memset(slice.data(), 9, slice.size());
    const Buffer neighbour = memory.take_padded(4 * kMiB);
    std::memset(const_cast<uint8_t*>(neighbour.data()), 5, neighbour.size());
    const Buffer block = memory.take_block();
    slice.grow(budget, 5 * kMiB, "a slice");
    EXPECT(!slice.is_slice());
    EXPECT_EQ(slice.data()[4 * kMiB - 1], 9);
    EXPECT_EQ(block.data()[0], 9);  // still there
    EXPECT_EQ(neighbour.data()[0], 5);
}

TEST(memory_buffer_slice_has_no_block_to_hand_over) {
    MemoryBudget budget(kMiB);
    BatchMemory memory(budget, 128);
    Buffer slice = memory.take_padded(100);
    EXPECT_ERROR(kInternal, slice.detach());
    EXPECT_EQ(slice.size(), 100u);
}

TEST(model_batches_of_few_rows_give_back_the_memory_of_the_others) {
    MemoryBudget budget(16 * kMiB);
    const auto batch_of = [&](uint64_t reserved, uint64_t bytes) {
        BatchMemory memory(budget, reserved);
        OutputBatch batch;
        batch.columns.resize(2);
        batch.columns[1].children.resize(1);
        for (Buffer* const buffer :
             {&batch.columns[0].data, &batch.columns[1].offsets, &batch.columns[1].children[0].data}) {
            *buffer = memory.take_padded(reserved / 4);
            buffer->set_size(bytes);
            std::memset(buffer->data(), static_cast<int>(bytes % 251), bytes);
        }
        batch.memory = memory.take_block();
        return batch;
    };
    const auto is_whole = [&](const OutputBatch& batch, uint64_t bytes) {
        const auto whole = [&](const Buffer& buffer) {
            const bool same = std::all_of(buffer.data(), buffer.data() + bytes,
                                          [&](uint8_t byte) { return byte == static_cast<uint8_t>(bytes % 251); });
            return buffer.is_slice() && lies_in(buffer, batch.memory) && buffer.size() == bytes && same;
        };
        return whole(batch.columns[0].data) && whole(batch.columns[1].offsets) &&
               whole(batch.columns[1].children[0].data);
    };
    OutputBatch few = batch_of(4 * kMiB, 1000);
    shrink_batch(few);
    EXPECT(is_whole(few, 1000));
    EXPECT_EQ(few.memory.size(), 3u * 1024);
    EXPECT(budget.used() < 8 * kKiB);
    OutputBatch many = batch_of(4 * kMiB, kMiB - 64);
    const uint8_t* const before = many.memory.data();
    shrink_batch(many);
    EXPECT(is_whole(many, kMiB - 64));
    EXPECT_EQ(many.memory.data(), before);
    OutputBatch small = batch_of(32 * kKiB, 100);
    const uint8_t* const own = small.memory.data();
    shrink_batch(small);
    EXPECT_EQ(small.memory.data(), own);
    OutputBatch none;
    shrink_batch(none);
    EXPECT(none.memory.empty());
}

TEST(model_batches_of_few_rows_stay_as_they_are_where_the_budget_has_no_room) {
    MemoryBudget budget(4 * kMiB);
    BatchMemory memory(budget, 4 * kMiB - 64);
    OutputBatch batch;
    batch.columns.resize(1);
    batch.columns[0].data = memory.take_padded(kMiB);
    std::memset(batch.columns[0].data.data(), 3, kMiB);
    batch.memory = memory.take_block();
    const uint8_t* const before = batch.memory.data();
    shrink_batch(batch);
    EXPECT_EQ(batch.memory.data(), before);
    EXPECT(lies_in(batch.columns[0].data, batch.memory));
}

TEST(model_expected_column_bytes_are_those_of_all_buffers_of_known_length) {
    const auto bytes = [](Layout layout, int32_t width, uint64_t rows) {
        ColumnType type;
        type.layout = layout;
        type.byte_width = width;
        return expected_column_bytes(type, rows);
    };
    EXPECT_EQ(bytes(Layout::kFixed, 8, 1000), 8000u + 128);
    EXPECT_EQ(bytes(Layout::kDictionary, 1, 1000), 4032u + 128);  // indices of 32 bits whatever the source has
    EXPECT_EQ(bytes(Layout::kBool, 0, 1000), 256u);
    EXPECT_EQ(bytes(Layout::kBinary, 8, 1000), 8064u + 128);
    EXPECT_EQ(bytes(Layout::kView, 16, 1000), 4032u + 128);
    EXPECT_EQ(bytes(Layout::kNull, 0, 1000), 0u);
    EXPECT_EQ(bytes(Layout::kList, 4, 1000), 0u);
    EXPECT_EQ(bytes(Layout::kFixed, 1 << 30, ~uint64_t{0} / 2), ~uint64_t{0});
}

}  // namespace spillway
