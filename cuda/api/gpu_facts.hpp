// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::cuda { inline namespace api {

// What the sizes of kernels and of their memory follow from.
struct GpuFacts {
    int compute_major = 0;
    int multiprocessors = 0;
    uint64_t shared_bytes_per_block_optin = 0;  // what a launch can raise it to
    uint64_t shared_bytes_per_multiprocessor = 0;
};

}}  // namespace spillway::cuda::api
