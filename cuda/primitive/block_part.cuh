// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::cuda { inline namespace primitive {

// Barriers of the first kThreads threads of a block, whole warps, which the others do not take part in. __syncthreads()
// has barrier 0, these have barrier 1.
template <int kThreads>
struct BlockPart {
    static_assert(kThreads % 32 == 0);

    __device__ static void wait() { asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory"); }
    // The same; has any of the threads a true `value`?
    __device__ static bool any(bool value) {
        uint32_t found;
        asm volatile(
            "{\n"
            ".reg .pred own, all;\n"
            "setp.ne.u32 own, %1, 0;\n"
            "bar.red.or.pred all, 1, %2, own;\n"
            "selp.u32 %0, 1, 0, all;\n"
            "}\n"
            : "=r"(found)
            : "r"(static_cast<uint32_t>(value)), "n"(kThreads)
            : "memory");
        return found != 0;
    }
};

}}  // namespace spillway::cuda::primitive
