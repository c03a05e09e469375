// SPDX-License-Identifier: Apache-2.0
// Values that are read by row number: places in batches, columns of every layout, keys that are compared again.
#include <malloc.h>

#include <set>

#include "executor/streaming/result_gather.hpp"
#include "support/output_columns.hpp"
#include "support/test_relation.hpp"

namespace spillway::test {

namespace {

using batches::BatchCollector;

ColumnType dictionary_of(const ColumnType& values) {
    ColumnType type = type_of(Layout::kDictionary, 4);
    type.children.push_back(values);
    return type;
}

ColumnType list_of(const ColumnType& values) {
    ColumnType type = type_of(Layout::kList, 4);
    type.children.push_back(values);
    return type;
}

// A column of each kind, in batches of memory and files, some of them without rows.
struct Relation : TestRelation {
    explicit Relation(uint64_t seed) : TestRelation(seed) {
        add_column(type_of(Layout::kBinary, 4));
        add_column(type_of(Layout::kView, 16));
        add_column(type_of(Layout::kBool));
        add_column(type_of(Layout::kFixed, 8));
        add_column(type_of(Layout::kFixed, 12));
        add_column(type_of(Layout::kNull));
        add_column(dictionary_of(type_of(Layout::kBinary, 4)));
        add_column(list_of(type_of(Layout::kBinary, 4)));
        int32_t file = 0;
        for (const int64_t rows : {0, 700, 1, 0, 0, 65, 1500, 0}) add_random_batch(rows, file++ % 2 == 0 ? -1 : 0);
        open();
    }
    std::string text(uint64_t number, size_t column) const {
        for (const auto& batch : values) {
            if (number < batch[column].size()) return text_of(batch[column][number], types[column]);
            number -= batch[column].size();
        }
        return "no row";
    }
    std::unique_ptr<HeldColumns> hold(std::vector<int32_t> columns) {
        auto held = std::make_unique<HeldColumns>(*source, std::move(columns), budget, control);
        held->load();
        return held;
    }
};

TypePtr result_type(const ColumnType& type) {
    ColumnType made = type;
    if (type.layout == Layout::kView) made.layout = Layout::kBinary, made.byte_width = 4;
    return std::make_shared<const ColumnType>(made);
}

// Rows of the GPU with the row numbers of both sides (of 4 and 8 bytes), whether they are there, and a carried number.
struct GpuRows {
    std::vector<uint32_t> build;
    std::vector<uint64_t> probe;
    std::vector<uint8_t> presence;
    std::vector<uint16_t> carried;
    std::vector<GpuOutput> columns;
    uint64_t rows() const { return build.size(); }
    // A list that stays until the next call.
    GpuOutputs outputs() {
        columns = {{reinterpret_cast<const uint8_t*>(build.data()), nullptr, sizeof(uint32_t)},
                   {reinterpret_cast<const uint8_t*>(probe.data()), nullptr, sizeof(uint64_t)},
                   {presence.data(), nullptr, sizeof(uint8_t)},
                   {reinterpret_cast<const uint8_t*>(carried.data()), nullptr, sizeof(uint16_t)}};
        return {columns, 0, rows()};
    }
    void add(uint64_t of_build, uint64_t of_probe, int present) {
        build.push_back(static_cast<uint32_t>(of_build));
        probe.push_back(of_probe);
        presence.push_back(static_cast<uint8_t>(present));
        carried.push_back(static_cast<uint16_t>(carried.size()));
    }
};

OutOfCoreStage numbered_stage() {
    OutOfCoreStage stage;
    stage.join.widths[kBuildSide] = {4, 2};
    stage.join.widths[kProbeSide] = {8};
    stage.join.output = {{cuda::OutputSide::kBuild, 0},
                         {cuda::OutputSide::kProbe, 0},
                         {cuda::OutputSide::kPresence, 0},
                         {cuda::OutputSide::kBuild, 1}};
    stage.join.result = cuda::JoinResultKind::kRows;
    stage.row_numbers[kBuildSide] = 0;
    stage.row_numbers[kProbeSide] = 1;
    return stage;
}

ResultPart part_of(int32_t source, int32_t column, uint8_t mask) {
    ResultPart part;
    part.value = column;
    part.mask = mask;
    part.source = source;
    return part;
}

}  // namespace

TEST(executor_held_columns_know_where_each_row_is) {
    Relation relation(5);
    const auto held = relation.hold({3});
    uint64_t row = 0;
    for (int64_t batch = 0; batch < relation.source->batch_count(); ++batch) {
        for (int64_t i = 0; i < relation.source->batch_rows(batch); ++i, ++row) {
            const HeldColumns::Place place = held->place(row);
            EXPECT_EQ(place.batch, batch);
            EXPECT_EQ(place.row, i);
        }
    }
    EXPECT_ERROR(kInternal, held->place(row));
}

// What the planner counts on (heldBytes in src/planner/streaming/join/gather.ts).
TEST(executor_held_columns_take_an_eighth_more_memory_than_they_have_in_files) {
    TestRelation relation(12);
    relation.add_column(type_of(Layout::kFixed, 8));
    for (int batch = 0; batch < 3; ++batch) relation.add_batch({integers(0, 65536, 8)}, 65536, 0);
    relation.open();
    const uint64_t used_before = relation.budget.used();
    HeldColumns held(*relation.source, {0}, relation.budget, relation.control);
    held.load();
    const uint64_t taken = relation.budget.used() - used_before;
    constexpr uint64_t kFileBytes = uint64_t{3} * 65536 * 8;
    EXPECT(taken > kFileBytes && taken <= kFileBytes / 8 * 9);
}

// mallinfo2: of the heap alone, without the blocks that the budget maps; sanitizers say 0.
TEST(executor_held_columns_count_what_many_batches_take) {
    TestRelation relation(14);
    relation.add_column(type_of(Layout::kFixed, 8));
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_column(dictionary_of(type_of(Layout::kBinary, 4)));
    constexpr int kBatches = 8192;
    for (int batch = 0; batch < kBatches; ++batch) relation.add_random_batch(1, batch % 2 == 0 ? -1 : 0);
    relation.open();
    relation.source->load_dictionaries({2}, relation.budget, relation.control);
    const uint64_t used_before = relation.budget.used();
    const size_t heap_before = mallinfo2().uordblks;
    HeldColumns held(*relation.source, {0, 1, 2}, relation.budget, relation.control);
    held.load();
    const uint64_t heap = mallinfo2().uordblks - heap_before;
    const uint64_t counted = relation.budget.used() - used_before;
    EXPECT(heap <= counted);
    EXPECT(counted > kBatches * uint64_t{1024});
    MemoryBudget small(1 << 20);
    EXPECT_ERROR(kBudgetTooSmall, HeldColumns(*relation.source, {0, 1, 2}, small, relation.control));
}

TEST(executor_result_gather_takes_values_of_every_layout_from_either_side) {
    Relation build(6);
    Relation probe(7);
    const uint64_t used_before = build.budget.used();
    OutOfCoreStage stage = numbered_stage();
    stage.presence = 2;
    const auto columns = static_cast<int32_t>(build.types.size());
    for (int32_t c = 0; c < columns; ++c) {
        const TypePtr type = result_type(build.types[static_cast<size_t>(c)]);
        const ResultPart of_build = part_of(kBuildSide, c, cuda::kBuildPresent);
        const ResultPart of_probe = part_of(kProbeSide, c, cuda::kProbePresent);
        stage.columns.push_back({type, {of_build}});
        // A dictionary column of both sides would need one dictionary.
        if (type->layout != Layout::kDictionary) stage.columns.push_back({type, {of_probe, of_build}});
    }
    ResultPart carried;
    carried.value = 3;
    stage.columns.push_back({std::make_shared<const ColumnType>(type_of(Layout::kFixed, 2)), {carried}});

    Random random(8);
    GpuRows rows;
    const int present[] = {cuda::kBuildPresent, cuda::kProbePresent, cuda::kBuildPresent | cuda::kProbePresent};
    std::multiset<std::string> expected;
    for (int i = 0; i < 5000; ++i) {
        const bool has_build = present[i % 3] & cuda::kBuildPresent;
        const bool has_probe = present[i % 3] & cuda::kProbePresent;
        // The number of a row that is not there has no meaning.
        const uint64_t b = has_build ? below(random, 2266) : 0xffffffffu;
        const uint64_t p = has_probe ? below(random, 2266) : ~0ULL;
        rows.add(b, p, present[i % 3]);
        std::string text;
        for (size_t c = 0; c < build.types.size(); ++c) {
            const std::string of_build = has_build ? build.text(b, c) : "null";
            text += "|" + of_build;
            if (build.types[c].layout != Layout::kDictionary) text += "|" + (has_probe ? probe.text(p, c) : of_build);
        }
        expected.insert(text + "|" + text_of(integers(i, 1, 2)[0], type_of(Layout::kFixed, 2)));
    }
    for (const BatchSize size : {BatchSize{.rows = 5000}, BatchSize{.rows = 100}, BatchSize{5000, 3000}}) {
        BatchCollector sink;
        sink.size = size;
        {
            const auto held_build = build.hold(gathered_columns(stage, kBuildSide));
            const auto held_probe = probe.hold(gathered_columns(stage, kProbeSide));
            const HeldSides held = {held_build.get(), held_probe.get()};
            ResultGather gather(gathered_rows(stage, held), sink, build.budget, 0);
            int reads = 0;
            EXPECT_EQ(gather.deliver(rows.outputs(), rows.rows(), [&] { ++reads; }), rows.rows());
            EXPECT_EQ(reads, 1);
        }
        std::multiset<std::string> found;
        for (const OutputBatch& batch : sink.batches) {
            EXPECT(batch.rows <= size.rows);
            EXPECT(batch.rows == 1 || batch.bytes() <= size.bytes * 2);
            for (int64_t row = 0; row < batch.rows; ++row) {
                std::string text;
                for (const OutputColumn& column : batch.columns) text += "|" + text_of(view_of(column), row);
                found.insert(text);
            }
        }
        EXPECT(found == expected);
        sink.batches.clear();
        EXPECT_EQ(build.budget.used(), used_before);
    }
}

// Selective joins give many short windows, and each is a batch.
TEST(executor_result_gather_takes_memory_for_the_rows_that_there_are) {
    Relation build(11);
    const uint64_t used_before = build.budget.used();
    OutOfCoreStage stage = numbered_stage();
    for (const int32_t c : {0, 3, 4}) {
        const TypePtr type = result_type(build.types[static_cast<size_t>(c)]);
        stage.columns.push_back({type, {part_of(kBuildSide, c, 0)}});
    }
    GpuRows rows;
    for (uint64_t i = 0; i < 30; ++i) rows.add(i * 7, 0, 0);
    const auto held_build = build.hold(gathered_columns(stage, kBuildSide));
    const HeldSides held = {held_build.get(), nullptr};
    const uint64_t used_held = build.budget.used();
    BatchCollector sink;
    sink.size = {.rows = 1'000'000};
    {
        ResultGather gather(gathered_rows(stage, held), sink, build.budget, 0);
        for (int window = 0; window < 10; ++window) gather.deliver(rows.outputs(), rows.rows(), [] {});
    }
    EXPECT_EQ(sink.batches.size(), 10u);
    uint64_t bytes = 0;
    for (const OutputBatch& batch : sink.batches) bytes += batch.bytes();
    EXPECT(bytes > 10 * 30 * 20);
    EXPECT(build.budget.used() - used_held < 10 * (bytes + 10 * 1024));
    sink.batches.clear();
    EXPECT(build.budget.used() == used_held && used_held > used_before);
    // Too little memory for a batch of as many rows as the sink takes, and enough for those of a window.
    const Reservation others = build.budget.reserve(build.budget.limit() - used_held - 100 * 1024, "others");
    ResultGather gather(gathered_rows(stage, held), sink, build.budget, 0);
    EXPECT_EQ(gather.deliver(rows.outputs(), rows.rows(), [] {}), rows.rows());
}

TEST(executor_result_gather_drops_pairs_whose_keys_differ) {
    Relation build(9);
    Relation probe(9);  // the same values
    OutOfCoreStage stage = numbered_stage();
    stage.keys = OutOfCoreKeys::kHashed;
    KeySpec text;
    text.kind = KeyKind::kBytes;
    text.width = 0;
    KeySpec bytes;
    bytes.column = 4;
    bytes.kind = KeyKind::kFixedBytes;
    bytes.width = 12;
    KeySpec dictionary = text;
    dictionary.column = 6;
    dictionary.kind = KeyKind::kDictionaryValue;
    for (const size_t side : {kBuildSide, kProbeSide}) stage.sides[side].keys = {text, bytes, dictionary};
    stage.columns.push_back({result_type(build.types[0]), {part_of(kProbeSide, 0, 0)}});
    Random random(10);
    GpuRows rows;
    uint64_t equal = 0;
    for (int i = 0; i < 4000; ++i) {
        const uint64_t b = below(random, 2266);
        const uint64_t p = i % 2 == 0 ? b : below(random, 2266);
        rows.add(b, p, 0);
        bool same = true;
        for (const size_t column : {0, 4, 6}) same = same && build.text(b, column) == probe.text(p, column);
        equal += same;
    }
    EXPECT(equal >= 2000 && equal < 4000);
    const auto held_build = build.hold(gathered_columns(stage, kBuildSide));
    const auto held_probe = probe.hold(gathered_columns(stage, kProbeSide));
    const HeldSides held = {held_build.get(), held_probe.get()};
    BatchCollector sink;
    ResultGather gather(gathered_rows(stage, held), sink, build.budget, 0);
    EXPECT_EQ(gather.deliver(rows.outputs(), rows.rows(), [] {}), equal);
    uint64_t delivered = 0;
    for (const OutputBatch& batch : sink.batches) delivered += static_cast<uint64_t>(batch.rows);
    EXPECT_EQ(delivered, equal);
}

}  // namespace spillway::test
