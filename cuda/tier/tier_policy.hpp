// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device_policy.hpp"

// The numbers that tune cuda/tier.

namespace spillway::cuda { inline namespace tier {

// Stripes of an interleaved range. Kernels read and write ranges of 2 MiB and of 32 MiB stripes equally fast (H200,
// PCIe 5: 1:1 105 and 103 GB/s, 3:1 70 and 68.5 GB/s), while every stripe costs calls to create, map and allow it: 64
// GiB are 4,096 of these and 32,768 of the smallest. 2 MiB is what the driver maps at least.
constexpr uint64_t kStripeBytesMin = 2 * kMiB;
constexpr uint64_t kStripeBytesMax = 64 * kMiB;
constexpr uint64_t kStripeBytes = 16 * kMiB;

constexpr uint64_t kTierPageBytesMin = 64 * kKiB;
constexpr uint64_t kTierPageBytesMax = 2 * kMiB;

// Memory that a page pool takes at a time when a few pages are wanted. 256 MiB of host memory are pinned in 25 ms by 16
// threads; the smaller slabs of GPUs, which cost no time by the byte, leave less unused. Not measured yet.
constexpr uint64_t kHostSlabBytes = 256 * kMiB;
constexpr uint64_t kDeviceSlabBytes = 64 * kMiB;

// Copies that are timed when a peer is opened: the second of two behind each other hides the start of the first, which
// takes 10 us, 12 % of one over NVLink 4. With those that warm up they take 1 ms there, and 8 over PCIe 5. No less of
// them tells a rate.
constexpr uint64_t kPeerTrialBytes = 32 * kMiB;
constexpr uint64_t kPeerTrialBytesMin = 4 * kMiB;
constexpr int kPeerCopies = 2;
constexpr int kPeerTrials = 3;

}}  // namespace spillway::cuda::tier
