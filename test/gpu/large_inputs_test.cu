// SPDX-License-Identifier: Apache-2.0
// Joins and group-bys of 2^27 rows and more, which no host table holds: relations are made on the device, results are
// compared by their row hash or by a sum whose value is known. Small in the small suite.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "equi_join/equi_join.hpp"
#include "gpu_test.hpp"
#include "group_by/group_by.hpp"
#include "support/device_array.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::EquiJoin;
using cuda::GroupByAlgorithm;
using cuda::JoinAlgorithm;
using cuda::OutputSide;

constexpr std::pair<const char*, JoinAlgorithm> kJoins[] = {
    {"phj-tr", JoinAlgorithm::kRadixHash},        {"npj", JoinAlgorithm::kNoPartitioning},
    {"npj-perfect", JoinAlgorithm::kPerfectHash}, {"phj-ur", JoinAlgorithm::kBucketChain},
    {"smj-ur", JoinAlgorithm::kSortMergeGather},  {"smj-tr", JoinAlgorithm::kSortMergeColumns},
    {"smj-merge", JoinAlgorithm::kMergeSort},     {"phj-shared", JoinAlgorithm::kSharedHistogram},
    {"phj-gftr", JoinAlgorithm::kGftrColumns}};
constexpr std::pair<const char*, GroupByAlgorithm> kGroupBys[] = {
    {"hgb", static_cast<GroupByAlgorithm>(0)},    {"pgb-tr", static_cast<GroupByAlgorithm>(1)},
    {"sgb-ur", static_cast<GroupByAlgorithm>(2)}, {"pgb-ur", static_cast<GroupByAlgorithm>(3)},
    {"sgb-tr", static_cast<GroupByAlgorithm>(4)}, {"sgb-de-tr", static_cast<GroupByAlgorithm>(5)},
    {"hgb-global", GroupByAlgorithm::kHashGlobal}};

__host__ __device__ uint64_t scrambled(uint64_t number, uint64_t salt) {
    uint64_t x = number * 0x9e3779b97f4a7c15ULL + salt;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}
// The number that stands at a place of a shuffled column; `rows` is a power of two.
__host__ __device__ uint64_t shuffled(uint64_t place, uint64_t rows) {
    return (place * 0x9e3779b1ULL + 12345) & (rows - 1);
}

template <class T, class Value>
__global__ void fill_column(T* column, uint64_t rows, Value value) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        column[row] = static_cast<T>(value(row));
    }
}
template <class T, class Value>
DeviceArray<uint8_t> filled(uint64_t rows, Value value) {
    DeviceArray<uint8_t> column(rows * sizeof(T));
    if (rows == 0) return column;
    fill_column<<<1024, 256>>>(reinterpret_cast<T*>(column.data()), rows, value);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaDeviceSynchronize());
    return column;
}
template <class Value>
DeviceArray<uint8_t> filled_keys(uint32_t key_width, uint64_t rows, Value value) {
    return key_width == 4 ? filled<uint32_t>(rows, value) : filled<uint64_t>(rows, value);
}

// Sum over rows of (key + c) * (build + 1) * (probe + 3), modulo 2^64: another pair is another sum.
__host__ __device__ uint64_t key_factor(uint64_t key) {
    return key + 0x9e3779b97f4a7c15ULL;
}
__global__ void sum_products(const uint32_t* key, const uint32_t* build, const uint32_t* probe, uint64_t rows,
                             unsigned long long* sum) {
    uint64_t mine = 0;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        mine += key_factor(key[row]) * (build[row] + 1ULL) * (probe[row] + 3ULL);
    }
    atomicAdd(sum, static_cast<unsigned long long>(mine));
}
uint64_t sum_of_products(const void* key, const void* build, const void* probe, uint64_t rows) {
    const DeviceArray<unsigned long long> sum = upload(std::vector<unsigned long long>{0});
    CHECK_CUDA(cudaDeviceSynchronize());  // what is summed may still be under way on another stream
    sum_products<<<1024, 256>>>(static_cast<const uint32_t*>(key), static_cast<const uint32_t*>(build),
                                static_cast<const uint32_t*>(probe), rows, sum.data());
    CHECK_CUDA(cudaGetLastError());
    return download(sum).front();
}

// Half of the probe rows have a partner; `hot`: every second of those has the same one.
void check_join_at_scale(uint32_t key_width, bool hot, const std::string& what) {
    const uint64_t build_rows = small_or_full(1 << 10, 1 << 26);
    const uint64_t probe_rows = small_or_full(1 << 12, 1 << 28);
    const uint64_t found = probe_rows / 2;
    const uint64_t salt = test_seed();
    const auto probe_key = [=] __device__(uint64_t number) {
        const uint64_t key = scrambled(number, salt) & (build_rows - 1);
        if (number >= found) return build_rows + key;
        return hot && number % 2 == 0 ? uint64_t{7} : key;
    };
    const auto build_value = [=] __device__(uint64_t key) { return scrambled(key, salt + 1); };
    const auto probe_value = [=] __device__(uint64_t number) { return scrambled(number, salt + 2); };
    const auto build_keys =
        filled_keys(key_width, build_rows, [=] __device__(uint64_t row) { return shuffled(row, build_rows); });
    const auto build_values =
        filled<uint64_t>(build_rows, [=] __device__(uint64_t row) { return build_value(shuffled(row, build_rows)); });
    const auto probe_keys = filled_keys(key_width, probe_rows,
                                        [=] __device__(uint64_t row) { return probe_key(shuffled(row, probe_rows)); });
    const auto probe_values =
        filled<uint32_t>(probe_rows, [=] __device__(uint64_t row) { return probe_value(shuffled(row, probe_rows)); });
    RowHash expected;
    {
        const auto keys = filled_keys(key_width, found, probe_key);
        const auto build =
            filled<uint64_t>(found, [=] __device__(uint64_t number) { return build_value(probe_key(number)); });
        const auto probe = filled<uint32_t>(found, probe_value);
        expected = device_row_hash({{keys.data(), key_width}, {build.data(), 8}, {probe.data(), 4}}, found);
    }
    const cuda::DeviceRelation build = {
        build_rows, {build_keys.data(), key_width}, nullptr, {{build_values.data(), 8}}};
    const cuda::DeviceRelation probe = {
        probe_rows, {probe_keys.data(), key_width}, nullptr, {{probe_values.data(), 4}}};
    for (const auto& [name, algorithm] : kJoins) {
        EquiJoin join;
        join.algorithm = algorithm;
        join.output = {{OutputSide::kKey, 0}, {OutputSide::kBuild, 0}, {OutputSide::kProbe, 0}};
        join.expected_rows = found;
        join.key_range = build_rows;
        const cuda::JoinResult result = cuda::equi_join(test_device(), build, probe, join);
        CHECK_EQ(result.rows, found);
        test_device().synchronize();
        const RowHash hash = device_row_hash(
            {{result.columns[0].as(), key_width}, {result.columns[1].as(), 8}, {result.columns[2].as(), 4}}, found);
        if (hash != expected) fail(what + ", " + name + ": other rows", __FILE__, __LINE__);
    }
}

}  // namespace

GPU_TEST("large inputs: 2^27 joined rows by every algorithm have the row hash to expect") {
    check_join_at_scale(4, false, "4-byte keys");
    check_join_at_scale(8, false, "8-byte keys");
    check_join_at_scale(test_seed() % 2 == 0 ? 4 : 8, true, "a hot probe key");
}

GPU_TEST("large inputs: joins of more than 2^31 result rows by every algorithm") {
    const uint64_t distinct = small_or_full(1 << 5, 1 << 15);
    const uint64_t salt = test_seed();
    for (const auto& [name, algorithm] : kJoins) {
        // An array by key holds a key once: it needs as many probe rows.
        const uint64_t copies = algorithm == JoinAlgorithm::kPerfectHash ? 1 : 8;
        const uint64_t probe_rows = small_or_full(3000, (1ULL << 31) + (1 << 20)) / copies;
        const uint64_t build_rows = distinct * copies;
        const auto build_keys =
            filled<uint32_t>(build_rows, [=] __device__(uint64_t row) { return shuffled(row, build_rows) / copies; });
        const auto build_values = filled<uint32_t>(
            build_rows, [=] __device__(uint64_t row) { return scrambled(shuffled(row, build_rows), salt); });
        const auto probe_key = [=] __device__(uint64_t row) { return scrambled(row, salt + 1) & (distinct - 1); };
        const auto probe_keys = filled<uint32_t>(probe_rows, probe_key);
        const auto probe_values =
            filled<uint32_t>(probe_rows, [=] __device__(uint64_t row) { return scrambled(row, salt + 2); });
        // All pairs of a key add up to the product of the sums of its build and its probe factors.
        std::vector<uint64_t> factors(distinct);
        for (uint64_t place = 0; place < build_rows; ++place) {
            factors[place / copies] += static_cast<uint32_t>(scrambled(place, salt)) + 1ULL;
        }
        std::vector<uint64_t> probe_sums(distinct);
        for (uint64_t row = 0; row < probe_rows; ++row) {
            probe_sums[scrambled(row, salt + 1) & (distinct - 1)] +=
                static_cast<uint32_t>(scrambled(row, salt + 2)) + 3ULL;
        }
        uint64_t expected = 0;
        for (uint64_t key = 0; key < distinct; ++key) expected += key_factor(key) * factors[key] * probe_sums[key];
        EquiJoin join;
        join.algorithm = algorithm;
        join.output = {{OutputSide::kKey, 0}, {OutputSide::kBuild, 0}, {OutputSide::kProbe, 0}};
        join.expected_rows = probe_rows * copies;
        join.key_range = distinct;
        const cuda::DeviceRelation build = {build_rows, {build_keys.data(), 4}, nullptr, {{build_values.data(), 4}}};
        const cuda::DeviceRelation probe = {probe_rows, {probe_keys.data(), 4}, nullptr, {{probe_values.data(), 4}}};
        CHECK_EQ(cuda::equi_join_count(test_device(), build, probe, join), join.expected_rows);
        const cuda::JoinResult result = cuda::equi_join(test_device(), build, probe, join);
        CHECK_EQ(result.rows, join.expected_rows);
        const uint64_t sum =
            sum_of_products(result.columns[0].as(), result.columns[1].as(), result.columns[2].as(), result.rows);
        if (sum != expected) fail(std::string(name) + ": other pairs", __FILE__, __LINE__);
    }
}

GPU_TEST("large inputs: groups of 2^27 rows by every algorithm have the row hash to expect") {
    const uint64_t rows = small_or_full(1 << 12, 1 << 27);
    for (const uint64_t groups : {rows / 16, uint64_t{64}}) {
        const uint64_t rows_of_group = rows / groups;
        const auto keys =
            filled<uint32_t>(rows, [=] __device__(uint64_t row) { return shuffled(row, rows) & (groups - 1); });
        // Value v of a key: v + the key's low byte, v = 0 .. rows_of_group - 1.
        const auto values = filled<uint32_t>(rows, [=] __device__(uint64_t row) {
            const uint64_t number = shuffled(row, rows);
            return number / groups + (number & (groups - 1) & 255);
        });
        const auto key = filled<uint32_t>(groups, [=] __device__(uint64_t group) { return group; });
        const auto count = filled<uint64_t>(groups, [=] __device__(uint64_t) { return rows_of_group; });
        const auto sum = filled<uint64_t>(groups, [=] __device__(uint64_t group) {
            return rows_of_group * (rows_of_group - 1) / 2 + rows_of_group * (group & 255);
        });
        const auto least = filled<uint32_t>(groups, [=] __device__(uint64_t group) { return group & 255; });
        const auto greatest =
            filled<uint32_t>(groups, [=] __device__(uint64_t group) { return rows_of_group - 1 + (group & 255); });
        const RowHash expected = device_row_hash(
            {{key.data(), 4}, {count.data(), 8}, {sum.data(), 8}, {least.data(), 4}, {greatest.data(), 4}}, groups);
        cuda::GroupByRequest request;
        request.rows = rows;
        request.key = {keys.data(), 4};
        request.expected_groups = groups;
        for (const auto kind : {cuda::GroupAggregateKind::kCountRows, cuda::GroupAggregateKind::kSum,
                                cuda::GroupAggregateKind::kMin, cuda::GroupAggregateKind::kMax}) {
            cuda::GroupAggregate aggregate;
            aggregate.kind = kind;
            aggregate.value_kind = cuda::ValueKind::kUnsigned;
            if (kind != cuda::GroupAggregateKind::kCountRows) aggregate.values = {values.data(), 4};
            request.aggregates.push_back(aggregate);
        }
        for (const auto& [name, algorithm] : kGroupBys) {
            request.algorithm = algorithm;
            const cuda::GroupByResult result = cuda::group_by(test_device(), request);
            CHECK_EQ(result.groups, groups);
            test_device().synchronize();
            const RowHash hash = device_row_hash({{result.keys.as(), 4},
                                                  {result.values[0].as(), 8},
                                                  {result.values[1].as(), 8},
                                                  {result.values[2].as(), 4},
                                                  {result.values[3].as(), 4}},
                                                 groups);
            if (hash != expected) fail(std::string(name) + ": other groups", __FILE__, __LINE__);
        }
    }
}

}  // namespace spillway::gpu_test
