// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/api/table_spec.hpp"
#include "device/gpu_device.hpp"
#include "device/gpu_table.hpp"

struct spillway_cuda_lane;

namespace spillway {

namespace detail {

template <>
void GpuOwned<spillway_cuda_lane>::reset() noexcept;

}  // namespace detail

// One thread's way to copy parts of tables, beside those of other threads. Going away waits for its copies, so that the
// host memory may go next.
class GpuLane : public detail::GpuOwned<spillway_cuda_lane> {
  public:
    GpuLane() = default;
    // After all that the device was given before, such as the making of a table.
    static GpuLane open(GpuDevice& device);

    // Begin copies, whose memory must stay until wait() for the slot (below SPILLWAY_CUDA_LANE_SLOTS). Throw as
    // GpuDevice::upload.
    void send(size_t slot, GpuTable& to, const std::vector<cuda::TableCopy>& copies);
    void fetch(size_t slot, const GpuTable& from, const std::vector<cuda::TableCopy>& copies);
    void wait(size_t slot);

  private:
    using GpuOwned::GpuOwned;
};

}  // namespace spillway
