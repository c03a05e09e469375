// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::cuda { inline namespace tier {

// Where a page lives, in the order of how fast the GPU reaches it. Pages on disk are the engine's business: nothing
// here gives any, and the name is for directories that both sides read.
enum class PageTier : uint8_t { kDevice, kPeer, kHost, kDisk };

constexpr size_t kPageTiers = 4;
constexpr size_t kMemoryTiers = 3;  // all but the disk

constexpr size_t index_of(PageTier tier) {
    return static_cast<size_t>(tier);
}

}}  // namespace spillway::cuda::tier
