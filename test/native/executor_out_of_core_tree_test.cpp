// SPDX-License-Identifier: Apache-2.0
// Trees of operators out of core on the (fake) GPU: rows that go from one into the next, failing sources and sinks,
// what stays in memory.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "cuda/memory_model/staged_memory.hpp"
#include "executor/sinks/count_sink.hpp"
#include "executor/streaming/chunk_columns.hpp"
#include "support/out_of_core_tree_trial.hpp"

namespace spillway::test {

namespace {

class StuckSink final : public BatchSink {
  public:
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&&) override {
        if (++pushed == 2) throw Error(ErrorCode::kDiskFull, "no room");
    }
    BatchSize batch_size() const override { return {.rows = 20}; }
    std::atomic<int> pushed{0};
};

template <class T>
std::vector<Value> values_of(const std::vector<T>& numbers) {
    std::vector<Value> values;
    for (const T& number : numbers) {
        values.emplace_back().bytes.assign(reinterpret_cast<const char*>(&number), sizeof number);
    }
    return values;
}

// Row numbers, and these values.
template <class T>
void fill_relation(TestRelation& relation, const std::vector<T>& values) {
    relation.add_column(type_of(Layout::kFixed, 4));
    relation.add_column(type_of(Layout::kFixed, sizeof(T)));
    const auto rows = static_cast<int64_t>(values.size());
    relation.add_batch({integers(0, rows, 4), values_of(values)}, rows, -1);
    relation.open();
}

// One group of all rows.
void drop_keys(GroupedJoinTest& test) {
    test.tree.flows[1].steps[1].pipe.keys.clear();
    test.tree.flows[1].steps[1].pipe.null_byte = -1;
    auto& result = std::get<TreeGroupResult>(test.tree.result);
    result.null_byte = -1;
    result.columns.erase(result.columns.begin(), result.columns.begin() + 2);
}

}  // namespace

TEST(executor_out_of_core_trees_join_the_rows_of_a_join) {
    for (const bool c_builds : {true, false}) {
        JoinedJoinTest test(c_builds);
        const auto expected = test.expected();
        EXPECT(expected.size() > 300);
        EXPECT(test.result() == expected);
        const cuda::StreamReport& first = test.report.operators[0];
        const cuda::StreamReport& second = test.report.operators[1];
        EXPECT_EQ(first.rows[kBuildSide], 677u);
        EXPECT_EQ(first.rows[kProbeSide], 1001u);
        EXPECT_EQ(second.rows[c_builds ? kBuildSide : kProbeSide], 900u);
        EXPECT_EQ(second.rows[c_builds ? kProbeSide : kBuildSide], first.result_rows);
        EXPECT_EQ(second.result_rows, expected.size());
        EXPECT(first.spilled_rows[kBuildSide] > 0 && second.spilled_rows[kBuildSide] > 0);
        test.expect_clean();
    }
}

// Keys of two words: a bool that is widened to 8 bytes behind a number of 4, or two short ones with flags of NULLs in a
// word of their own, where NULLs are equal.
TEST(executor_out_of_core_trees_compare_keys_of_two_words) {
    for (const bool flagged : {false, true}) {
        JoinedJoinTest test(true);
        auto& second = std::get<cuda::StagedJoinSpec>(test.tree.operators[1]);
        const auto pair = cuda::OutputSide::kProbe;
        const auto of_c = cuda::OutputSide::kBuild;
        second.key_columns = 1;
        second.widths[kBuildSide] = {8, 8, 1};
        second.widths[kProbeSide] = {8, 8, 1, 4};
        second.output = {{pair, 1}, {pair, 2}, {pair, 3}, {of_c, 1}, {of_c, 2}};
        const int32_t other = 2;
        const int32_t null_byte = flagged ? 8 : -1;
        OutOfCoreSide& side = test.tree.flows[1].side;
        side.keys = {{0, KeyKind::kInteger, KeyKind::kInteger, 4},
                     {other, KeyKind::kInteger, KeyKind::kInteger, flagged ? 1 : 8}};
        side.columns = {{kKeyWordColumn, false}, {1, false}, {1, true}};
        side.null_byte = null_byte;
        cuda::PipeSpec& pipe = test.tree.flows[2].steps[1].pipe;
        const auto number = piped(8, kProbeNumber, kProbeNumberValid);
        const auto truth = piped(1, kProbeBool, kProbeBoolValid);
        pipe.key_columns = 1;
        pipe.null_byte = null_byte;
        pipe.keys = {{piped(4, kKeyOut), cuda::PipeKeyForm::kSigned, 4, 0, 0},
                     {truth, cuda::PipeKeyForm::kUnsigned, static_cast<uint8_t>(flagged ? 1 : 8),
                      static_cast<uint8_t>(flagged ? 4 : 0), static_cast<uint8_t>(flagged ? 0 : 1)}};
        pipe.columns = {piped_column({}, cuda::PipeColumnKind::kKeyWord),
                        piped_column(number, cuda::PipeColumnKind::kValue),
                        piped_column(number, cuda::PipeColumnKind::kPresence),
                        piped_column(piped(4, kKeyOut), cuda::PipeColumnKind::kValue)};
        test.tree.result = TreeJoinResult{
            {{fixed_type(8), {{0, 0, 1, 0}}}, {fixed_type(4), {{2, 0, -1, 0}}}, {fixed_type(8), {{3, 0, 4, 0}}}},
            -1,
            {}};
        std::multiset<std::string> expected;
        const auto rows_of_c = TreeTest::rows_of(test.c);
        const auto at = static_cast<size_t>(other);
        test.join(false, [&](SideRow, SideRow probe) {
            for (const auto& row : rows_of_c) {
                const Value& own = (*probe)[at];
                const bool equal_nulls = flagged && own.null && row[at].null;
                if (!TreeTest::equal(row[0], (*probe)[0])) continue;
                if (!equal_nulls && !TreeTest::equal(row[at], own)) continue;
                expected.insert(test.text((*probe)[1], 1) + test.text((*probe)[0], 0) + test.text(row[1], 1));
            }
        });
        EXPECT(expected.size() > 300);
        EXPECT(test.result() == expected);
        test.expect_clean();
    }
}

// Rows between operators never cross the link: what leaves the first one is what it spilled.
TEST(executor_out_of_core_trees_count_what_crosses_the_link) {
    JoinedJoinTest test(true);
    test.result();
    const cuda::StreamReport& first = test.report.operators[0];
    const cuda::StreamReport& second = test.report.operators[1];
    const auto spilled = [](const cuda::StreamReport& of) { return of.spilled_bytes[0] + of.spilled_bytes[1]; };
    EXPECT_EQ(first.d2h_bytes, spilled(first));
    // A chunk of c has a key of 8 bytes, a number and a byte, and a bit per row in words.
    EXPECT_EQ(second.h2d_bytes - spilled(second), uint64_t{900} * 17 + 4 * 24 + 20);
}

TEST(executor_out_of_core_trees_group_the_rows_of_a_join) {
    for (const bool left : {false, true}) {
        GroupedJoinTest test(left);
        const auto expected = test.expected();
        EXPECT(expected.size() > 200);
        EXPECT(test.result() == expected);
        EXPECT_EQ(test.report.operators[1].rows[0], test.report.operators[0].result_rows);
        EXPECT_EQ(test.report.operators[1].h2d_bytes, test.report.operators[1].spilled_bytes[0]);
        test.expect_clean();
    }
}

TEST(executor_out_of_core_trees_widen_keys) {
    // c's key of 4 bytes against the pairs' number of 4 bytes, both with 8 bytes in the key: negative ones, too.
    JoinedJoinTest test(true);
    test.tree.flows[1].side.keys = {{0, KeyKind::kInteger, KeyKind::kInteger, 8}};
    cuda::PipeSpec& pipe = test.tree.flows[2].steps[1].pipe;
    pipe.keys = {{piped(4, kKeyOut), cuda::PipeKeyForm::kSigned, 8, 0}};
    auto& result = std::get<TreeJoinResult>(test.tree.result);
    result.columns.erase(result.columns.begin() + 1);
    std::multiset<std::string> expected;
    const auto of_c = TreeTest::rows_of(test.c);
    test.join(false, [&](SideRow build, SideRow probe) {
        for (const auto& row : of_c) {
            if (!TreeTest::equal(row[0], (*probe)[0])) continue;
            expected.insert(test.text((*probe)[0], 0) + test.text((*build)[1], 1) + test.text((*probe)[1], 1) +
                            test.text(row[1], 1));
        }
    });
    EXPECT(expected.size() > 1000);
    EXPECT(test.result() == expected);
}

TEST(executor_out_of_core_trees_widen_floats_to_keys) {
    TestRelation narrow(55);
    TestRelation wide(56);
    const float strange = std::bit_cast<float>(0xffc01234U);  // another NaN
    fill_relation<float>(narrow, {0.0F, -0.0F, strange, NAN, 1.5F, -2.5F, INFINITY, 7});
    fill_relation<double>(wide, {-0.0, NAN, -2.5, 1.5, 1.5, 3, -INFINITY});
    // Each narrow value with itself, by its row's number; those with the wide ones.
    JoinedJoinTest test(true);
    auto& first = std::get<cuda::StagedJoinSpec>(test.tree.operators[0]);
    auto& second = std::get<cuda::StagedJoinSpec>(test.tree.operators[1]);
    first.widths[kBuildSide] = {4};
    first.widths[kProbeSide] = {};
    first.output = {{cuda::OutputSide::kBuild, 0}};
    second.widths[kBuildSide] = {};
    second.widths[kProbeSide] = {};
    second.output = {};
    second.result = cuda::JoinResultKind::kCount;
    test.tree.flows[0].side.columns = {{1, false}};
    test.tree.flows[1].side = {{{1, KeyKind::kFloat, KeyKind::kFloat, 8}}, {}, -1};
    test.tree.flows[2].side.columns = {};
    cuda::PipeSpec pipe;
    pipe.keys = {{piped(4, 0), cuda::PipeKeyForm::kFloat, 8, 0}};
    test.tree.flows[2].steps[1].pipe = pipe;
    test.a.source = std::move(narrow.source);
    test.b.source = std::make_unique<Source>(narrow.spec);
    test.c.source = std::move(wide.source);
    // Two zeros with one, two NaNs with one, 1.5 with two, -2.5 with one.
    EXPECT_EQ(test.run(nullptr).rows, 2u + 2u + 2u + 1u);
}

TEST(executor_out_of_core_trees_take_the_first_part_that_counts) {
    // The number of a, or where there is no row of it that of b.
    GroupedJoinTest test(true);
    cuda::PipeSpec& pipe = test.tree.flows[1].steps[1].pipe;
    cuda::PipeValue either = piped(8, kBuildNumber, kBuildNumberValid, cuda::kBuildPresent);
    either.parts.push_back({kProbeNumber, kProbeNumberValid, 0, cuda::kProbePresent});
    for (cuda::PipeColumn& column : pipe.columns) column.value = either;
    auto& result = std::get<TreeGroupResult>(test.tree.result);
    result.columns.erase(result.columns.begin() + 2);
    drop_keys(test);
    __int128 sum = 0;
    uint64_t values = 0;
    test.join(true, [&](SideRow build, SideRow probe) {
        const Value& value = build != nullptr ? (*build)[1] : (*probe)[1];
        if (value.null) return;
        int64_t number = 0;
        std::memcpy(&number, value.bytes.data(), sizeof number);
        sum += number;
        ++values;
    });
    const double mean = nearest_mean(sum, values, 0);
    Value cell;
    cell.bytes.assign(reinterpret_cast<const char*>(&mean), sizeof mean);
    EXPECT(test.result() == std::multiset<std::string>{test.text(cell, 1)});
}

TEST(executor_out_of_core_trees_let_something_stand_for_null) {
    GroupedJoinTest test(true);
    auto& group = std::get<cuda::StagedGroupBySpec>(test.tree.operators[1]);
    group.widths = {1, 8};
    group.aggregates = {{cuda::GroupAggregateKind::kSum, cuda::ValueKind::kUnsigned, 0},
                        {cuda::GroupAggregateKind::kMin, cuda::ValueKind::kSigned, 1}};
    cuda::PipeSpec& pipe = test.tree.flows[1].steps[1].pipe;
    const auto number = piped(8, kBuildNumber, kBuildNumberValid, cuda::kBuildPresent);
    const uint64_t largest = fill_bits(*fixed_type(8), ChunkPart::kWhole, 8, ChunkFill::kLargest);
    pipe.columns = {piped_column(number, cuda::PipeColumnKind::kPresence),
                    piped_column(number, cuda::PipeColumnKind::kValue, largest)};
    GroupResultColumn least;
    least.type = fixed_type(8);
    least.value = 2;
    least.present = 1;
    auto& columns = std::get<TreeGroupResult>(test.tree.result).columns;
    columns = {columns[0], columns[1], least};
    std::map<std::string, std::optional<int64_t>> groups;
    test.join(true, [&](SideRow build, SideRow probe) {
        Value none;
        none.null = true;
        auto& found = groups[test.text((*probe)[0], 0) + test.text(build == nullptr ? none : (*build)[2], 2)];
        if (build == nullptr || (*build)[1].null) return;
        int64_t value = 0;
        std::memcpy(&value, (*build)[1].bytes.data(), sizeof value);
        found = std::min(found.value_or(value), value);
    });
    std::multiset<std::string> expected;
    for (const auto& [key, found] : groups) {
        Value cell;
        cell.null = !found;
        if (found) cell.bytes.assign(reinterpret_cast<const char*>(&*found), sizeof *found);
        expected.insert(key + test.text(cell, 1));
    }
    EXPECT(test.result() == expected);
}

TEST(executor_out_of_core_trees_give_one_group_without_keys_and_rows) {
    GroupedJoinTest test(false);
    drop_keys(test);
    EXPECT_EQ(test.result().size(), 1u);
    Side empty(54, {0});
    test.a.source = std::move(empty.source);
    const auto rows = test.result();
    EXPECT_EQ(rows.size(), 1u);
    EXPECT_EQ(*rows.begin(), "|x0000000000000000|null");
    EXPECT_EQ(test.report.operators[1].result_rows, 1u);
    EXPECT_EQ(test.run(nullptr).rows, 1u);
}

TEST(executor_out_of_core_trees_count_rows) {
    GroupedJoinTest groups(true);
    EXPECT_EQ(groups.run(nullptr).rows, groups.expected().size());
    EXPECT_EQ(groups.a.control.rows_out.load(), groups.expected().size());
    CountSink sink(groups.a.control);
    groups.run(&sink);
    EXPECT_EQ(sink.total(), groups.expected().size());
    groups.expect_clean();
    JoinedJoinTest joins(true);
    std::get<cuda::StagedJoinSpec>(joins.tree.operators[1]).result = cuda::JoinResultKind::kCount;
    EXPECT_EQ(joins.run(nullptr).rows, joins.expected().size());
    joins.expect_clean();
}

// The first join has ended when the group-by takes its memory, though not the second, whose rows it groups.
TEST(executor_out_of_core_trees_free_operators_that_are_done) {
    JoinedJoinTest test(false);
    test.result();
    const auto memory_of = [&](size_t op) {
        return cuda::staged_join_memory(std::get<cuda::StagedJoinSpec>(test.tree.operators[op]));
    };
    const uint64_t pipe_bytes = memory_of(1).chunk_bytes[kBuildSide];
    const uint64_t both = memory_of(0).device_bytes + memory_of(1).device_bytes;
    EXPECT_EQ(test.report.operators[0].peak_bytes, both + pipe_bytes);
    // The first has gone: c may be joined while the GPU has no room for both.
    JoinedJoinTest chain(false);
    auto third = std::get<cuda::StagedGroupBySpec>(GroupedJoinTest(false).tree.operators[1]);
    chain.tree.operators.emplace_back(third);
    chain.tree.flows[2].steps.push_back({2, 0, {}});
    cuda::PipeSpec& pipe = chain.tree.flows[2].steps[1].pipe;
    pipe.columns = GroupedJoinTest::pipe().columns;
    for (cuda::PipeColumn& column : pipe.columns) column.value = piped(8, 5, 6);
    GroupResultColumn values;
    values.type = fixed_type(8);
    values.value = 1;
    chain.tree.result = TreeGroupResult{{values}, -1};
    const uint64_t groups = cuda::staged_group_by_memory(third).device_bytes;
    const auto counted = chain.result();
    uint64_t count = 0;
    for (const std::string& row : chain.expected()) count += row.ends_with("|null") ? 0 : 1;
    Value cell;
    cell.bytes.assign(reinterpret_cast<const char*>(&count), sizeof count);
    EXPECT(counted == std::multiset<std::string>{chain.text(cell, 1)});
    EXPECT(chain.report.operators[2].peak_bytes < both + groups);
    chain.expect_clean();
}

TEST(executor_out_of_core_trees_spill_to_disk) {
    const TemporaryFolder folder;
    GroupedJoinTest test(true);
    test.space = std::make_shared<SpillSpace>(folder.path());
    for (OutOfCoreOperator& op : test.tree.operators) {
        auto* const group = std::get_if<cuda::StagedGroupBySpec>(&op);
        cuda::StreamSizes& sizes = group != nullptr ? group->sizes : std::get<cuda::StagedJoinSpec>(op).sizes;
        sizes.spill_bytes = 1000;
        sizes.disk_block_bytes = 500;
        sizes.disk_blocks = 3;
    }
    EXPECT(test.result() == test.expected());
    for (const cuda::StreamReport& report : test.report.operators) EXPECT(report.disk_written_bytes > 0);
    test.expect_clean();
    EXPECT_EQ(folder.entries(), 0u);
    test.space = std::make_shared<SpillSpace>(folder.file("nothing"));
    try {
        test.result();
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
        EXPECT_EQ(detail(error, "tier"), "host");
        EXPECT_EQ(detail(error, "otherOption"), "memory.spillDirectory");
    }
    test.expect_clean();
}

TEST(executor_out_of_core_trees_end_when_source_or_sink_do) {
    for (const bool c_builds : {true, false}) {
        JoinedJoinTest sources(c_builds);
        // That of the second flow, of two that follow.
        std::filesystem::resize_file((c_builds ? sources.c : sources.b).files[0]->path(), 64);
        batches::BatchCollector sink;
        EXPECT_ERROR(kFileTruncated, sources.run(&sink));
        sources.expect_clean();
        JoinedJoinTest sinks(c_builds);
        StuckSink failing;
        EXPECT_ERROR(kDiskFull, sinks.run(&failing));
        sinks.expect_clean();
    }
}

TEST(executor_out_of_core_trees_end_when_the_job_does) {
    GroupedJoinTest test(true);
    test.gpu.folder.behave("slow");  // once the second flow has begun
    std::jthread cancels([&](const std::stop_token& ended) {
        while (test.a.control.rows_in <= 677 && !ended.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        test.a.control.cancelled = true;
        test.gpu.device.set_cancelled(true);
    });
    batches::BatchCollector sink;
    EXPECT_ERROR(kAborted, test.run(&sink));
    cancels.join();
    test.gpu.device.set_cancelled(false);
    EXPECT(test.a.control.rows_in > 677);
    test.expect_clean();
}

TEST(executor_out_of_core_trees_say_which_memory_is_too_small) {
    const auto tier_of = [](TreeTest& test) {
        batches::BatchCollector sink;
        try {
            test.run(&sink);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
            EXPECT_EQ(detail(error, "delivered"), "nothing");
            test.expect_clean();
            return detail(error, "tier");
        }
        return std::string("none");
    };
    JoinedJoinTest host(true);
    std::get<cuda::StagedJoinSpec>(host.tree.operators[1]).sizes.spill_bytes = 1ULL << 40;
    EXPECT_EQ(tier_of(host), "host");
    JoinedJoinTest device(true);
    std::get<cuda::StagedJoinSpec>(device.tree.operators[1]).sizes.pages = 1 << 20;
    EXPECT_EQ(tier_of(device), "device");
}

}  // namespace spillway::test
