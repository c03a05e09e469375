// SPDX-License-Identifier: Apache-2.0
#include "addon/calls/calls.hpp"
#include "addon/decode/device.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "cuda/api/error.hpp"
#include "cuda/memory_model/baseline_memory.hpp"
#include "cuda/memory_model/coherent_memory.hpp"
#include "cuda/memory_model/device_constants.hpp"
#include "cuda/memory_model/staged_memory.hpp"

namespace spillway::addon {

namespace {

// Every GPU has as much shared memory for a block; with less, what the model takes from it would wrap.
constexpr int64_t kBlockBytesMin = 48 << 10;

// What the model refuses is an argument of the caller's.
template <class Call>
auto told_by_model(const Call& call) {
    try {
        return call();
    } catch (const cuda::Error& error) {
        throw Error(ErrorCode::kInvalidArgument, std::string("no operator has such sizes: ") + error.what());
    }
}

Napi::Value staged_join_memory_call(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    Fields fields(info[0], "join");
    const cuda::StagedJoinMemory memory =
        told_by_model([&] { return cuda::staged_join_memory(decode_staged_join(fields, true)); });
    fields.finish();
    auto object = Napi::Object::New(env);
    object.Set("rowBytes", encode_sides(env, memory.row_bytes));
    object.Set("chunkBytes", encode_sides(env, memory.chunk_bytes));
    object.Set("packedBytes", encode_sides(env, memory.packed_bytes));
    object.Set("resultRowBytes", encode_count(env, memory.result_row_bytes));
    object.Set("resultBytes", encode_count(env, memory.result_bytes));
    object.Set("indexRows", encode_count(env, memory.index_rows));
    object.Set("markedRows", encode_count(env, memory.marked_rows));
    object.Set("deviceBytes", encode_count(env, memory.device_bytes));
    return object;
}

Napi::Value staged_group_by_memory_call(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    const cuda::StagedGroupByMemory memory =
        told_by_model([&] { return cuda::staged_group_by_memory(decode_out_of_core_group(info[0], "group", true)); });
    auto object = Napi::Object::New(env);
    object.Set("rowBytes", encode_count(env, memory.row_bytes));
    object.Set("chunkBytes", encode_count(env, memory.chunk_bytes));
    object.Set("packedBytes", encode_count(env, memory.packed_bytes));
    object.Set("resultBytes", encode_count(env, memory.result_bytes));
    object.Set("deviceBytes", encode_count(env, memory.device_bytes));
    return object;
}

Napi::Value coherent_join_memory_call(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    Fields fields(info[0], "join");
    cuda::CoherentJoinSpec spec;
    spec.join = decode_staged_join(fields, true);
    fields.finish();
    Fields options(info[1], "options");
    spec.rows[kBuildSide] = options["buildRows"].count();
    spec.rows[kProbeSide] = options["probeRows"].count();
    spec.options.chunks = static_cast<uint32_t>(options["chunks"].int32(1, kInt32Max));
    spec.options.page_rows = spec.join.sizes.page_rows;
    spec.options.partitioner = decode_partitioner(options["partitioner"]);
    spec.options.partition_grid = static_cast<uint32_t>(options["partitionBlocks"].int32(0, kBlocksMax));
    spec.options.split_bits = decode_split_bits(options["secondRadixBits"]);
    const uint64_t limit_bytes = options["limitBytes"].count(1);
    cuda::GpuFacts gpu;
    gpu.compute_major = options["computeMajor"].int32(1, kInt32Max);
    gpu.multiprocessors = options["multiprocessors"].int32(1, kInt32Max);
    gpu.shared_bytes_per_block_optin = options["blockBytes"].count(kBlockBytesMin);
    // The system keeps 1 KiB of each block.
    gpu.shared_bytes_per_multiprocessor = gpu.shared_bytes_per_block_optin + 1024;
    options.finish();
    const cuda::CoherentMemory memory =
        told_by_model([&] { return cuda::coherent_join_memory(spec, gpu, limit_bytes); });
    auto object = Napi::Object::New(env);
    object.Set("rowBytes", encode_count(env, memory.row_bytes()));
    object.Set("pageBytes", encode_count(env, memory.page_bytes()));
    object.Set("pages", encode_count(env, memory.pages));
    object.Set("splitBits", memory.split_bits);
    object.Set("takenBytes", encode_count(env, memory.taken_bytes()));
    return object;
}

Napi::Value baseline_join_memory_call(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    Fields fields(info[0], "join");
    cuda::BaselineJoinSpec spec;
    spec.join = decode_staged_join(fields, true);
    fields.finish();
    Fields options(info[1], "options");
    spec.algorithm = decode_baseline_join(options["algorithm"]);
    spec.build_rows = options["buildRows"].count();
    spec.shares = decode_interleave(options["interleave"]);
    spec.stream_probe = decode_stream_probe(options["streamProbe"]);
    options.finish();
    const cuda::BaselineMemory memory = told_by_model([&] { return cuda::baseline_join_memory(spec); });
    auto object = Napi::Object::New(env);
    object.Set("tableBytes", encode_count(env, memory.table_bytes));
    object.Set("stripeBytes", encode_count(env, memory.stripe_bytes));
    object.Set("stripes", encode_count(env, memory.stripes));
    object.Set("deviceStripes", encode_count(env, memory.device_stripes));
    object.Set("deviceBytes", encode_count(env, memory.device_bytes));
    return object;
}

Napi::Value device_constants_call(const Napi::CallbackInfo& info) {
    auto object = Napi::Object::New(info.Env());
    for (const auto& [name, value] : cuda::device_constants()) object.Set(name, value);
    return object;
}

Napi::Value device_algorithms_call(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    const auto list = [env](const char* const* names, int count) {
        auto array = Napi::Array::New(env);
        for (int i = 0; i < count; ++i) array.Set(array.Length(), names[i]);
        return array;
    };
    auto object = Napi::Object::New(env);
    object.Set("joins", list(cuda::kJoinAlgorithmNames, cuda::kJoinAlgorithms));
    object.Set("groupBys", list(cuda::kGroupByAlgorithmNames, cuda::kGroupByAlgorithms));
    object.Set("baselineJoins", list(cuda::kBaselineJoinNames, cuda::kBaselineJoins));
    object.Set("streamProbes", list(cuda::kStreamProbeNames, cuda::kStreamProbes));
    object.Set("partitioners", list(cuda::kFarPartitionerNames, cuda::kFarPartitioners));
    return object;
}

}  // namespace

void export_device_memory_calls(Napi::Object exports) {
    export_sync<staged_join_memory_call>(exports, "stagedJoinMemory");
    export_sync<staged_group_by_memory_call>(exports, "stagedGroupByMemory");
    export_sync<coherent_join_memory_call>(exports, "coherentJoinMemory");
    export_sync<baseline_join_memory_call>(exports, "baselineJoinMemory");
    export_sync<device_constants_call>(exports, "deviceConstants");
    export_sync<device_algorithms_call>(exports, "deviceAlgorithms");
}

}  // namespace spillway::addon
