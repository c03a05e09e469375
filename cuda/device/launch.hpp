// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device/error.hpp"

// The only place where kernels are launched. SPILLWAY_CUDA_SYNC=1 in the environment waits after each launch, so that
// a failing kernel is named instead of whichever call comes next.

namespace spillway::cuda { inline namespace device {

namespace detail {

// `arguments` points at one value per parameter of the kernel, of exactly the parameter's type.
void launch_kernel(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void** arguments);

template <class Values, size_t... at>
void launch_values(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, Values& values,
                   std::index_sequence<at...>) {
    // One more than there are, as a kernel may have none.
    void* arguments[sizeof...(at) + 1] = {static_cast<void*>(&std::get<at>(values))..., nullptr};
    launch_kernel(kernel, grid, block, shared_bytes, stream, arguments);
}

}  // namespace detail

// Blocks of so many threads, of which each item has one.
inline dim3 grid_of_threads(uint64_t items, uint64_t block_threads) {
    return dim3(static_cast<unsigned>((items + block_threads - 1) / block_threads));
}

// Launches on the current device (Device::stream() makes it current) with `shared_bytes` of dynamic shared memory, any
// amount that the device allows a block to opt in to. A grid without blocks launches nothing. Throws Error for what the
// launch itself reports; what the kernel does wrong shows at a later call (or here, see above).
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, A&&... args) {
    static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
    static_assert((!std::is_reference_v<P> && ...), "a kernel cannot follow a reference to host memory");
    // Converted here, to the parameters' types: the launch copies bytes.
    std::tuple<std::remove_cv_t<P>...> values(std::forward<A>(args)...);
    detail::launch_values(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream, values,
                          std::index_sequence_for<P...>());
}

}}  // namespace spillway::cuda::device
