// SPDX-License-Identifier: Apache-2.0
#include "sort_merge_join/radix_sort.cuh"

namespace spillway::cuda { inline namespace sort_merge_joins {

void radix_sort_8(Device& device, const KeysToSort& keys, const KeyBits& bits, const void* values, uint32_t value_width,
                  const SortedColumns& sorted) {
    radix_sort_keys<uint64_t>(device, keys, bits, values, value_width, sorted);
}

}}  // namespace spillway::cuda::sort_merge_joins
