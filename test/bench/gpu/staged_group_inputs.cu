// SPDX-License-Identifier: Apache-2.0
#include "key_sequence.cuh"
#include "rows.cuh"
#include "staged_group_bench.hpp"

namespace spillway::gpu_bench {

namespace {

constexpr uint64_t kFarGroupKeyStream = 0x8ebc6af09c88c6e3ULL;
constexpr uint64_t kFarGroupOrderStream = 0x589965cc75374cc3ULL;
constexpr uint64_t kFarGroupValueStream = 0x1d8e4e27c47d124fULL;

// Dense keys: with a group per row each comes once, else they are drawn.
class FarGroupKeys {
  public:
    explicit FarGroupKeys(const FarGroupOptions& options)
        : groups_(options.groups),
          each_once_(options.groups == options.rows && options.zipf == 0),
          zipf_(options.zipf > 0),
          stream_(random64(options.seed, kFarGroupKeyStream)),
          order_(options.groups, random64(options.seed, kFarGroupOrderStream)),
          ranks_(options.groups, options.zipf > 0 ? options.zipf : 1) {}

    __device__ uint64_t operator()(uint64_t row) const {
        if (each_once_) return order_(row);
        return zipf_ ? order_(ranks_(stream_, row)) : __umul64hi(random64(stream_, row), groups_);
    }

  private:
    uint64_t groups_;
    bool each_once_;
    bool zipf_;
    uint64_t stream_;
    Shuffle order_;
    ZipfRanks ranks_;
};

FarRelation far_group_columns(const FarGroupOptions& options, uint64_t rows, uint32_t value_bytes) {
    FarRelation relation;
    relation.rows = rows;
    relation.key_bytes = options.key_bytes;
    relation.key = FarMemory::on_host(rows * options.key_bytes);
    relation.widths.push_back(value_bytes);
    relation.columns.push_back(FarMemory::on_host(rows * value_bytes));
    return relation;
}

uint64_t read_number(cuda::Device& device, const cuda::Allocation& from) {
    uint64_t value = 0;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&value, from.as(), sizeof value, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return value;
}

cuda::Allocation zero_counter(cuda::Device& device) {
    cuda::Allocation counter = device.memory().allocate(sizeof(uint64_t), "verification");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counter.as(), 0, sizeof(uint64_t), device.stream()));
    return counter;
}

}  // namespace

FarRelation make_far_group_input(cuda::Device& device, const FarGroupOptions& options) {
    device.make_current();
    FarRelation input = far_group_columns(options, options.rows, options.payload_bytes);
    void* const keys = input.key.data();
    const uint32_t key_bytes = options.key_bytes;
    const FarGroupKeys key_of(options);
    for_each_row(device, options.rows, [=] __device__(uint64_t row) { store(keys, key_bytes, row, key_of(row)); });
    void* const values = input.columns[0].data();
    const uint32_t width = options.payload_bytes;
    const uint32_t shift = 64 - options.value_bits;
    const uint64_t stream = random64(options.seed, kFarGroupValueStream);
    for_each_row(device, options.rows,
                 [=] __device__(uint64_t row) { store(values, width, row, random64(stream, row) >> shift); });
    device.synchronize();
    return input;
}

FarGroups expected_far_groups(cuda::Device& device, const FarGroupOptions& options, const FarRelation& input) {
    FarGroups expected;
    expected.sums = device.memory().allocate(options.groups * sizeof(uint64_t), "verification");
    expected.seen = device.memory().allocate(options.groups * sizeof(uint32_t), "verification");
    const FarAggregate aggregate = options.aggregate;
    const int start = aggregate == FarAggregate::kMin ? 0xff : 0;
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(expected.sums.as(), start, expected.sums.bytes(), device.stream()));
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(expected.seen.as(), 0, expected.seen.bytes(), device.stream()));
    const cuda::Allocation counter = zero_counter(device);
    auto* const sums = expected.sums.as<unsigned long long>();
    auto* const seen = expected.seen.as<uint32_t>();
    auto* const groups = counter.as<unsigned long long>();
    const void* const keys = input.key.data();
    const void* const values = input.columns[0].data();
    const uint32_t key_bytes = input.key_bytes;
    const uint32_t width = input.widths[0];
    // Values have less bits than their column, so that they are never negative.
    for_each_row(device, input.rows, [=] __device__(uint64_t row) {
        const uint64_t key = load(keys, key_bytes, row);
        const unsigned long long value = load(values, width, row);
        if (aggregate == FarAggregate::kSum) atomicAdd(sums + key, value);
        if (aggregate == FarAggregate::kCount) atomicAdd(sums + key, 1ULL);
        if (aggregate == FarAggregate::kMax) atomicMax(sums + key, value);
        if (aggregate == FarAggregate::kMin) atomicMin(sums + key, value);
        seen[key] = 1;
    });
    for_each_row(device, options.groups, [=] __device__(uint64_t key) {
        if (seen[key] != 0) atomicAdd(groups, 1ULL);
    });
    expected.groups = read_number(device, counter);
    return expected;
}

FarRelation make_far_group_rows(cuda::Device& device, const FarGroupOptions& options, uint64_t groups) {
    FarRelation result = far_group_columns(options, groups, options.result_bytes());
    spoil_far_group_rows(device, result);
    return result;
}

void spoil_far_group_rows(cuda::Device& device, const FarRelation& result) {
    void* const keys = result.key.data();
    const uint32_t key_bytes = result.key_bytes;
    for_each_row(device, result.rows, [=] __device__(uint64_t row) { store(keys, key_bytes, row, ~0ULL); });
    device.synchronize();
}

std::string check_far_groups(cuda::Device& device, const FarGroupOptions& options, const FarRelation& result,
                             const FarGroups& expected) {
    const cuda::Allocation counter = zero_counter(device);
    const auto* const sums = expected.sums.as<const unsigned long long>();
    auto* const seen = expected.seen.as<uint32_t>();
    auto* const wrong = counter.as<unsigned long long>();
    const void* const keys = result.key.data();
    const void* const values = result.columns[0].data();
    const uint32_t key_bytes = result.key_bytes;
    const uint32_t width = result.widths[0];
    const uint64_t groups = options.groups;
    // As many rows as keys, none of which comes twice: all are there.
    for_each_row(device, result.rows, [=] __device__(uint64_t row) {
        const uint64_t key = load(keys, key_bytes, row);
        const bool right = key < groups && load(values, width, row) == sums[key] && atomicExch(seen + key, 2U) == 1;
        if (!right) atomicAdd(wrong, 1ULL);
    });
    const uint64_t count = read_number(device, counter);
    return count == 0 ? "" : std::to_string(count) + " groups of the result are wrong, or there twice";
}

}  // namespace spillway::gpu_bench
