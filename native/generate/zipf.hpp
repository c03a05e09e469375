// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "generate/random.hpp"

namespace spillway {

// Zipf distribution: rank k of 1 .. n with probability k^-s / H(n, s), any s >= 0 (1 included), no table of n entries.
class ZipfDistribution {
  public:
    ZipfDistribution(uint64_t n, double exponent);

    // Rank drawn by rejection-inversion (Hormann and Derflinger, "Rejection-inversion to generate variates from
    // monotone discrete distributions", 1996): invert the integral of x^-s, accept by comparing with the true
    // probability; fewer than 1.3 tries on average for any s and n.
    uint64_t sample(RandomSequence& random) const;

    // Rank at u in [0, 1) of the cumulative distribution; never falls when u rises. Exact for the first ranks; beyond,
    // ranks in steps of 0.5 % are taken as equally likely.
    uint64_t quantile(double u) const;

    // H(k, s), the sum of the first k weights.
    double cumulative(uint64_t k) const;

  private:
    double integral(double x) const;          // of t^-s from 1 to x
    double integral_inverse(double y) const;  // the x with integral(x) = y
    double weight(double x) const;            // x^-s
    bool surely_accepted(double k, double x) const;
    void make_steps();

    uint64_t n_;
    double exponent_;
    double integral_first_;     // lower end of the inverted range: integral(1.5) - weight(1)
    double integral_last_;      // upper end: integral(n + 0.5)
    double sure_distance_;      // below this distance from the rank no comparison is needed
    std::vector<double> head_;  // head_[k] = H(k, s)
    // Quantile steps: sums_[i] = H(ranks_[i], s), both rising, the last for rank n.
    std::vector<uint64_t> ranks_;
    std::vector<double> sums_;
};

}  // namespace spillway
