// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/streaming/tree.hpp"
#include "support/out_of_core_group_trial.hpp"

// Trees of operators out of core on the (fake) GPU over three relations, and rows as nested loops find them.
namespace spillway::test {

// Outputs of the join of inner_join(): the key, then columns of both sides with a byte each that says whether they are
// NULL.
enum JoinOutput : int16_t {
    kKeyOut,
    kBuildNumber,
    kBuildNumberValid,
    kBuildBool,
    kBuildBoolValid,
    kProbeNumber,
    kProbeNumberValid,
    kProbeBool,
    kProbeBoolValid
};

inline cuda::PipeValue piped(uint32_t width, int16_t column, int16_t validity = -1, uint8_t mask = 0) {
    cuda::PipeValue value;
    value.parts = {{column, validity, 0, mask}};
    value.width = width;
    return value;
}

inline cuda::PipeColumn piped_column(const cuda::PipeValue& value, cuda::PipeColumnKind kind, uint64_t fill = 0) {
    return {value, kind, fill};
}

// A row of a side; nullptr: there is none.
using SideRow = const std::vector<Value>*;

inline TypePtr fixed_type(int32_t width) {
    return std::make_shared<const ColumnType>(type_of(Layout::kFixed, width));
}

struct TreeTest {
    explicit TreeTest(uint64_t memory_bytes = 2 * kOutOfCoreLimitBytes) : gpu(memory_bytes) {}

    OutOfCoreTreeReport run(BatchSink* sink) {
        const DevicePause pause = [](const std::function<void()>& wait) { wait(); };
        const auto pinned = kept_pinned(gpu.device, a.budget, 1024 * kMiB);
        return tree_out_of_core({{a.source.get()}, {b.source.get()}, {c.source.get()}}, tree, *pinned, pause, sink,
                                a.control, space);
    }

    std::multiset<std::string> result() {
        batches::BatchCollector sink;
        report = run(&sink);
        std::multiset<std::string> rows = test::rows_of(sink);
        EXPECT_EQ(report.rows, rows.size());
        return rows;
    }

    static std::vector<std::vector<Value>> rows_of(const Side& side) {
        std::vector<std::vector<Value>> rows;
        for (const auto& batch : side.values) {
            for (size_t row = 0; row < batch[0].size(); ++row) {
                rows.push_back({batch[0][row], batch[1][row], batch[2][row]});
            }
        }
        return rows;
    }

    static bool equal(const Value& left, const Value& right) {
        return !left.null && !right.null && left.bytes == right.bytes;
    }
    std::string text(const Value& value, size_t column) const { return "|" + text_of(value, a.types[column]); }

    // A row of a with each of b that has its key; left: rows of b that find none come alone.
    void join(bool left, const std::function<void(SideRow, SideRow)>& use) const {
        const auto build = rows_of(a);
        const auto probe = rows_of(b);
        for (const auto& of_probe : probe) {
            bool found = false;
            for (const auto& of_build : build) {
                if (!equal(of_build[0], of_probe[0])) continue;
                found = true;
                use(&of_build, &of_probe);
            }
            if (left && !found) use(nullptr, &of_probe);
        }
    }

    void expect_clean() const {
        EXPECT_EQ(gpu.device.memory().used_bytes, 0u);
        EXPECT_EQ(gpu.device.memory().pinned_used_bytes, 0u);
        EXPECT_EQ(a.budget.used(), used_before);
    }

    OutOfCoreGpu gpu;
    Side a{51, {600, 0, 77}};
    Side b{52, {700, 300, 1}};
    Side c{53, {500, 400}};
    OutOfCoreTree tree;
    OutOfCoreTreeReport report;
    std::shared_ptr<SpillSpace> space;  // nullptr: nothing goes to disk
    const uint64_t used_before = a.budget.used();
};

// (a join b on the key) join c on the key and b's bool, where c is the build side or the probe side.
struct JoinedJoinTest : TreeTest {
    explicit JoinedJoinTest(bool c_builds) {
        const cuda::StagedJoinSpec first = inner_join().join;
        cuda::StagedJoinSpec second = first;
        const int32_t c_input = c_builds ? 0 : 1;
        second.key_bytes = 8;
        second.widths[c_input] = {8, 1};
        second.widths[1 - c_input] = {8, 1, 8, 1};
        const auto of_c = c_builds ? cuda::OutputSide::kBuild : cuda::OutputSide::kProbe;
        const auto of_pair = c_builds ? cuda::OutputSide::kProbe : cuda::OutputSide::kBuild;
        second.output = {
            {cuda::OutputSide::kKey, 0}, {of_pair, 0}, {of_pair, 1}, {of_pair, 2}, {of_pair, 3}, {of_c, 0}, {of_c, 1}};
        tree.operators = {first, second};
        const OutOfCoreSide side = inner_join().sides[0];
        OutOfCoreSide side_of_c;
        side_of_c.keys = {{0, KeyKind::kInteger, KeyKind::kInteger, 4}, {2, KeyKind::kInteger, KeyKind::kInteger, 1}};
        side_of_c.columns = {{1, false}, {1, true}};
        const TreeFlow of_a{0, side, {{0, 0, {}}}};
        const TreeFlow of_b{1, side, {{0, 1, {}}, {1, 1 - c_input, pipe()}}};
        const TreeFlow read_c{2, side_of_c, {{1, c_input, {}}}};
        tree.flows = c_builds ? std::vector<TreeFlow>{of_a, read_c, of_b} : std::vector<TreeFlow>{of_a, of_b, read_c};
        const auto truth = std::make_shared<const ColumnType>(type_of(Layout::kBool));
        tree.result = TreeJoinResult{{{fixed_type(4), {{0, 0, -1, 0}}},
                                      {truth, {{0, 4, -1, 0}}},
                                      {fixed_type(8), {{1, 0, 2, 0}}},
                                      {fixed_type(8), {{3, 0, 4, 0}}},
                                      {fixed_type(8), {{5, 0, 6, 0}}}},
                                     -1};
        tree.workers = 3;
    }

    static cuda::PipeSpec pipe() {
        cuda::PipeSpec pipe;
        pipe.keys = {{piped(4, kKeyOut), cuda::PipeKeyForm::kSigned, 4, 0},
                     {piped(1, kProbeBool, kProbeBoolValid), cuda::PipeKeyForm::kUnsigned, 1, 4}};
        for (const int16_t column : {kBuildNumber, kProbeNumber}) {
            const auto value = piped(8, column, static_cast<int16_t>(column + 1));
            pipe.columns.push_back(piped_column(value, cuda::PipeColumnKind::kValue));
            pipe.columns.push_back(piped_column(value, cuda::PipeColumnKind::kPresence));
        }
        return pipe;
    }

    std::multiset<std::string> expected() const {
        const auto of_c = rows_of(c);
        std::multiset<std::string> rows;
        join(false, [&](SideRow build, SideRow probe) {
            for (const auto& row : of_c) {
                if (!equal(row[0], (*probe)[0]) || !equal(row[2], (*probe)[2])) continue;
                rows.insert(text((*probe)[0], 0) + text((*probe)[2], 2) + text((*build)[1], 1) + text((*probe)[1], 1) +
                            text(row[1], 1));
            }
        });
        return rows;
    }
};

// Groups of the rows of a join of a and b, by its key and a's bool: count and mean of b's numbers.
struct GroupedJoinTest : TreeTest {
    // left: rows of b without a partner, and those without a key, are kept.
    explicit GroupedJoinTest(bool left) : left_(left) {
        cuda::StagedJoinSpec join = inner_join().join;
        join.kind.keep_unmatched_probe = left;
        join.output.push_back({cuda::OutputSide::kPresence, 0});
        cuda::StagedGroupBySpec group = means_of_numbers().group;
        group.key_bytes = 8;
        group.null_group = false;
        tree.operators = {join, group};
        const OutOfCoreSide side = inner_join().sides[0];
        tree.flows = {{0, side, {{0, 0, {}}}}, {1, side, {{0, 1, {}}, {1, 0, pipe()}}}};
        GroupResultColumn key;
        key.type = fixed_type(4);
        key.key = 0;
        GroupResultColumn truth;
        truth.type = std::make_shared<const ColumnType>(type_of(Layout::kBool));
        truth.offset = 4;
        truth.key = 1;
        GroupResultColumn values;
        values.type = fixed_type(8);
        values.value = 1;
        GroupResultColumn mean = means_of_numbers().columns[2];
        mean.value = 2;
        mean.high = 3;
        mean.count = 1;
        mean.present = 1;
        tree.result = TreeGroupResult{{key, truth, values, mean}, 5};
        tree.workers = 2;
    }

    static cuda::PipeSpec pipe() {
        cuda::PipeSpec pipe;
        pipe.presence = kProbeBoolValid + 1;
        pipe.null_byte = 5;
        pipe.keys = {{piped(4, kKeyOut, -1, cuda::kKeyPresent), cuda::PipeKeyForm::kSigned, 4, 0},
                     {piped(1, kBuildBool, kBuildBoolValid, cuda::kBuildPresent), cuda::PipeKeyForm::kUnsigned, 1, 4}};
        const auto number = piped(8, kProbeNumber, kProbeNumberValid, cuda::kProbePresent);
        for (const auto kind :
             {cuda::PipeColumnKind::kPresence, cuda::PipeColumnKind::kLow, cuda::PipeColumnKind::kHigh}) {
            pipe.columns.push_back(piped_column(number, kind));
        }
        return pipe;
    }

    std::multiset<std::string> expected() const {
        struct Group {
            int64_t values = 0;
            __int128 sum = 0;
        };
        std::map<std::string, Group> groups;
        join(left_, [&](SideRow build, SideRow probe) {
            Value none;
            none.null = true;
            Group& group = groups[text((*probe)[0], 0) + text(build == nullptr ? none : (*build)[2], 2)];
            if ((*probe)[1].null) return;
            int64_t value = 0;
            std::memcpy(&value, (*probe)[1].bytes.data(), sizeof value);
            ++group.values;
            group.sum += value;
        });
        const auto cell = [&](const void* bytes) {
            Value value;
            value.null = bytes == nullptr;
            if (bytes != nullptr) value.bytes.assign(static_cast<const char*>(bytes), sizeof(uint64_t));
            return text(value, 1);
        };
        std::multiset<std::string> texts;
        for (const auto& [key, group] : groups) {
            const double mean = group.values == 0 ? 0 : nearest_mean(group.sum, static_cast<uint64_t>(group.values), 0);
            texts.insert(key + cell(&group.values) + cell(group.values == 0 ? nullptr : &mean));
        }
        return texts;
    }

  private:
    const bool left_;
};

}  // namespace spillway::test
