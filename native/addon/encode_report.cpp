// SPDX-License-Identifier: Apache-2.0
#include "addon/encode.hpp"

namespace spillway::addon {

Napi::Value encode_gpu_report(Napi::Env env, const GpuReport& report) {
    const auto number = [env](uint64_t value) { return Napi::Number::New(env, static_cast<double>(value)); };
    auto object = Napi::Object::New(env);
    object.Set("elapsedMs", report.elapsed_ms);
    object.Set("transformMs", report.transform_ms);
    object.Set("matchMs", report.match_ms);
    object.Set("materializeMs", report.materialize_ms);
    object.Set("movedBytes", number(report.moved_bytes));
    object.Set("peakBytes", number(report.peak_bytes));
    object.Set("algorithm", report.algorithm);
    return object;
}

}  // namespace spillway::addon
