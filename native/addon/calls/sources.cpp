// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "addon/calls/calls.hpp"
#include "addon/calls/stage_use.hpp"
#include "addon/decode/decode.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "addon/jobs/job_registry.hpp"
#include "addon/jobs/stage_job.hpp"
#include "executor/cpu/key_statistics.hpp"
#include "executor/cpu/text_lengths.hpp"
#include "executor/device/value_samples.hpp"
#include "transfer/file_table.hpp"

namespace spillway::addon {

namespace {

Napi::Value open_source(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    std::vector<Napi::Value> references;
    auto spec = std::make_shared<SourceSpec>(decode_source(info[1], references));
    auto owned = std::make_unique<SourceHandle>(engine);
    owned->memory = JsMemory(references);
    owned->is_small = spec->batches.size() <= SourceHandle::kFewBatches && spec->files == nullptr &&
                      spec->paths.empty() && spec->dictionaries.empty();
    const auto handle = registry_of(info.Env())->share(std::move(owned));
    if (handle->is_small) {
        // No file is opened: some checks of numbers, 1 us for each batch.
        handle->source = std::make_unique<Source>(std::move(*spec));
        return resolved(info.Env(), make_handle(info.Env(), handle));
    }
    return start_stage(info.Env(), std::make_shared<Job>(engine), [handle, spec]() -> Encode {
        handle->source = std::make_unique<Source>(std::move(*spec));
        return [handle](Napi::Env env) { return make_handle(env, handle); };
    });
}

// The source has the columns and no rows: those are fed to the stage that reads the stream, one source after the other.
Napi::Value open_stream(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    std::vector<Napi::Value> references;
    SourceSpec spec = decode_source(info[1], references);
    auto owned = std::make_unique<SourceHandle>(engine);
    owned->source = std::make_unique<Source>(std::move(spec));
    owned->stream = std::make_unique<SourceStream>();
    return make_handle(info.Env(), registry_of(info.Env())->share(std::move(owned)));
}

std::shared_ptr<SourceHandle> use_stream(const Napi::Value& value) {
    auto handle = use_source(value);
    if (handle->stream) return handle;
    throw Error(ErrorCode::kInvalidArgument, "this source is no stream; it was not made by openStream",
                {{"handle", "source"}});
}

Napi::Value stream_wanted(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto handle = use_stream(info[1]);
    const auto wait = [job, handle]() -> Encode {
        const bool wanted = handle->stream->wait_for_reader(job->control);
        return [wanted](Napi::Env env) -> Napi::Value { return Napi::Boolean::New(env, wanted); };
    };
    return start_stage(info.Env(), job, wait, StageMemory::kNone);
}

Napi::Value feed_stream(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto handle = use_stream(info[1]);
    const auto source = use_source(info[2]);
    check_columns(handle->source->columns(), source->source->columns());
    const auto feed = [job, handle, source]() -> Encode {
        const bool read = handle->stream->push(*source->source, job->control);
        return [read](Napi::Env env) -> Napi::Value { return Napi::Boolean::New(env, read); };
    };
    return start_stage(info.Env(), job, feed, StageMemory::kNone);
}

Napi::Value end_stream(const Napi::CallbackInfo& info) {
    use_stream(info[0])->stream->end();
    return info.Env().Undefined();
}

Napi::Value stop_stream(const Napi::CallbackInfo& info) {
    use_stream(info[0])->stream->close();
    return info.Env().Undefined();
}

// Which promise fromTable can give for memory that JS transfers in mid-query.
Napi::Value kept_memory(const Napi::CallbackInfo& info) {
    const char* const names[] = {"always", "unlessResized", "never"};
    return Napi::String::New(info.Env(), names[static_cast<size_t>(memory_kept(info.Env()))]);
}

Napi::Value check_memory(const Napi::CallbackInfo& info) {
    use_source(info[0]);
    return info.Env().Undefined();
}

Napi::Value close_source(const Napi::CallbackInfo& info) {
    close_handle<SourceHandle>(info[0]);
    return info.Env().Undefined();
}

// What one readRanges may ask for: the caller groups its ranges, and one Arrow message may take 256 MiB.
constexpr int64_t kRangeBytesMax = int64_t{1} << 30;

// What one keyPairs may ask for: counts of a sampled row's key take up to 64 bytes, which no budget knows.
constexpr int64_t kPairSampleRowsMax = int64_t{1} << 20;

struct ByteRange {
    int64_t offset = 0;
    int64_t bytes = 0;
};

std::vector<ByteRange> decode_ranges(const Field& offsets, const Field& lengths) {
    const std::vector<int64_t> starts = offsets.counts(1);
    const std::vector<int64_t> sizes = lengths.counts(1);
    if (starts.size() != sizes.size()) throw lengths.error("as long as 'offsets'");
    std::vector<ByteRange> ranges(starts.size());
    int64_t total = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
        if (sizes[i] > kRangeBytesMax - total) throw lengths.error("at most 1 GiB in all");
        total += sizes[i];
        ranges[i] = {starts[i], sizes[i]};
    }
    return ranges;
}

Napi::Value copied_bytes(Napi::Env env, const std::vector<uint8_t>& bytes) {
    auto copy = Napi::Uint8Array::New(env, bytes.size());
    std::copy(bytes.begin(), bytes.end(), copy.Data());
    return copy;
}

Napi::Value read_ends(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    const std::string path = Field(info[1], "path").string();
    const int64_t head_bytes = Field(info[2], "headBytes").integer(0, kRangeBytesMax);
    const int64_t tail_bytes = Field(info[3], "tailBytes").integer(0, kRangeBytesMax);
    const auto read = [path, head_bytes, tail_bytes]() -> Encode {
        const FileTable files({path});
        const int64_t file_bytes = files.bytes(0);
        std::vector<uint8_t> head(static_cast<size_t>(std::min(file_bytes, head_bytes)));
        std::vector<uint8_t> tail(static_cast<size_t>(std::min(file_bytes, tail_bytes)));
        const auto tail_size = static_cast<int64_t>(tail.size());
        files.read(0, 0, head.data(), static_cast<int64_t>(head.size()));
        files.read(0, file_bytes - tail_size, tail.data(), tail_size);
        // After the reads: a file that changed under them is not the one that a later look finds.
        const std::string identity = files.identity(0);
        const std::string stamp = files.stamp(0);  // before the reads: what came later is not what was read
        return [file_bytes, identity, stamp, head = std::move(head),
                tail = std::move(tail)](Napi::Env env) -> Napi::Value {
            auto ends = Napi::Object::New(env);
            ends.Set("fileBytes", static_cast<double>(file_bytes));
            ends.Set("identity", identity.empty() ? env.Null() : Napi::String::New(env, identity));
            ends.Set("stamp", stamp);
            ends.Set("head", copied_bytes(env, head));
            ends.Set("tail", copied_bytes(env, tail));
            return ends;
        };
    };
    return start_stage(info.Env(), std::make_shared<Job>(engine), read, StageMemory::kNone);
}

// The pieces of a file one behind the other, on one thread of the engine: a read that finds its page in memory takes
// 1 us, the way through libuv's pool and back 50 us.
Napi::Value read_ranges(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    const std::string path = Field(info[1], "path").string();
    const auto ranges = decode_ranges(Field(info[2], "offsets"), Field(info[3], "lengths"));
    const auto job = std::make_shared<Job>(engine);
    const auto read = [job, path, ranges]() -> Encode {
        const FileTable files({path});
        int64_t total = 0;
        for (const ByteRange& range : ranges) total += range.bytes;
        std::vector<uint8_t> bytes(static_cast<size_t>(total));
        uint8_t* out = bytes.data();
        for (const ByteRange& range : ranges) {
            job->control.check();
            files.read(0, range.offset, out, range.bytes);
            out += range.bytes;
        }
        return [bytes = std::move(bytes)](Napi::Env env) { return copied_bytes(env, bytes); };
    };
    return start_stage(info.Env(), job, read, StageMemory::kNone);
}

Napi::Value source_dictionary(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto source = use_source(info[1]);
    const auto path = decode_dictionary_path(info[2], source->source->columns());
    return start_stage(info.Env(), job, [job, source, path]() -> Encode {
        auto batch = std::make_shared<OutputBatch>(dictionary_of(*source, path, *job));
        return [batch, engine = job->engine](Napi::Env env) {
            BatchTarget target{engine, registry_of(env)->delivered_memory()};
            return encode_batch(env, std::move(*batch), target);
        };
    });
}

// Unsigned 64-bit keys come as the bit pattern of a signed number.
bool is_unsigned_key(const std::vector<KeySpec>& keys, const std::vector<TypePtr>& columns) {
    if (keys.size() != 1) return false;
    const ColumnType& type = *columns[keys[0].column];
    return (type.layout == Layout::kDictionary ? type.children[0] : type).order == Order::kUnsigned;
}

Napi::Value key_statistics_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto source = use_source(info[1]);
    const auto& columns = source->source->columns();
    const auto keys = decode_keys(Field(info[2], "keys"), columns);
    Fields options(info[3], "options");
    const int64_t sample_rows = options["sampleRows"].integer(0, kSafeInteger);
    const bool exact_range = options["exactRange"].boolean();
    const int32_t workers = options["workers"].int32(1, kWorkersMax);
    options.finish();
    const bool is_unsigned = is_unsigned_key(keys, columns);
    return start_stage(info.Env(), job, [=]() -> Encode {
        const KeyStatistics statistics =
            key_statistics(*source->source, keys, sample_rows, exact_range, workers, job->engine->budget, job->control);
        return [=](Napi::Env env) { return encode_statistics(env, statistics, is_unsigned); };
    });
}

Napi::Value key_pairs_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto left = use_source(info[1]);
    const auto left_keys = decode_keys(Field(info[2], "leftKeys"), left->source->columns());
    const auto right = use_source(info[3]);
    const auto right_keys = decode_keys(Field(info[4], "rightKeys"), right->source->columns());
    const int64_t sample_rows = Field(info[5], "sampleRows").integer(1, kPairSampleRowsMax);
    return start_stage(info.Env(), job, [=]() -> Encode {
        const SampledPairs sampled = sampled_pairs(*left->source, left_keys, *right->source, right_keys, sample_rows,
                                                   job->engine->budget, job->control);
        return [sampled](Napi::Env env) -> Napi::Value {
            auto told = Napi::Object::New(env);
            told.Set("pairs", sampled.pairs);
            told.Set("pieces", static_cast<double>(sampled.pieces));
            return told;
        };
    });
}

// Numbers of columns of a type that fits; `wanted` says which.
template <class Fits>
std::vector<int32_t> decode_columns_of(const Napi::Value& value, const Source& source, const char* wanted,
                                       Fits&& fits) {
    const auto& types = source.columns();
    std::vector<int32_t> columns;
    for (const Field& item : Field(value, "columns").array()) {
        columns.push_back(item.int32(0, static_cast<int32_t>(types.size()) - 1));
        if (!fits(*types[static_cast<size_t>(columns.back())])) throw item.error(wanted);
    }
    return columns;
}

Napi::Value longest_texts_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto source = use_source(info[1]);
    const auto is_text = [](const ColumnType& type) {
        return (type.layout == Layout::kDictionary ? type.children[0] : type).is_bytes();
    };
    const auto columns = decode_columns_of(info[2], *source->source, "a column of text or bytes", is_text);
    const int32_t workers = Field(info[3], "workers").int32(1, kWorkersMax);
    return start_stage(info.Env(), job, [=]() -> Encode {
        const std::vector<uint64_t> longest =
            longest_texts(*source->source, columns, workers, job->engine->budget, job->control);
        return [longest](Napi::Env env) -> Napi::Value {
            auto told = Napi::Array::New(env, longest.size());
            for (uint32_t i = 0; i < longest.size(); ++i) told.Set(i, static_cast<double>(longest[i]));
            return told;
        };
    });
}

Napi::Value sample_values_call(const Napi::CallbackInfo& info) {
    const auto job = get_handle<Job>(info[0]);
    const auto source = use_source(info[1]);
    const auto can_pack = [](const ColumnType& type) {
        return type.layout == Layout::kFixed && cuda::can_pack(static_cast<uint32_t>(type.byte_width));
    };
    const auto columns =
        decode_columns_of(info[2], *source->source, "a column of values of 1, 2, 4, 8 or 16 bytes", can_pack);
    return start_stage(info.Env(), job, [=]() -> Encode {
        const std::vector<ValueSample> samples =
            sample_values(*source->source, columns, job->engine->budget, job->control);
        return [samples](Napi::Env env) -> Napi::Value {
            auto told = Napi::Array::New(env, samples.size());
            for (uint32_t i = 0; i < samples.size(); ++i) {
                auto sample = Napi::Object::New(env);
                sample.Set("bits", samples[i].bits);
                sample.Set("magnitude", samples[i].magnitude);
                told.Set(i, sample);
            }
            return told;
        };
    });
}

}  // namespace

void export_source_calls(Napi::Object exports) {
    export_async<open_source>(exports, "openSource");
    export_sync<open_stream>(exports, "openStream");
    export_async<stream_wanted>(exports, "streamWanted");
    export_async<feed_stream>(exports, "feedStream");
    export_sync<end_stream>(exports, "endStream");
    export_sync<stop_stream>(exports, "stopStream");
    export_sync<close_source>(exports, "closeSource");
    export_sync<kept_memory>(exports, "keptMemory");
    export_sync<check_memory>(exports, "checkMemory");
    export_async<read_ends>(exports, "readEnds");
    export_async<read_ranges>(exports, "readRanges");
    export_async<source_dictionary>(exports, "sourceDictionary");
    export_async<key_statistics_call>(exports, "keyStatistics");
    export_async<key_pairs_call>(exports, "keyPairs");
    export_async<sample_values_call>(exports, "sampleValues");
    export_async<longest_texts_call>(exports, "longestTexts");
}

}  // namespace spillway::addon
