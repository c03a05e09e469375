// SPDX-License-Identifier: Apache-2.0
#include "generate/zipf.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace spillway {

namespace {

// Ranks summed one by one. The first term that the Euler-Maclaurin tail leaves out is about s^3 K^(-s-3) / 720 of it:
// far below double precision from K = 1024 on, for every exponent that leaves the tail any weight.
constexpr uint64_t kHeadRanks = 1024;

// Relative width of a quantile step: inside one, true probabilities differ by less than 0.5 % times the exponent, and
// 2^53 ranks need some 6000 steps.
constexpr double kStepGrowth = 1.005;

// expm1(t) / t and log1p(t) / t, continuous at 0: the two forms of the integral (power and logarithm) become one, and
// exponents near 1 lose no digits. Far from 0 the plain functions are as good (t costs at most 7 bits) and several
// times faster.
constexpr double kPlainFrom = 0x1p-7;
constexpr double kSeriesBelow = 1e-8;  // the quadratic term is below double precision

double expm1_over(double t) {
    if (std::fabs(t) > kPlainFrom) return (std::exp(t) - 1) / t;
    return std::fabs(t) > kSeriesBelow ? std::expm1(t) / t : 1 + t / 2;
}
double log1p_over(double t) {
    if (std::fabs(t) > kPlainFrom) return std::log(1 + t) / t;
    return std::fabs(t) > kSeriesBelow ? std::log1p(t) / t : 1 - t / 2;
}

}  // namespace

ZipfDistribution::ZipfDistribution(uint64_t n, double exponent) : n_(n), exponent_(exponent) {
    SPILLWAY_CHECK(n >= 1 && exponent >= 0);
    integral_first_ = integral(1.5) - 1;
    integral_last_ = integral(static_cast<double>(n) + 0.5);
    sure_distance_ = 2 - integral_inverse(integral(2.5) - weight(2));
    const uint64_t ranks = std::min(n, kHeadRanks);
    head_.resize(ranks + 1);
    for (uint64_t k = 1; k <= ranks; ++k) head_[k] = head_[k - 1] + weight(static_cast<double>(k));
    make_steps();
}

double ZipfDistribution::weight(double x) const {
    return std::exp(-exponent_ * std::log(x));
}

double ZipfDistribution::integral(double x) const {
    const double log_x = std::log(x);
    return expm1_over((1 - exponent_) * log_x) * log_x;
}

double ZipfDistribution::integral_inverse(double y) const {
    // The argument of the logarithm can fall below 0 by rounding only, at the far end of steep distributions.
    const double t = std::max(-1.0, (1 - exponent_) * y);
    return std::exp(log1p_over(t) * y);
}

// Spares most draws the exact comparison. With h the weight and H its integral, the comparison rejects
// x < k - 1/2 + d where H(k - 1/2 + d) = H(k + 1/2) - h(k). By the midpoint rule the right side is
// H(k - 1/2) + h''(y) / 24 with |y - k| < 1/2, and h falls, so d <= h''(k - 1/2) / (24 h(k)), which is at most
// s (s + 1) / (12 (k - 1/2)^2) as soon as (k / (k - 1/2))^s <= 2, that is from k - 1/2 = s on.
bool ZipfDistribution::surely_accepted(double k, double x) const {
    const double from = k - 0.5;
    return from >= exponent_ && (x - from) * 12 * from * from >= exponent_ * (exponent_ + 1);
}

uint64_t ZipfDistribution::sample(RandomSequence& random) const {
    for (;;) {
        const double u = integral_last_ + random_unit(random.next()) * (integral_first_ - integral_last_);
        const double x = integral_inverse(u);
        const double k = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(n_));
        if (k - x <= sure_distance_ || surely_accepted(k, x) || u >= integral(k + 0.5) - weight(k)) {
            return std::min(n_, static_cast<uint64_t>(k));
        }
    }
}

double ZipfDistribution::cumulative(uint64_t k) const {
    if (k < head_.size()) return head_[k];
    const auto first = static_cast<double>(head_.size() - 1);
    const auto last = static_cast<double>(k);
    const double at_first = weight(first);
    const double at_last = weight(last);
    const double slope = exponent_ / 12 * (at_first / first - at_last / last);
    return head_.back() + (integral(last) - integral(first)) + (at_last - at_first) / 2 + slope;
}

void ZipfDistribution::make_steps() {
    for (uint64_t rank = 0; rank < head_.size(); ++rank) {
        ranks_.push_back(rank);
        sums_.push_back(head_[rank]);
    }
    while (ranks_.back() < n_) {
        const double next = std::ceil(static_cast<double>(ranks_.back()) * kStepGrowth);
        const uint64_t rank = next < static_cast<double>(n_) ? static_cast<uint64_t>(next) : n_;
        ranks_.push_back(rank);
        // Steep distributions have tails below the resolution of the sum: rounding must not make it fall.
        sums_.push_back(std::max(sums_.back(), cumulative(rank)));
    }
}

uint64_t ZipfDistribution::quantile(double u) const {
    const double target = u * sums_.back();
    const auto above = std::upper_bound(sums_.begin() + 1, sums_.end(), target);
    if (above == sums_.end()) return n_;
    const auto step = static_cast<size_t>(above - sums_.begin());
    const uint64_t width = ranks_[step] - ranks_[step - 1];
    const double share = (target - sums_[step - 1]) / (sums_[step] - sums_[step - 1]);
    return ranks_[step - 1] + 1 + std::min(width - 1, static_cast<uint64_t>(share * static_cast<double>(width)));
}

}  // namespace spillway
