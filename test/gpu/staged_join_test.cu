// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory: sizes, kinds and keys. What they do with their memory is in staged_join_memory_test.cu.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

// Resident, spilled, and some of each; the last with as few pages as there may be.
std::vector<StreamSizes> residencies(uint64_t build_rows, int radix_bits) {
    return {ample_sizes(build_rows, radix_bits), spilled_sizes(build_rows, radix_bits, 0),
            spilled_sizes(build_rows, radix_bits, (1U << radix_bits) / 3 + 1), least_sizes(radix_bits)};
}

const char* const kResidencies[] = {"all resident", "none resident", "some resident", "least pages"};

void check_residencies(const StagedJoinCheck& check, uint64_t build_rows, int radix_bits, const std::string& what) {
    const std::vector<StreamSizes> sizes = residencies(build_rows, radix_bits);
    for (size_t r = 0; r < sizes.size(); ++r) {
        const std::string text = what + ", " + kResidencies[r] + ", bits " + std::to_string(radix_bits);
        full_suite() ? check.all(sizes[r], text) : check.rows(sizes[r], text);
    }
}

void check_keys(const std::vector<uint64_t>& build_keys, const std::vector<uint64_t>& probe_keys, uint32_t key_width,
                const std::string& what) {
    const KeyedRelation build(build_keys, key_width, {8}, test_seed());
    const KeyedRelation probe(probe_keys, key_width, {4}, test_seed() + 1);
    const StagedJoinCheck check(build, probe);
    const std::string text = what + ", keys of " + std::to_string(key_width) + " bytes";
    for (const int bits : {0, 4}) {
        if (!full_suite() && (bits == 0) != ((test_seed() + key_width / 4) % 2 == 0)) continue;
        check_residencies(check, build_keys.size(), bits, text);
    }
}

void check_sizes(uint64_t build_rows, uint64_t probe_rows, const std::vector<StreamSizes>& all,
                 const JoinKind& kind = {}) {
    const std::vector<uint64_t> keys = sparse_keys(build_rows, test_seed());
    const KeyedRelation build(keys, 8, {8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, probe_rows, 0.8, test_seed()), 8, {8}, test_seed() + 1);
    const StagedJoinCheck check(build, probe, kind);
    for (const StreamSizes& sizes : all) {
        check.all(sizes, std::to_string(build_rows) + " x " + std::to_string(probe_rows) + " rows, " +
                             std::to_string(sizes.pages) + " pages");
    }
}

}  // namespace

GPU_TEST("staged join: none, one and two rows") {
    const JoinKind full = {JoinEmit::kPairs, false, true, true};
    for (const uint64_t build_rows : {0, 1, 2}) {
        for (const uint64_t probe_rows : {0, 1, 2}) {
            std::vector<StreamSizes> sizes = residencies(build_rows, 2);
            if (!full_suite()) sizes.resize(2);
            check_sizes(build_rows, probe_rows, sizes);
            check_sizes(build_rows, probe_rows, sizes, full);
        }
    }
}

GPU_TEST("staged join: rows around the capacities of chunks and pages") {
    constexpr uint64_t kChunkRows = 200;
    constexpr uint64_t kPageRows = 128;
    StreamSizes resident = ample_sizes(2 * kChunkRows + 2, 0, kChunkRows, kPageRows);
    StreamSizes spilled = resident;
    spilled.resident_partitions = 0;
    // Pages for so many rows and not for one more, should all of them be used.
    StreamSizes tight = resident;
    tight.pages = 3;
    uint64_t turn = test_seed();
    for (const uint64_t rows : {kPageRows - 1, kPageRows, kPageRows + 1, kChunkRows - 1, kChunkRows, kChunkRows + 1,
                                2 * kChunkRows, 3 * kPageRows - 1, 3 * kPageRows, 3 * kPageRows + 1}) {
        if (!full_suite() && ++turn % 2 == 0) continue;
        check_sizes(rows, 1000, {resident, spilled, tight});
        if (full_suite()) check_sizes(1000, rows, {resident, spilled, tight});
    }
}

GPU_TEST("staged join: chunks of one row, of none, of all") {
    const std::vector<uint64_t> keys = sparse_keys(1000, test_seed());
    const KeyedRelation build(keys, 8, {4, 8}, test_seed(), 0.02);
    const KeyedRelation probe(foreign_keys(keys, 1300, 0.7, test_seed()), 8, {8}, test_seed() + 1, 0.02);
    const std::vector<std::vector<uint64_t>> all_cuts = {
        {0, 500}, {1, 500, 0, 0, 37}, {33, 1}, {31, 0, 32}, {500, 1, 1, 499}};
    for (size_t c = 0; c < all_cuts.size(); ++c) {
        if (!full_suite() && c % 2 != test_seed() % 2) continue;
        StagedJoinCheck check(build, probe, {JoinEmit::kPairs, false, true, true});
        check.cuts[0] = all_cuts[c];
        check.cuts[1] = all_cuts[(c + 2) % all_cuts.size()];
        check.rows(ample_sizes(1000, 3), "chunks of kind " + std::to_string(c));
        check.sums(spilled_sizes(1000, 3, 2), "chunks of kind " + std::to_string(c));
    }
    const KeyedRelation none({}, 8, {4, 8}, test_seed());
    StagedJoinCheck empty(none, probe, {JoinEmit::kPairs, false, false, true});
    empty.cuts[0] = {0, 0, 500};
    empty.all(ample_sizes(0, 3), "chunks without rows alone");
}

GPU_TEST("staged join: chunks of the host that share a slot, with NULL keys in some of them") {
    const uint64_t rows = small_or_full(9000, 60'000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    // Of blocks of 1,024 rows some have no NULL, whether those before and behind them in the slot have one or not.
    const KeyedRelation build(keys, 8, {4, 8, 1}, test_seed(), 0.0005);
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.7, test_seed()), 8, {8, 2}, test_seed() + 1, 0.0005);
    const std::vector<std::vector<uint64_t>> all_cuts = {
        {1024}, {2048, 1024, 1024}, {3072, 2048}, {1024, 0, 1000, 24}, {4096, 1024, 4096}};
    for (size_t c = 0; c < all_cuts.size(); ++c) {
        StagedJoinCheck check(build, probe, {JoinEmit::kPairs, false, true, true});
        check.cuts[0] = all_cuts[c];
        check.cuts[1] = all_cuts[(c + 1) % all_cuts.size()];
        StreamSizes sizes = ample_sizes(rows, 3, 4096);
        for (const bool packed : {false, true}) {
            check.packed = packed;
            const std::string text = (packed ? "packed chunks of kind " : "chunks of kind ") + std::to_string(c);
            sizes.resident_partitions = kAllResident;
            check.rows(sizes, text);
            sizes.resident_partitions = 2;
            check.sums(sizes, text + ", spilled");
        }
    }
}

GPU_TEST("staged join: every kind, NULL keys, keys that come twice") {
    const uint64_t rows = small_or_full(900, 6000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    std::vector<uint64_t> build_keys = keys;
    build_keys.insert(build_keys.end(), keys.begin(), keys.begin() + static_cast<int64_t>(rows / 5));
    const KeyedRelation build(build_keys, 8, {8, 2}, test_seed(), 0.1);
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.6, test_seed()), 8, {4, 1}, test_seed() + 1, 0.1);
    const KeyedRelation none({}, 8, {8, 2}, test_seed());
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const StagedJoinCheck check(build, probe, named.kind);
        for (const StreamSizes& sizes : residencies(build_keys.size(), 3)) {
            check.all(sizes, std::string(named.name) + ", " + std::to_string(sizes.resident_partitions) +
                                 " partitions resident, " + std::to_string(sizes.pages) + " pages");
        }
        StagedJoinCheck(none, probe, named.kind).all(least_sizes(2), std::string(named.name) + ", no build rows");
        StagedJoinCheck(build, KeyedRelation({}, 8, {4}, 1), named.kind)
            .all(spilled_sizes(build_keys.size(), 2, 1), std::string(named.name) + ", no probe rows");
    }
}

GPU_TEST("staged join: every kind without NULLs, keys of 4 bytes, no payloads") {
    const uint64_t rows = small_or_full(600, 5000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const KeyedRelation build(keys, 4, {}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.5, test_seed()), 4, {}, test_seed() + 1);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        check_residencies(StagedJoinCheck(build, probe, named.kind), rows, 2, named.name);
    }
}

GPU_TEST("staged join: rows without a key alone, on either side") {
    const std::vector<uint64_t> keys = sparse_keys(700, test_seed());
    const KeyedRelation keyed(keys, 8, {4}, test_seed());
    const KeyedRelation keyless(keys, 8, {4}, test_seed(), 1);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        if (!full_suite() && named.kind.emit != JoinEmit::kPairs) continue;
        for (const StreamSizes& sizes : {ample_sizes(700, 2), spilled_sizes(700, 2, 0)}) {
            StagedJoinCheck(keyless, keyed, named.kind).all(sizes, std::string(named.name) + ", build keys NULL");
            StagedJoinCheck(keyed, keyless, named.kind).all(sizes, std::string(named.name) + ", probe keys NULL");
        }
    }
}

GPU_TEST("staged join: dense, strided and random keys") {
    const uint64_t rows = small_or_full(1500, 8000);
    for (const uint32_t key_width : {4U, 8U}) {
        const std::vector<uint64_t> dense = dense_permutation(rows, test_seed());
        check_keys(dense, foreign_keys(dense, 2 * rows, 0.7, test_seed()), key_width, "dense");
        // Around 0 and at both ends of signed and unsigned numbers: differences that wrap around.
        std::vector<uint64_t> strided;
        const uint64_t sign = key_width == 4 ? 1ULL << 31 : 1ULL << 63;
        for (uint64_t row = 0; row < rows; ++row) strided.push_back((row % 3) * sign + 7 * (row / 6) - rows / 4);
        check_keys(strided, foreign_keys(strided, 2 * rows, 0.9, test_seed()), key_width, "both ends");
        const std::vector<uint64_t> random = sparse_keys(rows, test_seed());
        check_keys(random, foreign_keys(random, 2 * rows, 0.7, test_seed()), key_width, "random");
    }
}

GPU_TEST("staged join: m:n, Zipf and one hot key") {
    const uint64_t rows = small_or_full(1200, 6000);
    for (const uint32_t key_width : {4U, 8U}) {
        const std::vector<uint64_t> keys = sparse_keys(rows / 6, test_seed());
        check_keys(repeated_keys(keys, 6, test_seed()), repeated_keys(keys, 5, test_seed() + 1), key_width, "m:n");
        check_keys(dense_permutation(rows, test_seed()), zipf_keys(2 * rows, rows, 1.2, test_seed() + 1), key_width,
                   "Zipf probe side");
        check_keys(zipf_keys(rows, 4 * rows, 1.0, test_seed()), dense_permutation(2 * rows, test_seed()), key_width,
                   "Zipf build side");
        const std::vector<uint64_t> hot = one_hot_key(rows, 0.05, test_seed());
        check_keys(hot, foreign_keys(hot, 2 * rows, 0.9, test_seed()), key_width, "one hot key on both sides");
        // Both have keys of places around 2 * rows, the last of which is the hot one.
        check_keys(sparse_keys(rows, test_seed(), 2 * rows - 9), one_hot_key(2 * rows, 0.9, test_seed()), key_width,
                   "one hot key on the probe side");
    }
}

GPU_TEST("staged join: keys with more partners than a window of the result has rows, among unique ones") {
    // Buckets of 100 rows and more hold one key alone, two frequent keys, or a frequent key and others.
    const uint64_t rows = small_or_full(600, 4000);
    std::vector<uint64_t> build_keys = sparse_keys(rows, test_seed());
    const std::vector<uint64_t> unique = build_keys;
    for (const uint64_t hot : {uint64_t{3}, uint64_t{4}, rows / 2}) {
        build_keys.insert(build_keys.end(), rows / 4, unique[hot]);
    }
    std::vector<uint64_t> probe_keys = foreign_keys(unique, rows, 0.7, test_seed());
    for (const uint64_t hot : {uint64_t{3}, uint64_t{4}, rows / 2}) {
        probe_keys.insert(probe_keys.begin() + static_cast<int64_t>(hot), small_or_full(5, 40), unique[hot]);
    }
    const KeyedRelation build(build_keys, 8, {8}, test_seed());
    const KeyedRelation probe(probe_keys, 8, {4}, test_seed() + 1);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const StagedJoinCheck check(build, probe, named.kind);
        for (const int bits : {0, 7}) {
            StreamSizes sizes = ample_sizes(build_keys.size(), bits);
            sizes.result_rows = 61;
            check.all(sizes, std::string(named.name) + ", bits " + std::to_string(bits));
        }
    }
}

GPU_TEST("staged join: one key on both sides") {
    const uint64_t rows = small_or_full(180, 600);
    const std::vector<uint64_t> keys(rows, test_seed() * 77);
    for (const uint32_t key_width : {4U, 8U}) check_keys(keys, keys, key_width, "one key");
    const KeyedRelation build(keys, 8, {}, test_seed());
    const KeyedRelation probe(keys, 8, {}, test_seed());
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const StagedJoinCheck check(build, probe, named.kind);
        check.all(least_sizes(0, 64, 16), std::string(named.name) + ", one key, in parts");
        check.all(spilled_sizes(rows, 4, 0), std::string(named.name) + ", one key, spilled");
    }
}

}  // namespace spillway::gpu_test
