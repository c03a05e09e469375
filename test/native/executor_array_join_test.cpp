// SPDX-License-Identifier: Apache-2.0
// join_array() against a map, with more workers than cores and morsels of a few rows.
#include <algorithm>
#include <map>

#include "executor/cpu/joins.hpp"
#include "executor/sinks/count_sink.hpp"
#include "support/output_columns.hpp"
#include "support/test_relation.hpp"

namespace spillway::test {

namespace {

using batches::BatchCollector;

constexpr int32_t kWorkers = 8;

// Keys in batches of 1000 rows: from memory and from a file, with NULLs in every second one.
struct Keys {
    TestRelation relation;
    std::vector<int64_t> valid;
    int64_t rows = 0;

    Keys(uint64_t seed, const std::vector<int64_t>& keys, bool nulls) : relation(seed) {
        relation.add_column(type_of(Layout::kFixed, 8));
        relation.add_column(type_of(Layout::kBinary));
        for (size_t begin = 0; begin < keys.size(); begin += 1000) {
            std::vector<Value> words;
            std::vector<std::string> texts;
            const size_t end = std::min(begin + 1000, keys.size());
            for (size_t i = begin; i < end; ++i) {
                words.push_back(integers(keys[i], 1)[0]);
                words.back().null = nulls && (begin / 1000) % 2 == 1 && i % 5 == 0;
                texts.push_back(std::string(i % 4, 'x') + std::to_string(keys[i]));
                if (!words.back().null) valid.push_back(keys[i]);
            }
            relation.add_batch({std::move(words), strings(texts)}, static_cast<int64_t>(end - begin),
                               static_cast<int32_t>(begin / 1000 % 2) - 1);
        }
        rows = static_cast<int64_t>(keys.size());
        relation.open();
    }

    PartitionSpec spec(std::vector<int32_t> carry, NullKeys nulls) const {
        PartitionSpec spec;
        spec.keys = {KeySpec{}};
        spec.carry = std::move(carry);
        spec.null_keys = nulls;
        spec.morsel_rows = 37;
        spec.workers = kWorkers;
        return spec;
    }
};

ArrayJoinSpec join_spec(int64_t first, uint64_t values) {
    ArrayJoinSpec spec;
    spec.first_key = static_cast<uint64_t>(first);
    spec.key_values = values;
    spec.build_workers = 5;
    spec.workers = kWorkers;
    return spec;
}

uint64_t run(Keys& build, Keys& probe, const ArrayJoinSpec& spec, std::vector<int32_t> carry, BatchSink& sink) {
    build.relation.control.cancelled = false;  // a join that failed has stopped its workers
    const bool keeps = spec.keep_unmatched_probe || spec.anti;
    return join_array(*build.relation.source, build.spec({}, NullKeys::kDrop), *probe.relation.source,
                      probe.spec(std::move(carry), keeps ? NullKeys::kKeep : NullKeys::kDrop), spec, sink,
                      build.relation.budget, build.relation.control);
}

std::vector<int64_t> shuffled(Random& random, int64_t first, int64_t count) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < count; ++i) keys.push_back(first + i);
    std::shuffle(keys.begin(), keys.end(), random);
    return keys;
}

void check(Keys& build, Keys& probe, ArrayJoinSpec spec) {
    const std::map<int64_t, bool> there = [&] {
        std::map<int64_t, bool> keys;
        for (const int64_t key : build.valid) keys[key] = true;
        return keys;
    }();
    uint64_t matches = 0;
    for (const int64_t key : probe.valid) matches += there.count(key);
    const uint64_t others = static_cast<uint64_t>(probe.rows) - matches;
    for (const bool outer : {false, true}) {
        spec.keep_unmatched_probe = spec.emit == JoinEmit::kPairs && outer;
        spec.anti = spec.emit == JoinEmit::kProbeOnce && outer;
        const uint64_t expected = spec.anti ? others : matches + (spec.keep_unmatched_probe ? others : 0);
        CountSink count(build.relation.control);
        EXPECT_EQ(run(build, probe, spec, {}, count), expected);
        EXPECT_EQ(count.total(), expected);
        ArrayJoinSpec with_columns = spec;
        with_columns.outputs = {0, 1};
        BatchCollector collected;
        EXPECT_EQ(run(build, probe, with_columns, {1, 0}, collected), expected);
        uint64_t rows = 0;
        for (const OutputBatch& batch : collected.batches) {
            for (int64_t i = 0; i < batch.rows; ++i, ++rows) {
                const OutputColumn& keys = batch.columns[1];
                if (keys.validity.size() > 0 && !get_bit(keys.validity.data(), i)) continue;
                const auto key = batches::value_at<int64_t>(keys, i);
                if (!outer) EXPECT(there.count(key) == 1);
                const std::string text = batches::text_at(batch.columns[0], i);
                EXPECT_EQ(text.substr(text.find_first_not_of('x')), std::to_string(key));
            }
        }
        EXPECT_EQ(rows, expected);
    }
}

std::string reason(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        for (const auto& [name, text] : error.details()) {
            if (name == "reason") return text;
        }
    }
    return "";
}

}  // namespace

TEST(array_join_agrees_with_a_map) {
    Random random(5);
    const auto rows = static_cast<int64_t>(fewer_if_sanitized(9000));
    for (const int64_t first : {int64_t{0}, int64_t{-4000}}) {
        Keys build(1, shuffled(random, first, rows), true);
        std::vector<int64_t> probes;
        for (int64_t i = 0; i < rows; ++i) probes.push_back(first - 500 + below(random, rows + 1000));
        Keys probe(2, probes, true);
        check(build, probe, join_spec(first - 10, static_cast<uint64_t>(rows) + 20));
        ArrayJoinSpec once = join_spec(first, static_cast<uint64_t>(rows));
        once.emit = JoinEmit::kProbeOnce;
        check(build, probe, once);
        check(probe, build, [&] {  // equal keys on the build side
            ArrayJoinSpec spec = join_spec(first - 500, static_cast<uint64_t>(rows) + 1000);
            spec.emit = JoinEmit::kProbeOnce;
            return spec;
        }());
    }
}

TEST(array_join_of_relations_without_rows) {
    Random random(6);
    Keys none(1, {}, false);
    Keys some(2, shuffled(random, 0, 3000), false);
    check(none, some, join_spec(0, 100));
    check(some, none, join_spec(0, 3000));
    check(none, none, join_spec(0, 1));
}

TEST(array_join_says_when_keys_are_not_dense) {
    Random random(7);
    Keys probe(1, shuffled(random, 0, 5000), false);
    std::vector<int64_t> twice = shuffled(random, 0, 5000);
    twice[4999] = twice[0];
    Keys equal(2, twice, false);
    CountSink count(probe.relation.control);
    EXPECT_EQ(reason([&] { run(equal, probe, join_spec(0, 5000), {}, count); }), std::string("notDense"));
    EXPECT_EQ(reason([&] { run(probe, equal, join_spec(1, 5000), {}, count); }), std::string("notDense"));
    EXPECT_EQ(reason([&] { run(probe, equal, join_spec(0, 4999), {}, count); }), std::string("notDense"));
    EXPECT_EQ(count.total(), uint64_t{0});
}

}  // namespace spillway::test
