// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "rows.cuh"

// Keys as functions of a seed and a row number, without tables. The host fills the structures, kernels call them.
namespace spillway::gpu_bench {

// Seeded bijection on [0, n): steps that are bijections on the next power of two; what falls outside goes around.
class Shuffle {
  public:
    Shuffle(uint64_t n, uint64_t stream) : n_(n) {
        while (bits_ < 63 && (1ULL << bits_) < n) ++bits_;
        mask_ = (1ULL << bits_) - 1;
        shift_ = (bits_ + 1) / 2;
        for (int round = 0; round < kRounds; ++round) {
            added_[round] = random64(stream, 2 * round);
            factor_[round] = random64(stream, 2 * round + 1) | 1;
        }
    }

    __device__ uint64_t operator()(uint64_t x) const {
        do {
            for (int round = 0; round < kRounds; ++round) {
                x = ((x + added_[round]) * factor_[round]) & mask_;
                x ^= x >> shift_;
            }
        } while (x >= n_);
        return x;
    }

  private:
    static constexpr int kRounds = 4;
    uint64_t n_;
    uint32_t bits_ = 1;
    uint32_t shift_ = 1;
    uint64_t mask_ = 1;
    uint64_t added_[kRounds] = {};
    uint64_t factor_[kRounds] = {};
};

// Rank k of 0 .. n - 1 with probability proportional to (k + 1)^-s, by rejection-inversion (Hormann and Derflinger,
// 1996) as in native/generate/zipf.cpp, which says more.
class ZipfRanks {
  public:
    ZipfRanks(uint64_t n, double exponent) : n_(static_cast<double>(n)), exponent_(exponent) {
        first_ = integral(1.5) - 1;
        last_ = integral(n_ + 0.5);
        sure_ = 2 - inverse(integral(2.5) - weight(2));
    }

    __device__ uint64_t operator()(uint64_t stream, uint64_t row) const {
        uint64_t state = random64(stream, row);
        for (uint64_t attempt = 0;; ++attempt) {
            const double unit = static_cast<double>(random64(state, attempt) >> 11) * 0x1p-53;
            const double u = last_ + unit * (first_ - last_);
            const double x = inverse(u);
            const double k = fmin(fmax(floor(x + 0.5), 1.0), n_);
            if (k - x <= sure_ || u >= integral(k + 0.5) - weight(k)) return static_cast<uint64_t>(k) - 1;
        }
    }

  private:
    __host__ __device__ double weight(double x) const { return exp(-exponent_ * log(x)); }
    // This is the integral of t^-s from 1 to x. It is continuous at s = 1, where it is the logarithm.
    __host__ __device__ double integral(double x) const {
        const double t = (1 - exponent_) * log(x);
        return fabs(t) > 1e-8 ? expm1(t) / (1 - exponent_) : log(x) * (1 + t / 2);
    }
    __host__ __device__ double inverse(double y) const {
        const double t = fmax(-1.0, (1 - exponent_) * y);
        return fabs(t) > 1e-8 ? exp(log1p(t) / (1 - exponent_)) : exp(y * (1 - t / 2));
    }

    double n_;
    double exponent_;
    double first_ = 0;
    double last_ = 0;
    double sure_ = 0;
};

}  // namespace spillway::gpu_bench
