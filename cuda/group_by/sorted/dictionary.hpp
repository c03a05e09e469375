// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace grouping {

// The number of each row's key among `distinct`, which has every key of the rows once: uint32_t[rows].
// Enqueued on the device's stream. At most kDictionaryKeysMax keys.
Allocation encode_keys(Device& device, const DeviceColumn& key, uint64_t rows, const void* distinct, uint64_t keys);

}}  // namespace spillway::cuda::grouping
