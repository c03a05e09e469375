// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "addon/jobs/stage_job.hpp"
#include "executor/dictionary_batch.hpp"

namespace spillway::addon {

// The source behind a handle, with its JS memory checked: how every stage that reads one begins.
inline std::shared_ptr<SourceHandle> use_source(const Napi::Value& handle) {
    auto source = get_handle<SourceHandle>(handle);
    source->memory.check();
    return source;
}

// Loads the dictionary of a node and copies its values to a batch of one column. Any thread.
inline OutputBatch dictionary_of(const SourceHandle& source, const std::vector<int32_t>& path, Job& job) {
    MemoryBudget& budget = job.engine->budget;
    source.source->load_dictionaries({path.front()}, budget, job.control);
    return dictionary_batch(*source.source->dictionary(path), budget, job.control);
}

// The GPU of a runtime; throws kInvalidArgument where none was opened.
inline std::shared_ptr<OpenedGpu> gpu_of(const Engine& engine) {
    if (engine.gpu) return engine.gpu;
    throw Error(ErrorCode::kInvalidArgument, "this runtime has opened no GPU; call openDevice first");
}

// The plan may be made again, and the stage that replaces this one use the same sink: nothing was sent, or memory ran
// short, or the GPU refused what it found, and whoever reads the sink has to tell what it was given.
inline bool leaves_sink_open(const Error& error) {
    if (error.code() == ErrorCode::kBudgetTooSmall) return true;
    for (const auto& [name, text] : error.details()) {
        const bool plans_again = text == "tableFull" || text == "notDense" || text == "longText" ||
                                 text == "deviceUnsupported" || text == "queueFull";
        if (name == "reason" && plans_again) return true;
        if (name == "delivered" && text == "nothing") return true;
    }
    return false;
}

// What a stage tells that was stopped because its rows were all that were wanted: their number, and nothing else.
template <class Result>
void set_rows(Result& result, uint64_t rows) {
    if constexpr (std::is_integral_v<Result>) {
        result = static_cast<Result>(rows);
    } else if constexpr (std::is_same_v<Result, cuda::StreamReport>) {
        result.result_rows = rows;
    } else {
        result.rows = rows;
    }
}

// Runs a stage that writes to a sink; encode(env, result) makes its result.
template <class Stage, class EncodeResult>
Napi::Value start_sink_stage(Napi::Env env, const std::shared_ptr<Job>& job, const StageSink& sink, Stage stage,
                             EncodeResult encode) {
    return start_stage(env, job, [sink, stage, encode]() -> Encode {
        decltype(stage(*sink)) result{};
        try {
            result = stage(*sink);
        } catch (...) {
            const std::optional<uint64_t> rows = sink.rows_at_limit();
            if (!rows) {
                if (!leaves_sink_open(current_error())) sink.end();
                throw;
            }
            set_rows(result, *rows);
        }
        sink.end();
        return [result, encode](Napi::Env js) { return encode(js, result); };
    });
}

// The same for a stage whose result is the number of rows.
template <class Stage>
Napi::Value start_sink_stage(Napi::Env env, const std::shared_ptr<Job>& job, const StageSink& sink, Stage stage) {
    return start_sink_stage(env, job, sink, stage,
                            [](Napi::Env js, auto rows) { return encode_count(js, static_cast<uint64_t>(rows)); });
}

}  // namespace spillway::addon
