// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "no_partitioning_join/key_extremes.cuh"
#include "no_partitioning_join/key_range.hpp"

namespace spillway::cuda { inline namespace no_partitioning_joins {

namespace {

template <class Key>
void find_extremes(Device& device, const DeviceRelation& relation, unsigned long long* least) {
    constexpr uint64_t kTileRows = static_cast<uint64_t>(kNpjThreads) * kRangeUnroll;
    const auto most = static_cast<uint64_t>(device.properties().multiprocessors) * kNpjBlocksPerMultiprocessor;
    const auto blocks = static_cast<unsigned>(std::min(most, (relation.rows + kTileRows - 1) / kTileRows));
    const KeyRows<Key> keys{static_cast<const Key*>(relation.key.data), relation.key_valid, relation.rows};
    launch(key_extremes_kernel<Key>, dim3(blocks), dim3(kNpjThreads), 0, device.stream(), keys, least);
}

template <class Key>
KeyRange range_of(const unsigned long long* least) {
    constexpr Key kTopBit = static_cast<Key>(Key{1} << (8 * sizeof(Key) - 1));
    const auto low = static_cast<Key>(least[0]);
    const auto high = static_cast<Key>(~static_cast<Key>(least[1]));
    const auto signed_low = static_cast<Key>(static_cast<Key>(least[2]) ^ kTopBit);
    const auto signed_high = static_cast<Key>(static_cast<Key>(~static_cast<Key>(least[3])) ^ kTopBit);
    const uint64_t span = static_cast<Key>(high - low);
    const uint64_t signed_span = static_cast<Key>(signed_high - signed_low);
    const uint64_t smaller = std::min(span, signed_span);
    return {span <= signed_span ? low : signed_low, smaller == ~uint64_t{0} ? smaller : smaller + 1};
}

}  // namespace

KeyRange find_key_range(Device& device, const DeviceRelation& relation) {
    if (relation.rows == 0) return {};
    const cudaStream_t stream = device.stream();
    unsigned long long least[kKeyExtremes] = {};
    const Allocation memory = device.memory().allocate(sizeof least, "range of the keys");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0xff, sizeof least, stream));
    const bool is_wide = relation.key.width == 8;
    if (is_wide) {
        find_extremes<uint64_t>(device, relation, memory.as<unsigned long long>());
    } else {
        find_extremes<uint32_t>(device, relation, memory.as<unsigned long long>());
    }
    const uint64_t valid_bytes = relation.key_valid == nullptr ? 0 : relation.rows / 8;
    count_moved(device, relation.rows * relation.key.width + valid_bytes);
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(least, memory.as(), sizeof least, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    if (least[0] == ~0ULL && least[1] == ~0ULL) return {};
    return is_wide ? range_of<uint64_t>(least) : range_of<uint32_t>(least);
}

}}  // namespace spillway::cuda::no_partitioning_joins
