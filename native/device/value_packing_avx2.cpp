// SPDX-License-Identifier: Apache-2.0
// Compiled with -mavx2 on x86-64 (CMakeLists.txt): include nothing here that defines inline functions.
#include "device/value_packing_kernels.hpp"

namespace spillway {

const ValuePackingKernels* avx2_packing_kernels() {
#if defined(__AVX2__)
    return &kValuePackingKernels<32>;
#else
    return nullptr;
#endif
}

}  // namespace spillway
