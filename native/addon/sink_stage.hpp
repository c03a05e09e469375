// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>

#include "addon/encode.hpp"
#include "addon/handle_types.hpp"
#include "addon/stage_job.hpp"

namespace spillway::addon {

// The plan may be made again, and the stage that replaces this one use the same sink: nothing was sent, or memory ran
// short and whoever reads the sink has to tell what it was given.
inline bool leaves_sink_open(const Error& error) {
    if (error.code() == ErrorCode::kBudgetTooSmall) return true;
    for (const auto& [name, text] : error.details()) {
        if (name == "reason" && (text == "tableFull" || text == "notDense")) return true;
        if (name == "delivered" && text == "nothing") return true;
    }
    return false;
}

// Runs a stage that writes to a sink; encode(env, result) makes its result.
template <class Stage, class EncodeResult>
Napi::Value start_sink_stage(Napi::Env env, const std::shared_ptr<Job>& job, const StageSink& sink, Stage stage,
                             EncodeResult encode) {
    return start_stage(env, job, [sink, stage, encode]() -> Encode {
        decltype(stage(*sink)) result{};
        try {
            result = stage(*sink);
        } catch (const Error& error) {
            if (!leaves_sink_open(error)) sink.end();
            throw;
        } catch (...) {
            sink.end();
            throw;
        }
        sink.end();
        return [result, encode](Napi::Env js) { return encode(js, result); };
    });
}

// ... whose result is the number of rows.
template <class Stage>
Napi::Value start_sink_stage(Napi::Env env, const std::shared_ptr<Job>& job, const StageSink& sink, Stage stage) {
    return start_sink_stage(env, job, sink, stage,
                            [](Napi::Env js, auto rows) { return encode_count(js, static_cast<uint64_t>(rows)); });
}

}  // namespace spillway::addon
