// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <mutex>

#include "api/plugin.h"
#include "device/error.hpp"

namespace spillway::cuda { inline namespace device {

namespace {

// The context of a device is shared by the whole process, so its loss is remembered for the process and not by a
// Device: a second Device of the same GPU would meet the same error.
struct Losses {
    std::atomic<bool> lost[SPILLWAY_CUDA_DEVICES_MAX] = {};
    std::mutex mutex;
    std::string reason[SPILLWAY_CUDA_DEVICES_MAX];
};

Losses& losses() {
    // Never destroyed: threads may still ask while the process exits.
    static Losses* const all = new Losses;
    return *all;
}

// cudaGetDevice may itself fail after a sticky error, so the blame goes to what this thread made current last.
thread_local int current_ordinal = -1;

bool is_known(int ordinal) noexcept {
    return ordinal >= 0 && ordinal < SPILLWAY_CUDA_DEVICES_MAX;
}

int blamed_device() noexcept {
    if (current_ordinal >= 0) return current_ordinal;
    int ordinal = 0;
    return cudaGetDevice(&ordinal) == cudaSuccess ? ordinal : 0;
}

std::string describe(cudaError_t status, const char* what) {
    return std::string(what) + " failed: " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
}

void mark_lost(int ordinal, cudaError_t status, const char* what) {
    if (!is_known(ordinal)) return;
    std::lock_guard<std::mutex> lock(losses().mutex);
    if (losses().lost[ordinal].load(std::memory_order_relaxed)) return;  // the first error is the cause
    losses().reason[ordinal] = "GPU " + std::to_string(ordinal) +
                               " can no longer be used by this process: " + describe(status, what) +
                               "; restart the process to use this GPU again";
    losses().lost[ordinal].store(true, std::memory_order_release);
}

// cudaGetLastError() clears what is not sticky.
void settle(cudaError_t status, const char* what) {
    if (is_sticky(status)) {
        mark_lost(blamed_device(), status, what);
    } else {
        cudaGetLastError();
    }
}

}  // namespace

bool is_sticky(cudaError_t status) {
    // Numbers, as some names are younger than the oldest toolkit. These are the errors of which the runtime's
    // documentation says that the process must be relaunched, and those of a broken device or context.
    switch (static_cast<int>(status)) {
        case 214:  // cudaErrorECCUncorrectable
        case 220:  // cudaErrorNvlinkUncorrectable
        case 226:  // cudaErrorContained
        case 700:  // cudaErrorIllegalAddress
        case 702:  // cudaErrorLaunchTimeout
        case 709:  // cudaErrorContextIsDestroyed
        case 710:  // cudaErrorAssert
        case 714:  // cudaErrorHardwareStackError
        case 715:  // cudaErrorIllegalInstruction
        case 716:  // cudaErrorMisalignedAddress
        case 717:  // cudaErrorInvalidAddressSpace
        case 718:  // cudaErrorInvalidPc
        case 719:  // cudaErrorLaunchFailure
        case 721:  // cudaErrorTensorMemoryLeak
        case 806:  // cudaErrorMpsRpcFailure
        case 810:  // cudaErrorMpsClientTerminated
        case 911:  // cudaErrorExternalDevice
            return true;
        default:
            return false;
    }
}

void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    settle(status, what);
    // A cause found by an asynchronous kernel is told by whichever call comes next, so a lost device tells the first.
    const std::string lost = is_sticky(status) ? lost_reason(blamed_device()) : std::string();
    const bool memory = status == cudaErrorMemoryAllocation;
    Error error(memory ? ErrorCode::kOutOfMemory : ErrorCode::kCuda, lost.empty() ? describe(status, what) : lost);
    error.cuda_error = static_cast<int>(status);
    error.device_lost = is_sticky(status);
    throw error;
}

void discard(cudaError_t status) noexcept {
    if (status == cudaSuccess) return;
    try {
        settle(status, "a call that frees or waits");
    } catch (...) {
        // No memory for the text: the next call meets the sticky error again.
    }
}

void set_device(int ordinal) {
    const std::string lost = lost_reason(ordinal);
    if (!lost.empty()) {
        Error error(ErrorCode::kCuda, lost);
        error.device_lost = true;
        throw error;
    }
    current_ordinal = ordinal;
    SPILLWAY_CUDA_CHECK(cudaSetDevice(ordinal));
}

bool try_set_device(int ordinal) noexcept {
    if (is_lost(ordinal)) return false;
    current_ordinal = ordinal;
    const cudaError_t status = cudaSetDevice(ordinal);
    discard(status);
    return status == cudaSuccess;
}

bool is_lost(int ordinal) noexcept {
    return is_known(ordinal) && losses().lost[ordinal].load(std::memory_order_acquire);
}

std::string lost_reason(int ordinal) {
    if (!is_lost(ordinal)) return {};
    std::lock_guard<std::mutex> lock(losses().mutex);
    return losses().reason[ordinal];
}

}}  // namespace spillway::cuda::device
