// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "device/launch.hpp"
#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/tile_size.hpp"
#include "support/keyed_relation.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::PartitionedRows;

uint64_t mixed_key(const uint8_t* row, uint32_t key_words) {
    uint64_t word = 0;
    std::memcpy(&word, row, key_words * 4);
    return word;
}
uint64_t plain_key(uint64_t mixed, uint32_t key_words) {
    return key_words == 1 ? cuda::unmix32(static_cast<uint32_t>(mixed)) : cuda::unmix64(mixed);
}
uint64_t partition_of(uint64_t mixed, uint32_t key_words, int radix_bits) {
    const uint64_t top = key_words == 1 ? mixed : mixed >> 32;
    return radix_bits == 0 ? 0 : top >> (32 - radix_bits);
}

// The rows of all partitions one behind the other: nobody writes the gaps between partitions, so nobody may read them.
__global__ void pack_rows(const uint32_t* rows, const uint64_t* begin, const uint64_t* end, const uint64_t* first,
                          uint32_t row_words, uint32_t* packed) {
    const uint64_t p = blockIdx.x;
    const uint64_t words = (end[p] - begin[p]) * row_words;
    for (uint64_t w = threadIdx.x; w < words; w += blockDim.x) {
        packed[first[p] * row_words + w] = rows[begin[p] * row_words + w];
    }
}

std::vector<uint8_t> packed_rows(const PartitionedRows& rows, const std::vector<uint64_t>& first, uint64_t count) {
    DeviceArray<uint8_t> packed(count * rows.layout.row_bytes());
    const DeviceArray<uint64_t> first_row = upload(first);
    cuda::launch(pack_rows, dim3(static_cast<unsigned>(rows.partitions())), dim3(128), 0, test_device().stream(),
                 rows.data.as<const uint32_t>(), rows.begin.as<const uint64_t>(), rows.end.as<const uint64_t>(),
                 first_row.data(), rows.layout.row_words, reinterpret_cast<uint32_t*>(packed.data()));
    test_device().synchronize();
    return download(packed);
}

// Every row where its key says, partitions in order and aligned, and the rows those of the relation that have a key.
void check_partitions(const KeyedRelation& relation, const PartitionedRows& rows, const std::string& what) {
    const uint64_t partitions = rows.partitions();
    const auto begin = download(rows.begin.as<uint64_t>(), partitions);
    const auto end = download(rows.end.as<uint64_t>(), partitions);
    std::vector<uint64_t> first(partitions + 1, 0);
    for (uint64_t p = 0; p < partitions; ++p) first[p + 1] = first[p] + end[p] - begin[p];
    const auto bytes = packed_rows(rows, first, first[partitions]);
    HostTable actual;
    for (const HostColumn& column : relation.host().columns) {
        actual.columns.push_back({column.width, {}, {}});
    }
    for (uint64_t p = 0; p < partitions; ++p) {
        if (begin[p] % cuda::kRegionAlignRows != 0 || end[p] < begin[p] || (p > 0 && begin[p] < end[p - 1])) {
            fail(what + ": partition " + std::to_string(p) + " lies wrong", __FILE__, __LINE__);
        }
        for (uint64_t row = first[p]; row < first[p + 1]; ++row) {
            const uint8_t* const at = bytes.data() + row * rows.layout.row_bytes();
            const uint64_t mixed = mixed_key(at, rows.layout.key_words);
            if (partition_of(mixed, rows.layout.key_words, rows.radix_bits) != p) {
                fail(what + ": a row is in the wrong partition " + std::to_string(p), __FILE__, __LINE__);
            }
            const uint64_t key = plain_key(mixed, rows.layout.key_words);
            actual.columns[0].push_bytes(&key);
            for (size_t c = 0; c < rows.layout.offsets.size(); ++c) {
                actual.columns[c + 1].push_bytes(at + rows.layout.offsets[c]);
            }
        }
    }
    const std::string difference = row_difference(actual, relation.keyed_rows());
    if (!difference.empty()) fail(what + ": " + difference, __FILE__, __LINE__);
}

void check(const KeyedRelation& relation, int radix_bits, const std::string& what) {
    const PartitionedRows rows = cuda::radix_partition(test_device(), relation.device(), radix_bits);
    test_device().synchronize();
    check_partitions(relation, rows, what + ", " + std::to_string(radix_bits) + " bits");
}

// Columns of many widths, also of row numbers, that fill so many bytes.
std::vector<uint32_t> widths_that_fill(uint32_t bytes) {
    constexpr uint32_t kTurns[] = {8, 8, 16, 8, 4, kRowNumber8, 16, 2, 8, 1};
    std::vector<uint32_t> widths;
    for (size_t turn = 0; bytes > 0; ++turn) {
        uint32_t width = kTurns[turn % std::size(kTurns)];
        uint32_t taken = width == kRowNumber8 ? 8 : width;
        if (taken > bytes) {
            for (taken = 8; taken > bytes;) taken /= 2;
            width = taken;
        }
        widths.push_back(width);
        bytes -= taken;
    }
    return widths;
}

}  // namespace

GPU_TEST("radix partition: every number of bits, one to three passes") {
    const KeyedRelation relation(sparse_keys(small_or_full(20000, 200000), test_seed()), 4, {4, 4}, test_seed());
    for (const int bits : {0, 1, 2, 5, 7, 8, 9, 13, 14, 15, 16, 17, 18}) check(relation, bits, "sparse keys");
    const KeyedRelation wide(sparse_keys(small_or_full(5000, 50000), test_seed() + 1), 8, {8, 8}, test_seed());
    for (const int bits : {0, 8, 14, 16, 18}) check(wide, bits, "sparse keys of 8 bytes");
}

GPU_TEST("radix partition: passes of fewer bits where shared memory is small") {
    const auto with_shared_memory = [](uint64_t bytes) {
        cuda::DeviceProperties properties = test_device().properties();
        properties.shared_bytes_per_block_optin = properties.shared_bytes_per_multiprocessor = bytes;
        return properties;
    };
    constexpr uint64_t kSmall = 96U << 10;
    for (int words = 1; words <= 8; ++words) {
        const cuda::DeviceProperties small = with_shared_memory(kSmall);
        CHECK_EQ(cuda::pass_bits_max(small, words), words == 7 ? cuda::kFewBits : cuda::kPassBitsMax);
        CHECK_EQ(cuda::pass_bits_max(with_shared_memory(227U << 10), words), cuda::kPassBitsMax);
        // Columns of less than 4 bytes have kernels of eight bits alone.
        for (const int bits : {cuda::kFewBits, cuda::kPassBitsMax}) {
            const cuda::TileSize size = cuda::tile_size(small, words, bits);
            CHECK_EQ(size.rows % cuda::kTileRowsStep, 0U);
            CHECK_EQ(size.rows > 0 && size.shared_bytes + cuda::scatter_reserved_bytes(bits) <= kSmall, true);
        }
    }
}

GPU_TEST("radix partition: passes of up to eight bits, the first one too") {
    CHECK_EQ(cuda::radix_passes(0), 1);
    CHECK_EQ(cuda::radix_passes(8), 1);
    CHECK_EQ(cuda::radix_passes(9), 2);
    CHECK_EQ(cuda::radix_passes(16), 2);
    CHECK_EQ(cuda::radix_passes(cuda::radix_bits_max()), 3);
    const uint64_t rows = small_or_full(7001, 2000001);
    check(KeyedRelation(one_hot_key(rows, 0.3, test_seed()), 4, {4, 4}, test_seed()), 8, "a hot key");
    check(KeyedRelation(sparse_keys(rows, test_seed()), 8, {8}, test_seed(), 0.2), 8, "NULL keys of 8 bytes");
    check(KeyedRelation(zipf_keys(rows, rows, 1.2, test_seed()), 4, {4, 4, 4}, test_seed()), 16, "Zipf 1.2");
}

GPU_TEST("radix partition: row counts around groups, words and tiles") {
    constexpr uint64_t kTile = 480 * 8;  // of rows of 12 bytes in passes of up to 7 bits
    std::vector<uint64_t> counts = {0, 1, 3, 4, 7, 8, 9, 31, 32, 33, kTile - 1, kTile, kTile + 1};
    if (full_suite()) counts.insert(counts.end(), {kTile * 264 - 1, kTile * 264 + 1});
    for (const uint64_t rows : counts) {
        const KeyedRelation relation(dense_permutation(rows, test_seed()), 4, {4, 4}, test_seed());
        for (const int bits : {0, 3, 8, 10}) check(relation, bits, std::to_string(rows) + " rows");
    }
}

GPU_TEST("radix partition: rows of one to eight words from columns of every width") {
    const std::vector<std::vector<uint32_t>> layouts = {{},
                                                        {1},
                                                        {2},
                                                        {4},
                                                        {8},
                                                        {16},
                                                        {1, 1, 1, 1},
                                                        {1, 2, 4},
                                                        {4, 8},
                                                        {2, 16, 1},
                                                        {8, 8},
                                                        {4, 4, 4, 4},
                                                        {16, 4},
                                                        {16, 8},
                                                        {1, 1, 1, 1, 1, 1, 1, 1},
                                                        {kRowNumber4},
                                                        {kRowNumber8, 4},
                                                        {8, 8, 4},
                                                        {4, 4, 4, 4, 4},
                                                        {16, 8, 4}};
    const uint64_t rows = small_or_full(3000, 40000);
    for (const auto& widths : layouts) {
        std::string what = "widths";
        uint32_t bytes = 0;
        for (const uint32_t width : widths) {
            what += " " + std::to_string(width);
            bytes += width > 16 ? width - 100 : width;
        }
        for (const uint32_t key_width : {4U, 8U}) {
            if (bytes + key_width > 32) continue;
            const KeyedRelation relation(sparse_keys(rows, test_seed() + bytes), key_width, widths, test_seed());
            for (const int bits : {4, 8, 12}) check(relation, bits, what + " key " + std::to_string(key_width));
        }
    }
}

GPU_TEST("radix partition: rows of more than eight words") {
    for (const uint32_t words : {9U, 10U, 17U, 33U, 50U}) {
        for (const uint32_t key_width : {4U, 8U}) {
            // Those of 17 and 33 words have three bytes of no field.
            const uint32_t spare = words % 16 == 1 ? 3 : 0;
            const auto widths = widths_that_fill(4 * words - key_width - spare);
            const uint64_t rows = small_or_full(3000, 40000);
            const std::string what = std::to_string(words) + " words, key " + std::to_string(key_width);
            const KeyedRelation relation(sparse_keys(rows, test_seed() + words), key_width, widths, test_seed());
            for (const int bits : {0, 1, 5, 8, 9, 13, 16, 18}) {
                if (full_suite() || (bits + words + test_seed()) % 3 == 0) check(relation, bits, what);
            }
            const KeyedRelation hot(one_hot_key(rows, 0.6, test_seed()), key_width, widths, test_seed(), 0.2);
            for (const int bits : {3, 12}) check(hot, bits, what + ", a hot key and NULL keys");
        }
    }
    const std::vector<uint32_t> most(static_cast<size_t>(cuda::kGroupAggregatesMax), 8);
    for (const int bits : {0, 8, 16}) {
        check(KeyedRelation(sparse_keys(small_or_full(2000, 30000), test_seed()), 8, most, test_seed()), bits, "most");
    }
}

GPU_TEST("radix partition: numbers of wide rows around those of tiles") {
    cuda::DeviceProperties small = test_device().properties();
    small.shared_bytes_per_block_optin = small.shared_bytes_per_multiprocessor = 64U << 10;
    for (const int words : {9, 10, 50, cuda::kPartialWordsMax}) {
        CHECK_EQ(cuda::pass_bits_max(small, words), cuda::kPassBitsMax);
        const cuda::TileSize least = cuda::tile_size(small, words, cuda::kPassBitsMax);
        CHECK_EQ(least.rows % cuda::kTileRowsStep, 0U);
        CHECK(least.rows > 0 && least.blocks * (least.shared_bytes + cuda::kWideReservedBytes) <= 64U << 10);
        const uint64_t tile = cuda::tile_size(test_device().properties(), words, cuda::kPassBitsMax).rows;
        const std::vector<uint32_t> widths(static_cast<size_t>(words - 2) / 2, 8);
        for (const uint64_t rows : {uint64_t{0}, uint64_t{1}, uint64_t{31}, tile - 1, tile, tile + 1, 3 * tile + 33}) {
            const KeyedRelation relation(dense_permutation(rows, test_seed()), 8, widths, test_seed(), 0.1);
            for (const int bits : {0, 8, 10}) check(relation, bits, std::to_string(rows) + " wide rows");
        }
    }
}

GPU_TEST("radix partition: one hot key, Zipf keys, NULL keys, equal and special keys") {
    const uint64_t rows = small_or_full(5000, 300000);
    for (const int bits : {6, 14, 16}) {
        check(KeyedRelation(one_hot_key(rows, 0.5, test_seed()), 4, {4}, test_seed()), bits,
              "half of the rows one key");
        check(KeyedRelation(one_hot_key(rows, 1.0, test_seed()), 8, {8}, test_seed()), bits, "all rows one key");
        check(KeyedRelation(zipf_keys(rows, rows, 1.5, test_seed()), 4, {4, 4}, test_seed()), bits, "Zipf 1.5");
        check(KeyedRelation(dense_permutation(rows, test_seed()), 4, {4, 2}, test_seed(), 0.3), bits, "NULL keys");
        check(KeyedRelation(dense_permutation(rows, test_seed()), 8, {}, test_seed(), 1.0), bits, "only NULL keys");
        check(KeyedRelation({0, ~0ULL, 1, 0x80000000ULL, 1ULL << 63, 0, ~0ULL}, 8, {4}, test_seed()), bits, "extremes");
        check(KeyedRelation({0, ~0ULL, 1, 0x80000000ULL, 0x7fffffffULL, 0}, 4, {4}, test_seed()), bits,
              "extremes of 4");
    }
}

GPU_TEST("radix partition: bad arguments and refused memory") {
    const KeyedRelation relation(dense_permutation(1000, test_seed()), 4, {4, 4}, test_seed());
    CHECK_THROWS(cuda::radix_partition(test_device(), relation.device(), -1), cuda::ErrorCode::kInvalid);
    CHECK_THROWS(cuda::radix_partition(test_device(), relation.device(), cuda::radix_bits_max() + 1),
                 cuda::ErrorCode::kInvalid);
    const std::vector<uint32_t> narrow(static_cast<size_t>(cuda::kRowColumnsMax) + 1, 1);
    for (const auto& widths : {std::vector<uint32_t>(15, 16), narrow}) {
        const KeyedRelation wide(dense_permutation(10, test_seed()), 8, widths, test_seed());
        CHECK_THROWS(cuda::radix_partition(test_device(), wide.device(), 1), cuda::ErrorCode::kInvalid);
    }
    cuda::DeviceRelation shifted = relation.device();
    shifted.columns[0].data = static_cast<const char*>(shifted.columns[0].data) + 4;
    CHECK_THROWS(cuda::radix_partition(test_device(), shifted, 1), cuda::ErrorCode::kInvalid);

    cuda::MemoryPool& memory = test_device().memory();
    const uint64_t before = memory.used_bytes();
    uint64_t failures = 0;
    for (uint64_t n = 1; n < 100; ++n) {
        memory.fail_after(n);
        try {
            cuda::radix_partition(test_device(), relation.device(), 16);
            break;
        } catch (const cuda::Error& error) {
            CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
            ++failures;
        }
        CHECK_EQ(memory.used_bytes(), before);
    }
    memory.fail_after(0);
    CHECK(failures > 10);
    check(relation, 16, "after refusals");
}

}  // namespace spillway::gpu_test
