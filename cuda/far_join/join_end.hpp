// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.hpp"
#include "device/host_clock.hpp"
#include "out_of_core/out_of_core_join.hpp"

// How the joins of this room end.
namespace spillway::cuda {

// Sources and sinks may go as soon as a join has thrown: before that it waits for copies from and to their memory.
template <class Work>
void wait_after_errors(Device& device, const Work& work) {
    device.make_current();
    try {
        work();
    } catch (...) {
        if (try_set_device(device.ordinal())) discard(cudaDeviceSynchronize());
        throw;
    }
}

// What baselines do not have.
inline void check_inner(const OutOfCoreSpec& spec) {
    if (!spec.kind.inner()) throw Error(ErrorCode::kInvalid, "this algorithm makes inner joins alone");
}
inline void check_sink(const OutOfCoreSpec& spec, const ResultSink* sink) {
    if ((sink != nullptr) != (spec.result == OutOfCoreResult::kRows)) {
        throw Error(ErrorCode::kInvalid, "a sink is for joins that give rows");
    }
}

}  // namespace spillway::cuda
