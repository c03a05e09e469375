// SPDX-License-Identifier: Apache-2.0
#include "addon/encode/encode.hpp"

namespace spillway::addon {

Napi::Value encode_sides(Napi::Env env, const uint64_t (&of)[2]) {
    auto object = Napi::Object::New(env);
    object.Set("build", encode_count(env, of[cuda::kBuildSide]));
    object.Set("probe", encode_count(env, of[cuda::kProbeSide]));
    return object;
}

Napi::Value encode_gpu_report(Napi::Env env, const cuda::TableReport& report) {
    auto object = Napi::Object::New(env);
    object.Set("elapsedMs", report.elapsed_ms);
    object.Set("transformMs", report.transform_ms);
    object.Set("matchMs", report.match_ms);
    object.Set("materializeMs", report.materialize_ms);
    object.Set("movedBytes", encode_count(env, report.moved_bytes));
    object.Set("peakBytes", encode_count(env, report.peak_bytes));
    object.Set("algorithm", report.algorithm);
    return object;
}

Napi::Object encode_gpu_memory(Napi::Env env, const GpuMemory& memory) {
    auto object = Napi::Object::New(env);
    object.Set("limitBytes", encode_count(env, memory.limit_bytes));
    object.Set("usedBytes", encode_count(env, memory.used_bytes));
    object.Set("peakBytes", encode_count(env, memory.peak_bytes));
    object.Set("freeBytes", encode_count(env, memory.free_bytes));
    return object;
}

Napi::Value encode_join_report(Napi::Env env, const cuda::StreamReport& report, size_t partitions) {
    auto object = Napi::Object::New(env);
    object.Set("rows", encode_count(env, report.result_rows));
    object.Set("h2dBytes", encode_count(env, report.h2d_bytes));
    object.Set("savedBytes", encode_count(env, report.saved_bytes));
    object.Set("d2hBytes", encode_count(env, report.d2h_bytes));
    object.Set("d2hSavedBytes", encode_count(env, report.result_saved_bytes));
    object.Set("spilledRows", encode_sides(env, report.spilled_rows));
    object.Set("spilledBytes", encode_sides(env, report.spilled_bytes));
    object.Set("peerBytes", encode_count(env, report.peer_bytes));
    object.Set("diskWrittenBytes", encode_count(env, report.disk_written_bytes));
    object.Set("diskReadBytes", encode_count(env, report.disk_read_bytes));
    object.Set("partitions", encode_count(env, partitions));
    object.Set("residentPartitions", encode_count(env, report.resident_partitions));
    object.Set("buildMs", report.input_ms[cuda::kBuildSide]);
    object.Set("probeMs", report.input_ms[cuda::kProbeSide]);
    object.Set("spilledMs", report.spilled_ms);
    object.Set("peakBytes", encode_count(env, report.peak_bytes));
    object.Set("droppedRows", encode_count(env, report.dropped_rows));
    return object;
}

Napi::Value encode_group_report(Napi::Env env, const cuda::StreamReport& report, size_t partitions) {
    auto object = Napi::Object::New(env);
    object.Set("rows", encode_count(env, report.result_rows));
    object.Set("h2dBytes", encode_count(env, report.h2d_bytes));
    object.Set("savedBytes", encode_count(env, report.saved_bytes));
    object.Set("d2hBytes", encode_count(env, report.d2h_bytes));
    object.Set("d2hSavedBytes", encode_count(env, report.result_saved_bytes));
    object.Set("partialRows", encode_count(env, report.partial_rows));
    object.Set("chunks", encode_count(env, report.chunks));
    object.Set("groupedChunks", encode_count(env, report.grouped_chunks));
    object.Set("compactedRows", encode_count(env, report.compacted_rows));
    object.Set("spilledRows", encode_count(env, report.spilled_rows[0]));
    object.Set("spilledBytes", encode_count(env, report.spilled_bytes[0]));
    object.Set("peerBytes", encode_count(env, report.peer_bytes));
    object.Set("diskWrittenBytes", encode_count(env, report.disk_written_bytes));
    object.Set("diskReadBytes", encode_count(env, report.disk_read_bytes));
    object.Set("partitions", encode_count(env, partitions));
    object.Set("residentPartitions", encode_count(env, report.resident_partitions));
    object.Set("readMs", report.input_ms[0]);
    object.Set("residentMs", report.resident_ms);
    object.Set("spilledMs", report.spilled_ms);
    object.Set("peakBytes", encode_count(env, report.peak_bytes));
    return object;
}

}  // namespace spillway::addon
