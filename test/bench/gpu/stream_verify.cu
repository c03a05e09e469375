// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "stream_rows.cuh"
#include "stream_verify.hpp"

namespace spillway::gpu_bench {

namespace {

constexpr int kFarColumnsMax = 8;
constexpr uint64_t kFarWeightStream = 0xd6e8feb86659fd93ULL;

struct TwoSums {
    unsigned long long first = 0;
    unsigned long long second = 0;
};

template <class Body>
__global__ void sum_far_rows_kernel(uint64_t rows, Body body, TwoSums* sums) {
    TwoSums own;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        body(row, own);
    }
    atomicAdd(&sums->first, own.first);
    atomicAdd(&sums->second, own.second);
}

template <class Body>
TwoSums sum_far_rows(cuda::Device& device, uint64_t rows, Body body) {
    const cuda::Allocation memory = device.memory().allocate(sizeof(TwoSums), "verification");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, sizeof(TwoSums), device.stream()));
    cuda::launch(sum_far_rows_kernel<Body>, grid_of(device), dim3(kBlockThreads), 0, device.stream(), rows, body,
                 memory.as<TwoSums>());
    TwoSums sums;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&sums, memory.as(), sizeof sums, cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
    return sums;
}

// What is added up of a row: 1, a payload, or f and g of verify.hpp. Without payloads all rows of a key are alike, and
// the key stands for any of them.
struct FarValue {
    enum class Kind { kOne, kPayload, kWeight };

    Kind kind = Kind::kOne;
    Side side = Side::kBuild;
    bool named = false;  // rows have payloads
    const void* column = nullptr;
    uint32_t width = 0;

    __device__ static unsigned long long weight(Side side, uint64_t name) {
        return random64(kFarWeightStream + static_cast<uint64_t>(side), name);
    }
    __device__ unsigned long long operator()(uint64_t row, uint64_t key) const {
        if (kind == Kind::kPayload) return load(column, width, row);
        return kind == Kind::kOne ? 1 : weight(side, named ? row : key);
    }
};

FarValue far_value(FarValue::Kind kind, Side side, const FarRelation& relation, size_t column = 0) {
    FarValue value;
    value.kind = kind;
    value.side = side;
    value.named = !relation.columns.empty();
    if (kind != FarValue::Kind::kPayload) return value;
    value.column = relation.columns[column].data();
    value.width = relation.widths[column];
    return value;
}

// Sums per key of the build side's domain.
class SumsPerKey {
  public:
    SumsPerKey(cuda::Device& device, uint64_t domain)
        : device_(device),
          domain_(domain),
          memory_(device.memory().allocate(domain * sizeof(unsigned long long), "verification")) {}

    void add(const FarRelation& build, const FarValue& value) {
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), device_.stream()));
        auto* const sums = memory_.as<unsigned long long>();
        const void* const keys = build.key.data();
        const uint32_t key_bytes = build.key_bytes;
        const uint64_t domain = domain_;
        for_each_row(device_, build.rows, [=] __device__(uint64_t row) {
            const uint64_t key = load(keys, key_bytes, row);
            if (key < domain) atomicAdd(sums + key, value(row, key));
        });
    }

    // Adds up the probe side's values, each multiplied by the sum of its key.
    uint64_t product(const FarRelation& probe, const FarValue& value) const {
        const auto* const sums = memory_.as<const unsigned long long>();
        const void* const keys = probe.key.data();
        const uint32_t key_bytes = probe.key_bytes;
        const uint64_t domain = domain_;
        const TwoSums total = sum_far_rows(device_, probe.rows, [=] __device__(uint64_t row, TwoSums & own) {
            const uint64_t key = load(keys, key_bytes, row);
            if (key < domain) own.first += value(row, key) * sums[key];
        });
        return total.first;
    }

  private:
    cuda::Device& device_;
    uint64_t domain_;
    cuda::Allocation memory_;
};

// One side of result rows.
struct FarResultSide {
    FarKeys key_of;
    FarPayloads value_of;
    uint64_t rows;  // of the input
    uint32_t columns = 0;
    const void* data[kFarColumnsMax] = {};
    uint32_t width[kFarColumnsMax] = {};

    FarResultSide(Side side, const OutOfCoreOptions& options, const FarRows& result, size_t first)
        : key_of(side, options.bench.workload, options.bench.seed),
          value_of(side, options),
          rows(side == Side::kBuild ? options.bench.workload.build_rows : options.bench.workload.probe_rows) {
        const Workload& workload = options.bench.workload;
        const auto& widths = side == Side::kBuild ? workload.build_payload : workload.probe_payload;
        if (widths.size() > kFarColumnsMax) {
            throw cuda::Error(cuda::ErrorCode::kInvalid, "too many columns to verify");
        }
        for (const uint32_t bytes : widths) {
            data[columns] = result.columns[first + columns].data();
            width[columns++] = bytes;
        }
    }

    __device__ uint64_t name(uint64_t at, uint64_t key) const {
        return columns == 0 ? key : value_of.row_of(width[0], load(data[0], width[0], at));
    }
    // A key that an input without payloads has not is none of the weights expected.
    __device__ bool agrees(uint64_t at, uint64_t row, uint64_t key) const {
        if (columns == 0) return true;
        if (row >= rows || key_of(row) != key) return false;
        for (uint32_t c = 1; c < columns; ++c) {
            if (load(data[c], width[c], at) != value_of(c, width[c], row)) return false;
        }
        return true;
    }
};

}  // namespace

FarTotals expected_far_totals(cuda::Device& device, const OutOfCoreOptions& options, const FarInputs& inputs) {
    using Kind = FarValue::Kind;
    const FarRelation& build = inputs.build;
    const FarRelation& probe = inputs.probe;
    const FarValue one = far_value(Kind::kOne, Side::kProbe, probe);
    FarTotals totals;
    SumsPerKey per_key(device, options.bench.workload.build_domain());
    if (options.result == FarResult::kSums) {
        for (size_t c = 0; c < std::min(build.columns.size(), kSummedColumnsMax); ++c) {
            per_key.add(build, far_value(Kind::kPayload, Side::kBuild, build, c));
            totals.sums.push_back(per_key.product(probe, one));
        }
    }
    if (options.result == FarResult::kRows) {
        per_key.add(build, far_value(Kind::kWeight, Side::kBuild, build));
        totals.check = per_key.product(probe, far_value(Kind::kWeight, Side::kProbe, probe));
    }
    per_key.add(build, far_value(Kind::kOne, Side::kBuild, build));
    totals.rows = per_key.product(probe, one);
    if (options.result == FarResult::kSums) {
        for (size_t c = 0; c < std::min(probe.columns.size(), kSummedColumnsMax); ++c) {
            totals.sums.push_back(per_key.product(probe, far_value(Kind::kPayload, Side::kProbe, probe, c)));
        }
    }
    return totals;
}

FarRows make_far_rows(const OutOfCoreOptions& options, uint64_t rows) {
    const Workload& workload = options.bench.workload;
    FarRows result;
    result.rows = rows;
    result.widths.push_back(workload.key_bytes);
    for (const auto* widths : {&workload.build_payload, &workload.probe_payload}) {
        result.widths.insert(result.widths.end(), widths->begin(), widths->end());
    }
    for (const uint32_t width : result.widths) result.columns.push_back(FarMemory::on_host(rows * width));
    return result;
}

void spoil_far_rows(cuda::Device& device, const FarRows& result) {
    for (size_t c = 0; c < result.columns.size(); ++c) {
        void* const data = result.columns[c].data();
        const uint32_t width = result.widths[c];
        for_each_row(device, result.rows, [=] __device__(uint64_t row) { store(data, width, row, ~0ULL); });
    }
    device.synchronize();
}

std::string check_far_rows(cuda::Device& device, const OutOfCoreOptions& options, const FarRows& result,
                           const FarTotals& expected) {
    const FarResultSide build(Side::kBuild, options, result, 1);
    const FarResultSide probe(Side::kProbe, options, result, 1 + build.columns);
    const void* const keys = result.columns[0].data();
    const uint32_t key_bytes = result.widths[0];
    const TwoSums found = sum_far_rows(device, result.rows, [=] __device__(uint64_t at, TwoSums & own) {
        const uint64_t key = load(keys, key_bytes, at);
        const uint64_t build_row = build.name(at, key);
        const uint64_t probe_row = probe.name(at, key);
        own.first += build.agrees(at, build_row, key) && probe.agrees(at, probe_row, key) ? 0 : 1;
        own.second += FarValue::weight(Side::kBuild, build_row) * FarValue::weight(Side::kProbe, probe_row);
    });
    if (found.first > 0) return std::to_string(found.first) + " rows of the result are none of the join";
    return found.second == expected.check ? "" : "pairs of rows are missing while others are there twice";
}

}  // namespace spillway::gpu_bench
