// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "api/plugin.h"
#include "device/error.hpp"

namespace spillway::cuda { inline namespace device {

inline void set_status(spillway_cuda_status& status, int32_t code, const char* text) {
    status.code = code;
    std::snprintf(status.text, sizeof status.text, "%s", text);
}

inline void set_status(spillway_cuda_status& status, const Error& error) {
    const auto code_of = [](ErrorCode code) {
        switch (code) {
            case ErrorCode::kOutOfMemory:
                return SPILLWAY_CUDA_OUT_OF_MEMORY;
            case ErrorCode::kCuda:
                return SPILLWAY_CUDA_FAILED;
            case ErrorCode::kCancelled:
                return SPILLWAY_CUDA_CANCELLED;
            case ErrorCode::kInvalid:
                return SPILLWAY_CUDA_INVALID;
            case ErrorCode::kOverflow:
                return SPILLWAY_CUDA_OVERFLOW;
            case ErrorCode::kInternal:
                break;
        }
        return SPILLWAY_CUDA_INTERNAL;
    };
    set_status(status, code_of(error.code()), error.what());
    status.cuda_error = error.cuda_error;
    status.device_lost = error.device_lost ? 1 : 0;
    status.host_memory = error.tier == Tier::kHost ? 1 : 0;
    status.limit_reached = error.limit_reached ? 1 : 0;
    status.wanted_bytes = error.wanted_bytes;
    status.free_bytes = error.free_bytes;
    status.limit_bytes = error.limit_bytes;
}

// Runs the body of one function of the C interface: nothing may be thrown across it. Every operation's entry has one.
template <class Body>
void guarded(spillway_cuda_status* status, Body&& body) noexcept {
    spillway_cuda_status ignored;
    spillway_cuda_status& told = status == nullptr ? ignored : *status;
    std::memset(&told, 0, sizeof told);
    try {
        body();
    } catch (const Error& error) {
        set_status(told, error);
    } catch (const std::bad_alloc&) {
        set_status(told, SPILLWAY_CUDA_OUT_OF_MEMORY, "the system gave the GPU plugin no more host memory");
        told.host_memory = 1;
    } catch (const std::exception& error) {
        set_status(told, SPILLWAY_CUDA_INTERNAL, error.what());
    } catch (...) {
        set_status(told, SPILLWAY_CUDA_INTERNAL, "something unknown was thrown in the GPU plugin");
    }
}

}}  // namespace spillway::cuda::device
