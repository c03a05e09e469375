// SPDX-License-Identifier: Apache-2.0
#include "coherent_join/coherent_policy.hpp"
#include "coherent_join/region_places.hpp"
#include "device/launch.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

// Bytes: 64 per region.
__global__ void __launch_bounds__(kPlaceThreads)
    move_regions(const uint64_t* shift, uint64_t regions, int bits, uint64_t* begin, uint64_t* end, uint64_t* front,
                 uint64_t* back) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kPlaceThreads + threadIdx.x;
    if (i >= regions) return;
    const uint64_t rows = shift[i >> bits];
    for (uint64_t* const place : {begin, end, front, back}) place[i] += rows;
}

}  // namespace

RegionPlaces::RegionPlaces(Device& device, const uint64_t* counts, uint64_t partitions, int bits)
    : device_(device),
      numbers_(2 * partitions),
      bits_(bits),
      regions_(Regions::open(device, counts, numbers_ << bits)),
      first_(numbers_ + 1) {
    SPILLWAY_CUDA_CHECK(cudaMemcpy2DAsync(first_.data(), sizeof(uint64_t), regions_.begin.as(),
                                          sizeof(uint64_t) << bits, sizeof(uint64_t), first_.size(),
                                          cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
}

void RegionPlaces::place(Parcels& parcels, const std::vector<uint64_t>& first) {
    std::vector<uint64_t> shift(numbers_);
    for (uint64_t number = 0; number < numbers_; ++number) shift[number] = first[number] - first_[number];  // mod 2^64
    const uint64_t regions = numbers_ << bits_;
    const dim3 blocks(static_cast<unsigned>((regions + kPlaceThreads - 1) / kPlaceThreads));
    launch(move_regions, blocks, dim3(kPlaceThreads), 0, device_.stream(), parcels.send(shift), regions, bits_,
           regions_.begin.as<uint64_t>(), regions_.end.as<uint64_t>(), front(), back());
}

}}  // namespace spillway::cuda::coherent_join
