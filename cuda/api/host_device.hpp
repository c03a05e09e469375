// SPDX-License-Identifier: Apache-2.0
#pragma once

// In functions that kernels and plain C++ share.
#ifdef __CUDACC__
#define SPILLWAY_HOST_DEVICE __host__ __device__
#else
#define SPILLWAY_HOST_DEVICE
#endif
