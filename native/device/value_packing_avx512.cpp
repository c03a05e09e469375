// SPDX-License-Identifier: Apache-2.0
// Compiled with -mavx512f -mavx512dq on x86-64 (CMakeLists.txt): include nothing here that defines inline functions.
#include "device/value_packing_kernels.hpp"

namespace spillway {

const ValuePackingKernels* avx512_packing_kernels() {
#if defined(__AVX512DQ__)
    return &kValuePackingKernels<64>;
#else
    return nullptr;
#endif
}

}  // namespace spillway
