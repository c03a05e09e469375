// SPDX-License-Identifier: Apache-2.0
// Joins whose result comes in pieces: the pieces together are the whole result, none is larger than it may be.
#include <algorithm>
#include <string>
#include <utility>

#include "equi_join/equi_join.hpp"
#include "gpu_test.hpp"
#include "hash_join/pieces_policy.hpp"
#include "relation/join_tables.hpp"
#include "support/join_check.hpp"
#include "support/table_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::EquiJoin;
using cuda::JoinPieces;
using cuda::kPieceRowsMin;

void append(HostTable& all, const HostTable& more) {
    if (all.columns.empty()) {
        for (const HostColumn& column : more.columns) all.columns.push_back({column.width, {}, {}});
    }
    for (size_t c = 0; c < more.columns.size(); ++c) {
        for (uint64_t row = 0; row < more.rows(); ++row) all.columns[c].push_from(more.columns[c], row);
    }
}

// All pieces, one behind the other.
HostTable pieces_of(JoinPieces& join, uint64_t rows_max, uint64_t& pieces) {
    HostTable all;
    uint64_t rows = 0;
    for (pieces = 0; auto piece = join.next(rows_max); ++pieces) {
        CHECK(piece->rows > 0);
        CHECK(piece->rows <= std::max(rows_max, kPieceRowsMin));
        rows += piece->rows;
        append(all, download(*piece));
    }
    CHECK_EQ(rows, join.total_rows());
    return all;
}

struct PiecesTest {
    TestTable build;
    TestTable probe;
    OwnedTableJoin join;

    PiecesTest(KeyCase key, uint64_t build_rows, uint64_t probe_rows, uint64_t domain, double null_share) {
        const auto build_numbers = small_numbers(build_rows, domain, test_seed());
        const auto probe_numbers = small_numbers(probe_rows, domain + 5, test_seed() + 1);
        build.add(payload_column(build_rows, 4, test_seed() + 2, 0));
        build.add(with_nulls(payload_column(build_rows, 8, test_seed() + 2, 1), 0.3, test_seed() + 3));
        join.build_keys = KeyMaker(build, build_numbers, null_share, true, test_seed() + 3).add(key);
        probe.add_strings(texts(probe_rows, 20, test_seed() + 4), null_mask(probe_rows, 0.2, test_seed() + 5));
        join.probe_keys = KeyMaker(probe, probe_numbers, null_share, false, test_seed() + 4).add(key);
        probe.add(payload_column(probe_rows, 2, test_seed() + 6, 0));
    }

    void check(const JoinKind& kind, const std::vector<uint64_t>& limits, const std::string& what) {
        cuda::Device& device = test_device();
        join.kind = kind;
        join.output = all_output(build, probe, join);
        const HostTable expected = expected_join(build.host(), probe.host(), join);
        const uint64_t rows = expected_pairs(build.host(), probe.host(), join).size();
        const uint64_t blocks = device.memory().blocks();
        for (const uint64_t rows_max : limits) {
            const std::string name = what + ", " + text_of_kind(kind) + ", at most " + std::to_string(rows_max);
            JoinPieces pieces(device, build.device(), probe.device(), join);
            CHECK_EQ(pieces.total_rows(), rows);
            uint64_t count = 0;
            const HostTable all = pieces_of(pieces, rows_max, count);
            CHECK(count >= (rows + std::max(rows_max, kPieceRowsMin) - 1) / std::max(rows_max, kPieceRowsMin));
            CHECK(!pieces.next(rows_max).has_value());
            if (rows == 0) continue;
            const std::string difference = row_difference(all, expected);
            if (!difference.empty()) fail(name + ": " + difference, __FILE__, __LINE__);
        }
        CHECK_EQ(device.memory().blocks(), blocks);
    }
};

// Keys and carried columns of a join of relations.
HostTable relation_pieces(const KeyedRelation& build, const KeyedRelation& probe, int radix_bits, uint64_t rows_max) {
    EquiJoin join;
    join.radix_bits = radix_bits;
    join.output = all_columns(build, probe);
    auto pieces = cuda::equi_join_pieces(test_device(), build.device(), probe.device(), join);
    HostTable all;
    while (pieces.rows_left() > 0) {
        const cuda::JoinResult piece = pieces.next(rows_max);
        CHECK(piece.rows > 0 && piece.rows <= std::max(rows_max, kPieceRowsMin));
        HostTable part;
        for (const JoinOutputColumn& column : join.output) {
            const HostTable& from = column.side == OutputSide::kProbe ? probe.host() : build.host();
            const bool is_key = column.side == OutputSide::kKey;
            const uint32_t width = from.columns[is_key ? 0 : column.column + 1].width;
            const auto* const data = piece.columns[part.columns.size()].as<uint8_t>();
            part.columns.push_back({width, download(data, piece.rows * width), {}});
        }
        append(all, part);
        pieces.accept();
    }
    return all;
}

void check_relation(const KeyedRelation& build, const KeyedRelation& probe, int radix_bits,
                    const std::vector<uint64_t>& limits, const std::string& what) {
    const HostTable expected = expected_rows(build, probe);
    for (const uint64_t rows_max : limits) {
        const std::string difference = row_difference(relation_pieces(build, probe, radix_bits, rows_max), expected);
        if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
    }
}

// Sum over rows of key * (build value + 1) * (probe value + 3), modulo 2^64: another pair is another sum.
__device__ uint64_t product(uint32_t key, uint32_t build, uint32_t probe) {
    return (key + 0x9e3779b97f4a7c15ULL) * (build + 1ULL) * (probe + 3ULL);
}
__global__ void sum_products(const uint32_t* key, const uint32_t* build, const uint32_t* probe, uint64_t rows,
                             unsigned long long* sum) {
    uint64_t mine = 0;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        mine += product(key[row], build[row], probe[row]);
    }
    atomicAdd(sum, static_cast<unsigned long long>(mine));
}

}  // namespace

GPU_TEST("join pieces: every kind, limits from one row upwards") {
    const uint64_t rows = small_or_full(120, 1500);
    uint64_t turn = 0;
    for (const KeyCase key : {KeyCase::kInt32, KeyCase::kInt64, KeyCase::kString}) {
        PiecesTest test(key, rows, 2 * rows, rows / 4, 0.1);
        for (const JoinKind& kind : kAllJoinKinds) {
            if (!full_suite() && ++turn % 3 != 0) continue;
            std::vector<uint64_t> limits = {100};
            if (full_suite()) limits = {1, 100, 777, 4096, 1ULL << 40};
            test.check(kind, limits, "key " + std::to_string(static_cast<int>(key)));
        }
    }
}

GPU_TEST("join pieces: empty and tiny tables, keys that are all NULL, NULLs that are equal") {
    for (const auto& [build_rows, probe_rows] :
         {std::pair<uint64_t, uint64_t>{0, 0}, {0, 40}, {33, 0}, {1, 1}, {33, 70}}) {
        for (const double null_share : {0.0, 1.0}) {
            PiecesTest test(KeyCase::kInt32, build_rows, probe_rows, 5, null_share);
            for (const JoinKind& kind : {kAllJoinKinds[0], kAllJoinKinds[3], kAllJoinKinds[5], kAllJoinKinds[7]}) {
                if (!full_suite() && build_rows + probe_rows > 90 && kind.anti) continue;
                test.check(kind, {64}, std::to_string(build_rows) + " and " + std::to_string(probe_rows));
            }
            test.join.nulls_equal = true;
            if (full_suite()) test.check(kAllJoinKinds[3], {64, 1000}, "NULLs equal");
        }
    }
}

GPU_TEST("join pieces: one hot key on both sides, parts of partitions, keys of both widths") {
    const uint64_t build_hot = small_or_full(70, 700);
    const uint64_t probe_hot = small_or_full(50, 900);
    std::vector<uint64_t> build_keys = dense_permutation(small_or_full(200, 3000), test_seed());
    std::vector<uint64_t> probe_keys = dense_permutation(small_or_full(300, 5000), test_seed() + 1);
    build_keys.insert(build_keys.begin() + 100, build_hot, 7);
    probe_keys.insert(probe_keys.begin() + 10, probe_hot, 7);
    std::vector<uint64_t> limits = {500};
    if (full_suite()) limits = {1000, 50000, 1ULL << 40};
    for (const uint32_t width : {4U, 8U}) {
        const KeyedRelation build(build_keys, width, {4, 1}, test_seed());
        const KeyedRelation probe(probe_keys, width, {4}, test_seed() + 1);
        for (const int bits : {0, 3}) check_relation(build, probe, bits, limits, "hot on both sides");
    }
    // Partitions that no range holds, and bits that chains hold keys for.
    const std::vector<uint64_t> heavy(small_or_full(13000, 60000), 42);
    const std::vector<uint64_t> few = {42, 41, 42, 40};
    check_relation(KeyedRelation(heavy, 4, {4}, test_seed()), KeyedRelation(few, 4, {4}, test_seed()), 2,
                   {small_or_full(20000, 7000)}, "heavy build side");
    if (!full_suite()) return;
    check_relation(KeyedRelation(few, 8, {4}, test_seed()), KeyedRelation(heavy, 8, {4}, test_seed()), 2, {100},
                   "heavy probe side");
    const std::vector<uint64_t> keys = sparse_keys(30000, test_seed());
    const KeyedRelation build(keys, 4, {8, 2}, test_seed());
    for (const double exponent : {0.5, 1.0, 2.0}) {
        const KeyedRelation probe(zipf_keys(50000, 4000, exponent, test_seed()), 4, {4}, test_seed());
        check_relation(KeyedRelation(dense_permutation(4000, test_seed()), 4, {4}, test_seed()), probe, 6,
                       {1000, 30000}, "Zipf " + std::to_string(exponent));
    }
    check_relation(build, build, 15, {300, 10000}, "15 bits");
}

GPU_TEST("join pieces: wide rows") {
    const std::vector<uint64_t> keys = sparse_keys(small_or_full(200, 20000), test_seed());
    const auto foreign = foreign_keys(keys, small_or_full(400, 50000), 0.7, test_seed());
    const std::vector<uint32_t> wide = {8, 16, 4, 8, 1, 2, 8, 8};
    check_relation(KeyedRelation(keys, 8, wide, test_seed()), KeyedRelation(foreign, 8, wide, test_seed() + 1), -1,
                   {small_or_full(64, 5000), 1ULL << 40}, "wide on both sides");
    uint64_t turn = 0;
    PiecesTest test(KeyCase::kInt32, keys.size() / 4, keys.size() / 2, keys.size() / 8, 0.1);
    for (size_t c = 0; c < 6; ++c) test.build.add(payload_column(keys.size() / 4, 8, test_seed() + 8, c));
    for (size_t c = 0; c < 3; ++c) test.probe.add(payload_column(keys.size() / 2, 16, test_seed() + 9, c));
    for (const JoinKind& kind : kAllJoinKinds) {
        if (full_suite() || ++turn % 3 == 0) test.check(kind, {100, 1ULL << 40}, "wide tables");
    }
}

GPU_TEST("join pieces: refused memory leaves the rest to be had") {
    cuda::Device& device = test_device();
    cuda::MemoryPool& memory = device.memory();
    PiecesTest test(KeyCase::kInt32, 60, 90, 20, 0.1);
    test.join.kind = kAllJoinKinds[3];
    test.join.output = all_output(test.build, test.probe, test.join);
    const HostTable expected = expected_join(test.build.host(), test.probe.host(), test.join);
    const uint64_t before = memory.used_bytes();
    uint64_t refused_at_start = 0;
    uint64_t refused_later = 0;
    const uint64_t step = small_or_full(11, 1);
    for (uint64_t n = 1; n < 1000; n += step) {
        memory.fail_after(n);
        bool refused = false;
        try {
            JoinPieces pieces(device, test.build.device(), test.probe.device(), test.join);
            HostTable all;
            for (;;) {
                try {
                    auto piece = pieces.next(100);
                    if (!piece) break;
                    append(all, download(*piece));
                } catch (const cuda::Error& error) {
                    CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
                    CHECK(!refused);
                    refused = true;
                    ++refused_later;
                }
            }
            const std::string difference = row_difference(all, expected);
            if (!difference.empty()) fail("refused at " + std::to_string(n) + ": " + difference, __FILE__, __LINE__);
            if (!refused) break;
        } catch (const cuda::Error& error) {
            CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
            ++refused_at_start;
        }
        CHECK_EQ(memory.used_bytes(), before);
    }
    memory.fail_after(0);
    CHECK(refused_at_start > 1 && refused_later > 1);
    CHECK_EQ(memory.used_bytes(), before);
}

GPU_TEST("join pieces: what has no pieces, and results without columns") {
    PiecesTest test(KeyCase::kInt32, 60, 90, 20, 0.1);
    test.join.algorithm = cuda::JoinAlgorithm::kNoPartitioning;
    CHECK_THROWS(JoinPieces(test_device(), test.build.device(), test.probe.device(), test.join),
                 cuda::ErrorCode::kInvalid);
    test.join.algorithm = cuda::JoinAlgorithm::kRadixHash;
    test.join.output.clear();
    const uint64_t rows = expected_pairs(test.build.host(), test.probe.host(), test.join).size();
    JoinPieces pieces(test_device(), test.build.device(), test.probe.device(), test.join);
    CHECK_EQ(pieces.total_rows(), rows);
    uint64_t count = 0;
    pieces_of(pieces, 100, count);
    CHECK(count > 1);
}

// 2^32 rows in the full suite, and a device whose memory holds a small part of them.
GPU_TEST("join pieces: more rows than a device holds, and than 31 bits count") {
    const uint64_t distinct = small_or_full(8, 1 << 12);
    const uint64_t copies = small_or_full(32, 1 << 10);
    const uint64_t side_rows = distinct * copies;
    const uint64_t total_rows = side_rows * copies;
    std::vector<uint64_t> keys(side_rows);
    for (uint64_t row = 0; row < side_rows; ++row) keys[row] = row % distinct * 77;
    const KeyedRelation build(keys, 4, {4}, test_seed());
    const KeyedRelation probe(keys, 4, {4}, test_seed() + 1);
    uint64_t expected = 0;
    std::vector<uint64_t> sums[2] = {std::vector<uint64_t>(distinct), std::vector<uint64_t>(distinct)};
    for (uint64_t row = 0; row < side_rows; ++row) {
        sums[0][row % distinct] += build.host().columns[1].value<uint32_t>(row) + 1ULL;
        sums[1][row % distinct] += probe.host().columns[1].value<uint32_t>(row) + 3ULL;
    }
    for (uint64_t key = 0; key < distinct; ++key) {
        expected += (key * 77 + 0x9e3779b97f4a7c15ULL) * sums[0][key] * sums[1][key];
    }
    const uint64_t rows_max = total_rows / 24;
    // Both sides, the marks and counts of ranges, and one piece of 12 bytes per row.
    cuda::Device device(test_device().ordinal(), (uint64_t{64} << 20) + 8 * side_rows * 8 + rows_max * 24);
    EquiJoin join;
    join.output = all_columns(build, probe);
    join.expected_rows = total_rows;
    if (full_suite()) {
        CHECK_THROWS(cuda::equi_join(device, build.device(), probe.device(), join), cuda::ErrorCode::kOutOfMemory);
    }
    auto pieces = cuda::equi_join_pieces(device, build.device(), probe.device(), join);
    CHECK_EQ(pieces.total_rows(), total_rows);
    const DeviceArray<unsigned long long> sum = upload(std::vector<unsigned long long>{0});
    uint64_t rows = 0;
    while (pieces.rows_left() > 0) {
        const cuda::JoinResult piece = pieces.next(rows_max);
        CHECK(piece.rows <= std::max(rows_max, kPieceRowsMin));
        sum_products<<<256, 256, 0, device.stream()>>>(piece.columns[0].as<const uint32_t>(),
                                                       piece.columns[1].as<const uint32_t>(),
                                                       piece.columns[2].as<const uint32_t>(), piece.rows, sum.data());
        CHECK_CUDA(cudaGetLastError());
        rows += piece.rows;
        pieces.accept();
        device.synchronize();
    }
    CHECK_EQ(rows, total_rows);
    CHECK_EQ(download(sum.data(), 1).front(), expected);
}

}  // namespace spillway::gpu_test
