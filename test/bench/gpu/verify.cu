// SPDX-License-Identifier: Apache-2.0
#include "rows.cuh"
#include "verify.hpp"

namespace spillway::gpu_bench {

namespace {

constexpr uint32_t kColumnsMax = 64;

struct Totals {
    unsigned long long rows = 0;  // Rows that are expected, or rows that are wrong.
    unsigned long long check = 0;
};

// f and g of verify.hpp.
__device__ unsigned long long weight(Side side, uint64_t row) {
    return random64(0xa0761d6478bd642fULL + static_cast<uint64_t>(side), row);
}

// The value of f or g for a side that is not there.
constexpr unsigned long long kMissingWeight = 0xe7037ed1a0b428dbULL;

struct Columns {
    const void* data[kColumnsMax] = {};
    uint32_t width[kColumnsMax] = {};
    uint32_t count = 0;

    void add(const void* column, uint32_t bytes) {
        if (count == kColumnsMax) throw cuda::Error(cuda::ErrorCode::kInvalid, "too many columns to verify");
        data[count] = column;
        width[count++] = bytes;
    }
};

// One side of a result row: its payloads say which row it came from. Without payloads all rows of a key are alike, and
// the key stands for any of them.
struct ResultSide {
    Columns payloads;
    const void* keys = nullptr;  // of the input
    uint64_t rows = 0;           // how many the input has
    Side side = Side::kBuild;

    __device__ uint64_t row_of(uint64_t at, uint64_t key) const {
        if (payloads.count == 0) return key;
        return row_of_payload(payloads.width[0], load(payloads.data[0], payloads.width[0], at));
    }
    __device__ bool is_zero(uint64_t at) const {
        for (uint32_t c = 0; c < payloads.count; ++c) {
            if (load(payloads.data[c], payloads.width[c], at) != 0) return false;
        }
        return true;
    }
    __device__ bool agrees(uint64_t at, uint64_t row, uint64_t key, uint32_t key_bytes) const {
        if (payloads.count == 0) return true;  // a key that the input has not is none of the weights expected
        if (row >= rows || load(keys, key_bytes, row) != key) return false;
        for (uint32_t c = 1; c < payloads.count; ++c) {
            const uint32_t width = payloads.width[c];
            if (load(payloads.data[c], width, at) != payload_value(side, c, width, row)) return false;
        }
        return true;
    }
};

// Adds up what body(row, totals) adds, per thread and then for all.
template <class Body>
__global__ void sum_rows_kernel(uint64_t rows, Body body, Totals* sum) {
    Totals own;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        body(row, own);
    }
    atomicAdd(&sum->rows, own.rows);
    atomicAdd(&sum->check, own.check);
}

template <class Body>
Totals sum_rows(cuda::Device& device, uint64_t rows, Body body) {
    const cuda::Allocation memory = device.memory().allocate(sizeof(Totals), "verification");
    const cudaStream_t stream = device.stream();
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, sizeof(Totals), stream));
    cuda::launch(sum_rows_kernel<Body>, grid_of(device), dim3(kBlockThreads), 0, stream, rows, body,
                 memory.as<Totals>());
    Totals sum;
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&sum, memory.as(), sizeof sum, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    return sum;
}

// How often each key of the build side's domain comes on one side, and the sum of its rows' weights.
struct KeySums {
    cuda::Allocation counts;
    cuda::Allocation weights;

    KeySums(cuda::Device& device, const Relation& relation, Side side, uint64_t domain) {
        counts = device.memory().allocate(domain * sizeof(unsigned long long), "verification");
        weights = device.memory().allocate(domain * sizeof(unsigned long long), "verification");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counts.as(), 0, counts.bytes(), device.stream()));
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(weights.as(), 0, weights.bytes(), device.stream()));
        add(device, relation, side, domain);
    }

    void add(cuda::Device& device, const Relation& relation, Side side, uint64_t domain) {
        auto* const count = counts.as<unsigned long long>();
        auto* const sum = weights.as<unsigned long long>();
        const cuda::DeviceColumn key = relation.columns.key;
        const bool has_payloads = !relation.columns.columns.empty();
        for_each_row(device, relation.columns.rows, [=] __device__(uint64_t row) {
            const uint64_t value = load(key.data, key.width, row);
            if (value >= domain) return;  // no partner
            atomicAdd(count + value, 1ULL);
            atomicAdd(sum + value, weight(side, has_payloads ? row : value));
        });
    }
};

Totals expected_pairs(cuda::Device& device, const Workload& workload, const KeySums& build, const KeySums& probe) {
    const auto* const build_count = build.counts.as<unsigned long long>();
    const auto* const build_sum = build.weights.as<unsigned long long>();
    const auto* const probe_count = probe.counts.as<unsigned long long>();
    const auto* const probe_sum = probe.weights.as<unsigned long long>();
    return sum_rows(device, workload.build_domain(), [=] __device__(uint64_t key, Totals & totals) {
        totals.rows += build_count[key] * probe_count[key];
        totals.check += build_sum[key] * probe_sum[key];
    });
}

// Rows of a side that are in the result by themselves: those that have a partner, or those that have none.
Totals expected_alone(cuda::Device& device, const Relation& relation, Side side, const KeySums& partners,
                      uint64_t domain, bool with_partner) {
    const auto* const count = partners.counts.as<unsigned long long>();
    const cuda::DeviceColumn key = relation.columns.key;
    const bool has_payloads = !relation.columns.columns.empty();
    return sum_rows(device, relation.columns.rows, [=] __device__(uint64_t row, Totals & totals) {
        const uint64_t value = load(key.data, key.width, row);
        const bool has_partner = value < domain && count[value] > 0;
        if (has_partner != with_partner) return;
        ++totals.rows;
        totals.check += weight(side, has_payloads ? row : value) * kMissingWeight;
    });
}

struct Expected {
    uint64_t pairs = 0;
    Totals result;

    void add(const Totals& totals) {
        result.rows += totals.rows;
        result.check += totals.check;
    }
};

Expected expected_totals(cuda::Device& device, const Workload& workload, const Inputs& inputs) {
    const uint64_t domain = workload.build_domain();
    const KeySums build(device, inputs.build, Side::kBuild, domain);
    const KeySums probe(device, inputs.probe, Side::kProbe, domain);
    const cuda::JoinKind& kind = workload.kind;
    Expected expected;
    const Totals pairs = expected_pairs(device, workload, build, probe);
    expected.pairs = pairs.rows;
    if (kind.pairs()) expected.add(pairs);
    const bool semi = !kind.pairs() && !kind.anti;
    if (kind.keeps_unmatched_build() || kind.emit == cuda::JoinEmit::kBuildOnce) {
        expected.add(expected_alone(device, inputs.build, Side::kBuild, probe, domain, semi));
    }
    if (kind.keeps_unmatched_probe() || kind.emit == cuda::JoinEmit::kProbeOnce) {
        expected.add(expected_alone(device, inputs.probe, Side::kProbe, build, domain, semi));
    }
    return expected;
}

ResultSide side_of(const Relation& input, const cuda::JoinResult& result, size_t first, Side side) {
    ResultSide described;
    described.keys = input.columns.key.data;
    described.rows = input.columns.rows;
    described.side = side;
    for (size_t c = 0; c < input.columns.columns.size(); ++c) {
        described.payloads.add(result.columns[first + c].as(), input.columns.columns[c].width);
    }
    return described;
}

// The PresenceBits of every row of a result that has no column of them.
uint8_t presence_of_all(const cuda::JoinKind& kind) {
    const int sides = kind.pairs()                              ? cuda::kBuildPresent | cuda::kProbePresent
                      : kind.emit == cuda::JoinEmit::kBuildOnce ? cuda::kBuildPresent
                                                                : cuda::kProbePresent;
    return static_cast<uint8_t>(sides | cuda::kKeyPresent);
}

Totals result_totals(cuda::Device& device, const Workload& workload, const Inputs& inputs,
                     const cuda::JoinResult& result) {
    const ResultSide build = side_of(inputs.build, result, 1, Side::kBuild);
    const ResultSide probe = side_of(inputs.probe, result, 1 + build.payloads.count, Side::kProbe);
    const uint32_t key_bytes = inputs.build.columns.key.width;
    const void* const keys = result.columns[0].as();
    const size_t presence_at = 1 + build.payloads.count + probe.payloads.count;
    const bool has_presence = result.columns.size() > presence_at;
    const uint8_t* const presence = has_presence ? result.columns[presence_at].as<const uint8_t>() : nullptr;
    const uint8_t all = presence_of_all(workload.kind);
    return sum_rows(device, result.rows, [=] __device__(uint64_t at, Totals & totals) {
        const uint64_t key = load(keys, key_bytes, at);
        const uint8_t present = presence == nullptr ? all : presence[at];
        bool right = (present & cuda::kKeyPresent) != 0;
        const auto weight_of = [&](const ResultSide& side, uint8_t bit) {
            if ((present & bit) == 0) {
                right = right && side.is_zero(at);
                return kMissingWeight;
            }
            const uint64_t row = side.row_of(at, key);
            right = right && side.agrees(at, row, key, key_bytes);
            return weight(side.side, row);
        };
        const unsigned long long build_weight = weight_of(build, cuda::kBuildPresent);
        const unsigned long long probe_weight = weight_of(probe, cuda::kProbePresent);
        totals.rows += right ? 0 : 1;
        totals.check += build_weight * probe_weight;
    });
}

}  // namespace

Verdict verify(cuda::Device& device, const Workload& workload, const Inputs& inputs, const cuda::JoinResult& result) {
    const Expected expected = expected_totals(device, workload, inputs);
    Verdict verdict;
    verdict.expected_rows = expected.result.rows;
    verdict.pairs = expected.pairs;
    if (result.rows != expected.result.rows) {
        verdict.problem = "the result has " + std::to_string(result.rows) + " rows instead of " +
                          std::to_string(expected.result.rows);
        return verdict;
    }
    if (result.columns.empty()) return verdict;
    const Totals found = result_totals(device, workload, inputs, result);
    if (found.rows > 0) {
        verdict.problem = std::to_string(found.rows) + " rows of the result are none of the join";
    } else if (found.check != expected.result.check) {
        verdict.problem = "rows of the result are missing while others are there twice";
    }
    return verdict;
}

}  // namespace spillway::gpu_bench
