// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "key_sequence.cuh"
#include "rows.cuh"
#include "stream_options.hpp"

// What the rows of far relations hold: keys as those of relations in device memory, functions of the row's number, so
// that a result row can be checked without a random access over the link.
namespace spillway::gpu_bench {

enum FarStream : uint64_t { kFarBuildKey = 32, kFarProbeKey, kFarKeyOrder, kFarPayload };
inline uint64_t far_stream(uint64_t seed, uint64_t stream) {
    return random64(cuda::mix64(seed), stream);
}

class FarKeys {
  public:
    FarKeys(Side side, const Workload& workload, uint64_t seed)
        : domain_(side == Side::kBuild ? workload.build_domain() : workload.probe_domain()),
          stream_(far_stream(seed, side == Side::kBuild ? kFarBuildKey : kFarProbeKey)),
          order_(domain_, far_stream(seed, side == Side::kBuild ? kFarBuildKey : kFarKeyOrder)),
          ranks_(domain_, workload.zipf > 0 ? workload.zipf : 1) {
        if (side == Side::kBuild && workload.unique_build_keys()) drawn_ = Drawn::kEachOnce;
        if (side == Side::kProbe && workload.zipf > 0) drawn_ = Drawn::kZipf;
    }

    __device__ uint64_t operator()(uint64_t row) const {
        switch (drawn_) {
            case Drawn::kEachOnce:
                return order_(row);
            case Drawn::kZipf:
                return order_(ranks_(stream_, row));
            default:
                return __umul64hi(random64(stream_, row), domain_);
        }
    }

  private:
    enum class Drawn { kEachOnce, kUniform, kZipf };

    Drawn drawn_ = Drawn::kUniform;
    uint64_t domain_;
    uint64_t stream_;
    Shuffle order_;
    ZipfRanks ranks_;
};

// Column 0 names the row: its number or a bijection of that.
class FarPayloads {
  public:
    FarPayloads(Side side, const OutOfCoreOptions& options)
        : dense_(options.payload_values == FarPayloadValues::kDense),
          added_(far_stream(options.bench.seed, kFarPayload + static_cast<uint64_t>(side))) {}

    __device__ uint64_t operator()(uint32_t column, uint32_t width, uint64_t row) const {
        uint64_t value = row + column;
        if (!dense_ && column == 0) {
            value = width == 4 ? cuda::mix32(static_cast<uint32_t>(row + added_)) : cuda::mix64(row + added_);
        } else if (!dense_) {
            value = random64(added_ + column, row);
        }
        return width == 8 ? value : value & ((1ULL << (width * 8)) - 1);
    }
    __device__ uint64_t row_of(uint32_t width, uint64_t value) const {
        if (dense_) return value;
        if (width == 8) return cuda::unmix64(value) - added_;
        return static_cast<uint32_t>(cuda::unmix32(static_cast<uint32_t>(value)) - static_cast<uint32_t>(added_));
    }

  private:
    bool dense_;
    uint64_t added_;
};

}  // namespace spillway::gpu_bench
