// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>
#include <vector>

#include "addon/jobs/delivered_memory.hpp"
#include "addon/jobs/engine.hpp"
#include "base/job_control.hpp"
#include "base/machine.hpp"
#include "cpu/radix_partition/partitioned_rows.hpp"
#include "cuda/api/table_spec.hpp"
#include "device/gpu_device.hpp"
#include "device/gpu_list.hpp"
#include "device/gpu_stream.hpp"
#include "executor/cpu/key_statistics.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"
#include "transfer/arrow_file_writer.hpp"
#include "transfer/file_batches.hpp"

namespace spillway::addon {

// Native structs -> JS objects of src/native/binding.ts.

// Where the blocks of batches go when JS drops them.
struct BatchTarget {
    std::weak_ptr<Engine> engine;
    std::shared_ptr<DeliveredMemory> delivered;
    // Every batch stays alive until the result is complete (a table): V8 hears of the bytes only then. It would collect
    // garbage for every few batches, find none and take the cores that the join needs (a fifth of its time).
    bool kept = false;
    // It counts among those that readers keep (Engine::read_bytes).
    bool read = false;
};

// The buffers become external ArrayBuffers (no copy) that give their block back (to the engine if it still lives) when
// they are collected; copied where the embedder forbids external buffers, where they are small, and above 4 GiB, where
// Node has no external buffers.
Napi::Value encode_batch(Napi::Env env, OutputBatch&& batch, const BatchTarget& target);
// May an ArrayBuffer of a batch that is so long be an external one?
bool is_external_length(uint64_t bytes);

Napi::Value encode_count(Napi::Env env, uint64_t count);
// batches: a FileBatchesHandle.
Napi::Value encode_file_batches(Napi::Env env, const Napi::Value& batches, uint64_t held_bytes, const FileFacts& facts);
Napi::Value encode_sizes(Napi::Env env, PartitionedRows& rows);
// is_unsigned: min and max are bit patterns of unsigned numbers.
Napi::Value encode_statistics(Napi::Env env, const KeyStatistics& statistics, bool is_unsigned);
Napi::Value encode_progress(Napi::Env env, const JobControl& control);
Napi::Value encode_memory(Napi::Env env, const Engine& engine);
Napi::Value encode_delivered(Napi::Env env, const DeliveredMemory& delivered, const Engine& engine);
Napi::Value encode_machine(Napi::Env env, const Machine& machine);
Napi::Value encode_devices(Napi::Env env, const std::vector<Gpu>& devices);
Napi::Object encode_gpu_memory(Napi::Env env, const GpuMemory& memory);
// {build, probe}
Napi::Value encode_sides(Napi::Env env, const uint64_t (&of)[2]);
Napi::Value encode_gpu_report(Napi::Env env, const cuda::TableReport& report);
// partitions: as planned.
Napi::Value encode_join_report(Napi::Env env, const cuda::StreamReport& report, size_t partitions);
Napi::Value encode_group_report(Napi::Env env, const cuda::StreamReport& report, size_t partitions);
Napi::Value encode_blocks(Napi::Env env, const std::vector<FileBlock>& blocks);

}  // namespace spillway::addon
