// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "equi_join/equi_join.hpp"
#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::OutputPlan;
using cuda::PartitionedRows;

void check(const KeyedRelation& build, const KeyedRelation& probe, int radix_bits, const std::string& what) {
    cuda::Device& device = test_device();
    const PartitionedRows build_rows = cuda::radix_partition(device, build.device(), radix_bits);
    const PartitionedRows probe_rows = cuda::radix_partition(device, probe.device(), radix_bits);
    const HostTable expected = expected_rows(build, probe);
    CHECK_EQ(cuda::count_matches(device, build_rows, probe_rows), expected.rows());
    check_result(cuda::join_partitions(device, build_rows, probe_rows, all_columns(build, probe), expected.rows()),
                 expected, what);
}

void check_kinds(const KeyedRelation& build, const KeyedRelation& probe, int radix_bits, const std::string& what,
                 bool build_rows_alone = false) {
    cuda::EquiJoin join;
    join.radix_bits = radix_bits;
    join.output = all_columns_and_presence(build, probe);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        if (build_rows_alone && named.kind.emit != cuda::JoinEmit::kBuildOnce) continue;
        join.kind = named.kind;
        const HostTable expected = expected_table(build, probe, named.kind);
        CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), expected.rows());
        join.expected_rows = expected.rows();
        check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected,
                     what + ", " + named.name);
    }
}

// Each key as often as its partition says: once in even ones, `multiplicity` times in odd ones.
std::vector<uint64_t> repeated_in_odd_partitions(const std::vector<uint64_t>& keys, int radix_bits,
                                                 uint64_t multiplicity, uint64_t seed) {
    std::vector<uint64_t> once;
    std::vector<uint64_t> often;
    for (const uint64_t key : keys) {
        const uint32_t partition = cuda::mix32(static_cast<uint32_t>(key)) >> (32 - radix_bits);
        (partition % 2 == 0 ? once : often).push_back(key);
    }
    std::vector<uint64_t> all = repeated_keys(often, multiplicity, seed);
    all.insert(all.end(), once.begin(), once.end());
    return repeated_keys(all, 1, seed + 1);
}

// Keys of 4 bytes of some partitions whose mixed words end in the same 18 bits, in sets as large as there are.
std::vector<uint64_t> keys_with_equal_ends(int radix_bits, uint64_t sets) {
    std::vector<uint64_t> keys;
    for (uint64_t set = 0; set < sets; ++set) {
        const uint64_t partition = random64(test_seed(), 2 * set) % (1ULL << radix_bits);
        const uint64_t end = random64(test_seed(), 2 * set + 1) % (1U << 18);
        for (uint64_t middle = 0; middle < 1ULL << (14 - radix_bits); ++middle) {
            const uint64_t word = partition << (32 - radix_bits) | middle << 18 | end;
            keys.push_back(cuda::unmix32(static_cast<uint32_t>(word)));
        }
    }
    // Two sets may be the same.
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
}

}  // namespace

GPU_TEST("hash join: repeated keys, as often on either side") {
    for (const uint64_t times : {2, 3, 8, 70}) {
        const uint64_t distinct = std::max<uint64_t>(small_or_full(240, 16000) / times, 3);
        const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
        for (const uint32_t key_width : {4U, 8U}) {
            const KeyedRelation build(repeated_keys(keys, times, test_seed()), key_width, {4, 4}, test_seed());
            const KeyedRelation probe(repeated_keys(keys, times, test_seed() + 1), key_width, {4, 4}, test_seed() + 1);
            for (const int bits : {1, 4, 12, 14}) {
                // In the small suite each number of bits with one width.
                if (!full_suite() && (static_cast<int>(key_width / 4) + bits / 4 + static_cast<int>(times)) % 4 != 0) {
                    continue;
                }
                check(build, probe, bits,
                      std::to_string(times) + " rows per key, bits " + std::to_string(bits) + ", width " +
                          std::to_string(key_width));
            }
        }
    }
}

GPU_TEST("hash join: repeated keys in some partitions, or among unique ones") {
    const std::vector<uint64_t> keys = sparse_keys(small_or_full(400, 60000), test_seed());
    std::vector<uint64_t> narrow;
    for (const uint64_t key : keys) narrow.push_back(key & 0xffffffffU);
    std::sort(narrow.begin(), narrow.end());
    narrow.erase(std::unique(narrow.begin(), narrow.end()), narrow.end());
    const auto foreign = foreign_keys(narrow, 2 * narrow.size(), 0.7, test_seed());
    for (const int bits : {3, 6, 10}) {
        for (const int multiplicity : {2, 5}) {
            if (!full_suite() && bits / 3 % 2 == multiplicity % 2) continue;
            const auto build_keys =
                repeated_in_odd_partitions(narrow, bits, static_cast<uint64_t>(multiplicity), test_seed());
            check(KeyedRelation(build_keys, 4, {4, 4}, test_seed()), KeyedRelation(foreign, 4, {4}, test_seed() + 1),
                  bits, "repeated in odd partitions of " + std::to_string(bits) + " bits");
        }
    }
    // One key in ten is there twice, one in a hundred four times.
    std::vector<uint64_t> mixed = keys;
    for (size_t k = 0; k < keys.size(); k += 10) mixed.push_back(keys[k]);
    for (size_t k = 0; k < keys.size(); k += 100) mixed.insert(mixed.end(), 2, keys[k]);
    mixed = repeated_keys(mixed, 1, test_seed());
    const auto wide_foreign = foreign_keys(keys, 2 * keys.size(), 0.7, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        check(KeyedRelation(mixed, key_width, {4, 4}, test_seed()),
              KeyedRelation(wide_foreign, key_width, {4, 4}, test_seed() + 1), static_cast<int>(small_or_full(2, 5)),
              "repeated among unique keys");
    }
}

GPU_TEST("hash join: repeated keys, one of them hot among unique ones") {
    const uint64_t heavy = small_or_full(700, 5000);
    for (const uint32_t key_width : {4U, 8U}) {
        std::vector<uint64_t> build_keys = sparse_keys(heavy / 2, test_seed());
        std::vector<uint64_t> probe_keys = foreign_keys(build_keys, heavy, 0.8, test_seed());
        const uint64_t hot = build_keys[3];
        build_keys.insert(build_keys.end(), heavy, hot);
        probe_keys.insert(probe_keys.end(), small_or_full(37, 170), hot);
        const KeyedRelation build(repeated_keys(build_keys, 1, test_seed()), key_width, {4, 4}, test_seed());
        const KeyedRelation probe(repeated_keys(probe_keys, 1, test_seed()), key_width, {4, 8}, test_seed() + 1);
        for (const int bits : {0, 11}) check(build, probe, bits, "hot build key, bits " + std::to_string(bits));
        // Swapping the sides puts the rows of the hot key on the probe side.
        if (full_suite()) check(probe, build, 0, "hot probe key");
    }
}

// Rows of a few keys that come hundreds of times among rows of other keys, of which some share their buckets.
struct OftenRepeated {
    std::vector<uint64_t> build;
    std::vector<uint64_t> probe;
};
OftenRepeated often_repeated_keys(uint64_t hot_build_rows) {
    OftenRepeated keys;
    keys.build = sparse_keys(2000, test_seed());
    keys.probe = foreign_keys(keys.build, 1500, 0.5, test_seed());
    const auto add = [&](uint64_t key, uint64_t build_rows, uint64_t probe_rows) {
        keys.build.insert(keys.build.end(), build_rows, key);
        keys.probe.insert(keys.probe.end(), probe_rows, key);
    };
    const std::vector<uint64_t> others = keys.build;
    add(others[0], hot_build_rows, 500);  // more than one piece
    for (size_t k = 1; k <= 6; ++k) add(others[k], 490 + 10 * k, 5 * k);
    keys.build = repeated_keys(keys.build, 1, test_seed());
    keys.probe = repeated_keys(keys.probe, 1, test_seed() + 1);
    return keys;
}

GPU_TEST("hash join: rows with hundreds of matches each, which a kernel of their own writes") {
    const OftenRepeated keys = often_repeated_keys(1100);
    const std::vector<std::vector<uint32_t>> layouts = {{4, 4}, {8, 2, 1}, {4, 8, 4}, {8, 8}, {16, 4}, {}};
    for (size_t l = 0; l < layouts.size(); ++l) {
        if (!full_suite() && l % 3 != 0) continue;
        const uint32_t key_width = l % 2 == 0 ? 4 : 8;
        const KeyedRelation build(keys.build, key_width, layouts[l], test_seed());
        const KeyedRelation probe(keys.probe, key_width, layouts[layouts.size() - 1 - l], test_seed() + 1);
        for (const int bits : {0, 5}) check(build, probe, bits, "often repeated, layout " + std::to_string(l));
    }
    // Rows of which some are not there, and rows without a key.
    check_kinds(KeyedRelation(keys.build, 8, {4, 8}, test_seed(), 0.01),
                KeyedRelation(keys.probe, 8, {8}, test_seed() + 1, 0.01), 3, "often repeated");
    // Packs, whose rows are gathered many times.
    check_kinds(KeyedRelation(keys.build, 4, {8, 8, 16, 2, 1}, test_seed(), 0.01),
                KeyedRelation(keys.probe, 4, {4, 4, 4, 4, 8, 2, 1, 1}, test_seed() + 1, 0.01), 3, "repeated packs");
}

GPU_TEST("hash join: rows with hundreds of matches each, more than were expected") {
    const OftenRepeated keys = often_repeated_keys(small_or_full(2200, 6000));
    const KeyedRelation build(keys.build, 8, {4, 4}, test_seed());
    const KeyedRelation probe(keys.probe, 8, {8}, test_seed() + 1);
    const PartitionedRows build_rows = cuda::radix_partition(test_device(), build.device(), 2);
    const PartitionedRows probe_rows = cuda::radix_partition(test_device(), probe.device(), 2);
    const HostTable expected = expected_rows(build, probe);
    // The list of such rows has room for so many, and the join kernel writes the others itself.
    check_result(
        cuda::join_partitions(test_device(), build_rows, probe_rows, all_columns(build, probe), expected.rows() / 2),
        expected, "half of the rows expected");
}

GPU_TEST("hash join: repeated keys in every kind of join, rows of every width") {
    const uint64_t distinct = small_or_full(60, 3000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    const auto others = foreign_keys(keys, distinct, 0.6, test_seed());
    const auto build_keys = repeated_keys(keys, 3, test_seed());
    const auto probe_keys = repeated_keys(others, 2, test_seed() + 1);
    const std::vector<std::vector<uint32_t>> layouts = {{}, {4}, {4, 4}, {4, 8}, {8, 8}, {4, 16}, {8, 16}, {4, 8, 16}};
    for (size_t l = 0; l < layouts.size(); ++l) {
        if (!full_suite() && l % 3 != 1) continue;
        // Keys of 8 bytes leave room for no more than 6 words.
        const uint32_t key_width = l % 2 == 0 && l < 7 ? 8 : 4;
        const auto& build_layout = layouts[l == 0 ? 6 : 7 - l];
        check_kinds(KeyedRelation(build_keys, key_width, build_layout, test_seed(), 0.1),
                    KeyedRelation(probe_keys, key_width, layouts[l], test_seed() + 1, 0.2), l % 2 == 0 ? 4 : 11,
                    "layout " + std::to_string(l));
    }
    check_kinds(KeyedRelation(build_keys, 4, {8, 4, 16}, test_seed()),
                KeyedRelation(probe_keys, 4, {4, 4, 4, 4, 4, 4, 4}, test_seed()), 3, "8 words on both sides");
}

GPU_TEST("hash join: marks alone of build rows whose keys repeat, in buckets of one key and of several") {
    const std::vector<uint64_t> keys = sparse_keys(small_or_full(300, 20000), test_seed());
    std::vector<uint64_t> build_keys = repeated_keys(keys, 3, test_seed());
    build_keys.insert(build_keys.end(), small_or_full(2000, 50000), keys[0]);
    std::vector<uint64_t> probe_keys = foreign_keys(keys, small_or_full(2000, 100000), 0.5, test_seed());
    probe_keys.insert(probe_keys.end(), small_or_full(1000, 50000), keys[0]);
    for (const uint32_t key_width : {4U, 8U}) {
        for (const int bits : {2, 9}) {
            check_kinds(KeyedRelation(build_keys, key_width, {4}, test_seed(), 0.1),
                        KeyedRelation(probe_keys, key_width, {}, test_seed() + 1, 0.1), bits,
                        "one hot key, width " + std::to_string(key_width) + ", bits " + std::to_string(bits), true);
        }
    }
    const std::vector<uint64_t> equal_ends = keys_with_equal_ends(10, small_or_full(20, 2000));
    const auto some = foreign_keys(equal_ends, 2 * equal_ends.size(), 0.8, test_seed());
    check_kinds(KeyedRelation(repeated_keys(equal_ends, 2, test_seed()), 4, {4}, test_seed()),
                KeyedRelation(some, 4, {}, test_seed() + 1), 10, "equal ends, twice", true);
}

GPU_TEST("hash join: keys whose ends are equal, unique and repeated ones") {
    for (const int bits : {9, 10, 12, 13, 14}) {
        if (!full_suite() && bits != 10 && bits != 13) continue;
        const std::vector<uint64_t> keys = keys_with_equal_ends(bits, small_or_full(20, 2000));
        const auto foreign = foreign_keys(keys, 2 * keys.size(), 0.8, test_seed());
        const KeyedRelation probe(foreign, 4, {4}, test_seed() + 1);
        const std::string what = "equal ends, bits " + std::to_string(bits);
        check(KeyedRelation(keys, 4, {4, 4}, test_seed()), probe, bits, what);
        check(KeyedRelation(repeated_keys(keys, 2, test_seed()), 4, {4, 4}, test_seed()), probe, bits,
              what + ", twice");
    }
}

}  // namespace spillway::gpu_test
