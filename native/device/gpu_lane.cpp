// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_lane.hpp"

#include "cuda/api/plugin.h"
#include "device/gpu_error.hpp"

namespace spillway {

template <>
void detail::GpuOwned<spillway_cuda_lane>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.close_lane(std::exchange(handle_, nullptr));
    open_.reset();
}

GpuLane GpuLane::open(GpuDevice& device) {
    spillway_cuda_status status{};
    spillway_cuda_lane* lane = nullptr;
    device.functions().open_lane(device.handle(), &lane, &status);
    check_gpu(status, device.ordinal());
    return GpuLane(device.shared(), lane);
}

void GpuLane::send(size_t slot, GpuTable& to, const std::vector<cuda::TableCopy>& copies) {
    spillway_cuda_status status{};
    open_->functions.send_rows(handle_, static_cast<uint32_t>(slot), to.handle_, copies.data(), copies.size(), &status);
    check_gpu(status, open_->ordinal);
}

void GpuLane::fetch(size_t slot, const GpuTable& from, const std::vector<cuda::TableCopy>& copies) {
    spillway_cuda_status status{};
    open_->functions.fetch_rows(handle_, static_cast<uint32_t>(slot), from.handle_, copies.data(), copies.size(),
                                &status);
    check_gpu(status, open_->ordinal);
}

void GpuLane::wait(size_t slot) {
    spillway_cuda_status status{};
    open_->functions.wait_lane(handle_, static_cast<uint32_t>(slot), &status);
    check_gpu(status, open_->ordinal);
}

}  // namespace spillway
