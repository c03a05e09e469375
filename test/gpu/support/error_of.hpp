// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/error.hpp"

namespace spillway::gpu_test {

// What the body throws, to look at more of it than its code.
template <class Body>
cuda::Error error_of(Body&& body) {
    try {
        body();
    } catch (const cuda::Error& error) {
        return error;
    }
    return cuda::Error(cuda::ErrorCode::kInternal, "nothing was thrown");
}

}  // namespace spillway::gpu_test
