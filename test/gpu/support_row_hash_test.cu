// SPDX-License-Identifier: Apache-2.0
// The two versions of the row hash against each other. test/native checks the host's against known numbers.
#include "gpu_test.hpp"
#include "support/device_array.hpp"
#include "support/generators.hpp"
#include "support/row_hash.hpp"

namespace spillway::gpu_test {

namespace {

constexpr uint32_t kWidths[] = {1, 2, 4, 8, 16};

HostTable mixed_table(uint64_t rows, double null_share) {
    HostTable table;
    for (const uint32_t width : kWidths) {
        table.columns.push_back(payload_column(rows, width, test_seed(), table.columns.size()));
        if (null_share < 0) continue;
        table.columns.back().valid_bits = null_mask(rows, null_share, test_seed() + table.columns.size());
    }
    return table;
}

void check_same(const HostTable& table) {
    CHECK_EQ(device_row_hash(upload(table)), host_row_hash(table));
}

}  // namespace

GPU_TEST("support: host and device hash each width alike") {
    for (const uint32_t width : kWidths) {
        // Around the sizes of warps, blocks and the grid.
        for (const uint64_t rows : {0, 1, 31, 32, 33, 255, 257, 5000}) {
            check_same(HostTable{{payload_column(rows, width, test_seed())}});
        }
    }
}

GPU_TEST("support: host and device hash rows of all widths alike, with and without NULLs") {
    const uint64_t rows = small_or_full(10'000, 3'000'000);
    for (const double null_share : {-1.0, 0.0, 0.3, 1.0}) check_same(mixed_table(rows, null_share));
}

GPU_TEST("support: the device's row hash does not depend on order and counts repetitions") {
    const std::vector<uint64_t> keys = dense_permutation(10'000, test_seed());
    std::vector<uint64_t> sorted = keys;
    std::sort(sorted.begin(), sorted.end());
    const RowHash hash = device_row_hash(upload(HostTable{{column_of(keys)}}));
    CHECK_EQ(device_row_hash(upload(HostTable{{column_of(sorted)}})), hash);
    std::vector<uint64_t> twice = keys;
    twice.insert(twice.end(), keys.begin(), keys.end());
    CHECK_EQ(device_row_hash(upload(HostTable{{column_of(twice)}})), hash + hash);
    sorted[0] = sorted[1];
    CHECK(device_row_hash(upload(HostTable{{column_of(sorted)}})) != hash);
}

GPU_TEST("support: the device's row hash does not see the bytes under a NULL, but the NULL") {
    HostTable table = mixed_table(1000, 0.5);
    const RowHash hash = device_row_hash(upload(table));
    for (HostColumn& column : table.columns) {
        for (uint64_t row = 0; row < column.rows(); ++row) {
            if (!column.is_valid(row)) column.bytes[row * column.width] ^= 0xff;
        }
    }
    CHECK_EQ(device_row_hash(upload(table)), hash);
    for (HostColumn& column : table.columns) column.valid_bits.clear();
    CHECK(device_row_hash(upload(table)) != hash);
}

GPU_TEST("support: rows behind the 32-bit limit are hashed") {
    need_full_suite();
    // Zeros but for one row, so that the host need not hash as many: n equal rows have n times the hash of one.
    const uint64_t rows = (uint64_t{1} << 32) + 1000;
    DeviceArray<uint8_t> bytes(rows);
    CHECK_CUDA(cudaMemset(bytes.data(), 0, rows));
    CHECK_CUDA(cudaMemset(bytes.data() + rows - 1, 7, 1));
    const RowHash zero = host_row_hash(HostTable{{column_of(std::vector<uint8_t>{0})}});
    const RowHash seven = host_row_hash(HostTable{{column_of(std::vector<uint8_t>{7})}});
    const RowHash expected = RowHash{zero.low * (rows - 1), zero.high * (rows - 1)} + seven;
    CHECK_EQ(device_row_hash({{bytes.data(), 1, nullptr}}, rows), expected);
}

GPU_TEST("support: tables come back from the device as they went there") {
    const HostTable table = mixed_table(small_or_full(1000, 1'000'000), 0.2);
    CHECK_EQ(row_difference(download(upload(table)), table), "");
    CHECK_EQ(download(upload(std::vector<uint64_t>{})).size(), 0);
    const std::vector<uint32_t> values = {3, 1, 2};
    CHECK(download(upload(values)) == values);
}

}  // namespace spillway::gpu_test
