// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "tier/page_source.hpp"

namespace spillway::cuda { inline namespace tier {

// The addresses of a source's pages in GPU memory, by page id: what kernels follow that are given ids. 8 bytes a page:
// 64 GiB in pages of 64 KiB are 8 MiB.
class PageDirectory {
  public:
    explicit PageDirectory(Device& device) : device_(device) {}

    // After pages were taken, before kernels get them: copies the directory if it has changed, in the order of
    // Device::stream(). Kernels on other streams that still use the last one must be ordered behind and before it, as
    // with any block of memory.
    void update(const PageSource& source);

    uint8_t* const* addresses() const { return block_.as<uint8_t*>(); }
    uint64_t pages() const { return pages_; }

  private:
    Device& device_;
    Allocation block_;
    uint64_t pages_ = 0;
    uint64_t changes_ = 0;  // of the source; 0: there are no pages yet
};

}}  // namespace spillway::cuda::tier
