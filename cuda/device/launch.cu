// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device/launch.hpp"

namespace spillway::cuda { inline namespace device { namespace detail {

namespace {

std::string kernel_name(const void* kernel) {
#if CUDART_VERSION >= 12030
    const char* mangled = nullptr;
    const cudaError_t asked = cudaFuncGetName(&mangled, kernel);
    discard(asked);
    if (asked == cudaSuccess && mangled != nullptr) {
        int status = 0;
        const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                          std::free);
        return status == 0 ? name.get() : mangled;
    }
#endif
    return "a kernel";
}

bool waits_after_launch() {
    static const bool waits = [] {
        const char* value = std::getenv("SPILLWAY_CUDA_SYNC");
        return value != nullptr && std::strcmp(value, "1") == 0;
    }();
    return waits;
}

// How much dynamic shared memory each kernel may have on each device. Without asking for more it is 48 KiB less the
// kernel's static shared memory. Asking takes microseconds, so it is done when a kernel first needs more.
class SharedMemoryGrants {
  public:
    void require(const void* kernel, size_t shared_bytes) {
        int ordinal = 0;
        SPILLWAY_CUDA_CHECK(cudaGetDevice(&ordinal));
        std::lock_guard<std::mutex> lock(mutex_);
        const auto [grant, is_new] = granted_bytes_.try_emplace({kernel, ordinal}, 0);
        if (is_new) {
            cudaFuncAttributes attributes{};
            const cudaError_t asked = cudaFuncGetAttributes(&attributes, kernel);
            if (asked != cudaSuccess) granted_bytes_.erase(grant);
            check(asked, "cudaFuncGetAttributes");
            grant->second = static_cast<size_t>(attributes.maxDynamicSharedSizeBytes);
        }
        if (shared_bytes <= grant->second) return;
        check(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
            ("giving " + kernel_name(kernel) + " " + std::to_string(shared_bytes) + " bytes of shared memory").c_str());
        grant->second = shared_bytes;
    }

  private:
    std::mutex mutex_;
    std::map<std::pair<const void*, int>, size_t> granted_bytes_;
};

SharedMemoryGrants& grants() {
    static SharedMemoryGrants* const all = new SharedMemoryGrants;  // never destroyed: threads may outlive main()
    return *all;
}

void check_launch(cudaError_t status, const void* kernel, const char* doing) {
    if (status != cudaSuccess) check(status, (doing + kernel_name(kernel)).c_str());
}

}  // namespace

void launch_kernel(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void** arguments) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    if (shared_bytes > 0) grants().require(kernel, shared_bytes);
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    check_launch(cudaLaunchKernelExC(&config, kernel, arguments), kernel, "launching ");
    if (waits_after_launch()) check_launch(cudaStreamSynchronize(stream), kernel, "running ");
}
}}}  // namespace spillway::cuda::device::detail
