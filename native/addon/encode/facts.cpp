// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "addon/encode/encode.hpp"

namespace spillway::addon {

namespace {

Napi::Value number(Napi::Env env, uint64_t value) {
    return Napi::Number::New(env, static_cast<double>(value));
}

Napi::Float64Array numbers(Napi::Env env, const std::vector<double>& values) {
    auto array = Napi::Float64Array::New(env, values.size());
    if (!values.empty()) std::memcpy(array.Data(), values.data(), values.size() * sizeof(double));
    return array;
}

Napi::Value strings(Napi::Env env, const std::vector<std::string>& values) {
    auto array = Napi::Array::New(env, values.size());
    for (uint32_t i = 0; i < values.size(); ++i) array.Set(i, Napi::String::New(env, values[i]));
    return array;
}

}  // namespace

Napi::Value encode_count(Napi::Env env, uint64_t count) {
    return number(env, count);
}

Napi::Value encode_file_batches(Napi::Env env, const Napi::Value& batches, uint64_t held_bytes,
                                const FileFacts& facts) {
    const auto counts = [env](const std::vector<int64_t>& values) {
        return numbers(env, std::vector<double>(values.begin(), values.end()));
    };
    auto null_nodes = Napi::Uint8Array::New(env, facts.node_has_nulls.size());
    std::copy(facts.node_has_nulls.begin(), facts.node_has_nulls.end(), null_nodes.Data());
    auto found = Napi::Object::New(env);
    found.Set("batches", batches);
    found.Set("heldBytes", number(env, held_bytes));
    found.Set("rows", number(env, static_cast<uint64_t>(facts.rows)));
    found.Set("largestBatchRows", number(env, static_cast<uint64_t>(facts.largest_batch_rows)));
    found.Set("columnBytes", counts(facts.column_bytes));
    found.Set("dictionaryBytes", counts(facts.dictionary_bytes));
    found.Set("dictionaryRows", counts(facts.dictionary_rows));
    found.Set("nodeHasNulls", null_nodes);
    return found;
}

Napi::Value encode_sizes(Napi::Env env, PartitionedRows& rows) {
    const int32_t count = rows.partition_count() + 1;
    std::vector<double> row_counts(count);
    std::vector<double> bytes(count);
    std::vector<double> spilled(count);
    for (int32_t p = 0; p < count; ++p) {
        const Partition& partition = rows.partition(p);
        row_counts[p] = static_cast<double>(partition.rows);
        bytes[p] = static_cast<double>(partition.bytes);
        spilled[p] = static_cast<double>(partition.spilled_bytes);
    }
    auto sizes = Napi::Object::New(env);
    sizes.Set("rows", numbers(env, row_counts));
    sizes.Set("bytes", numbers(env, bytes));
    sizes.Set("spilledBytes", numbers(env, spilled));
    sizes.Set("rowBytes", number(env, rows.layout().row_bytes));
    sizes.Set("totalRows", number(env, rows.total_rows()));
    sizes.Set("heldBytes", number(env, rows.pool().held_bytes()));
    return sizes;
}

Napi::Value encode_statistics(Napi::Env env, const KeyStatistics& statistics, bool is_unsigned) {
    const auto bound = [&](int64_t value) -> Napi::Value {
        if (!statistics.has_range) return env.Null();
        return is_unsigned ? Napi::BigInt::New(env, static_cast<uint64_t>(value)) : Napi::BigInt::New(env, value);
    };
    auto facts = Napi::Object::New(env);
    facts.Set("rows", number(env, statistics.rows));
    facts.Set("nulls", number(env, statistics.nulls));
    facts.Set("min", bound(statistics.min));
    facts.Set("max", bound(statistics.max));
    facts.Set("sampledRows", number(env, statistics.sampled_rows));
    facts.Set("sampledDistinct", number(env, statistics.sampled_distinct));
    facts.Set("pieceDistinct", number(env, statistics.piece_distinct));
    facts.Set("pieceRangeShare", Napi::Number::New(env, statistics.piece_range_share));
    facts.Set("heaviestShare", Napi::Number::New(env, statistics.heaviest_share));
    return facts;
}

Napi::Value encode_progress(Napi::Env env, const JobControl& control) {
    const auto total = [env](const std::atomic<uint64_t>& counter) {
        return number(env, counter.load(std::memory_order_relaxed));
    };
    auto progress = Napi::Object::New(env);
    progress.Set("rowsIn", total(control.rows_in));
    progress.Set("bytesIn", total(control.bytes_in));
    progress.Set("rowsOut", total(control.rows_out));
    progress.Set("bytesOut", total(control.bytes_out));
    progress.Set("spilledBytes", total(control.spilled_bytes));
    progress.Set("unspilledBytes", total(control.unspilled_bytes));
    progress.Set("partitionsDone", total(control.partitions_done));
    return progress;
}

Napi::Value encode_memory(Napi::Env env, const Engine& engine) {
    auto memory = Napi::Object::New(env);
    memory.Set("limitBytes", number(env, engine.budget.limit()));
    memory.Set("usedBytes", number(env, engine.budget.used()));
    memory.Set("peakBytes", number(env, engine.budget.peak()));
    memory.Set("relationBytes", number(env, engine.relation_bytes.load(std::memory_order_relaxed)));
    return memory;
}

Napi::Value encode_delivered(Napi::Env env, const DeliveredMemory& delivered, const Engine& engine) {
    auto memory = Napi::Object::New(env);
    memory.Set("aliveBytes", number(env, static_cast<uint64_t>(delivered.alive_bytes())));
    memory.Set("unusedBytes", number(env, engine.budget.unused()));
    memory.Set("readBytes", number(env, static_cast<uint64_t>(engine.read_bytes)));
    memory.Set("limitBytes", number(env, engine.budget.limit()));
    return memory;
}

Napi::Value encode_machine(Napi::Env env, const Machine& machine) {
    auto facts = Napi::Object::New(env);
    facts.Set("cores", number(env, machine.cores));
    facts.Set("physicalCores", number(env, machine.physical_cores));
    facts.Set("cpuModel", machine.cpu_model);
    facts.Set("architecture", machine.architecture);
    facts.Set("simd", strings(env, machine.simd));
    facts.Set("l1Bytes", number(env, machine.l1_bytes));
    facts.Set("l2Bytes", number(env, machine.l2_bytes));
    facts.Set("l3Bytes", number(env, machine.l3_bytes));
    facts.Set("cacheLineBytes", number(env, machine.cache_line_bytes));
    facts.Set("memoryBytes", number(env, machine.memory_bytes));
    facts.Set("availableBytes", number(env, machine.available_bytes));
    facts.Set("memoryLimitBytes", machine.memory_limit_bytes ? number(env, *machine.memory_limit_bytes) : env.Null());
    facts.Set("pageBytes", number(env, machine.page_bytes));
    facts.Set("hugePageBytes", number(env, machine.huge_page_bytes));
    facts.Set("transparentHugePages", machine.transparent_huge_pages);
    auto nodes = Napi::Array::New(env, machine.numa_nodes.size());
    for (uint32_t i = 0; i < machine.numa_nodes.size(); ++i) {
        auto node = Napi::Object::New(env);
        node.Set("node", Napi::Number::New(env, machine.numa_nodes[i].node));
        node.Set("cpus", machine.numa_nodes[i].cpus);
        node.Set("memoryBytes", number(env, machine.numa_nodes[i].memory_bytes));
        nodes.Set(i, node);
    }
    facts.Set("numaNodes", nodes);
    return facts;
}

Napi::Value encode_devices(Napi::Env env, const std::vector<Gpu>& devices) {
    auto array = Napi::Array::New(env, devices.size());
    for (uint32_t i = 0; i < devices.size(); ++i) {
        const Gpu& gpu = devices[i];
        auto device = Napi::Object::New(env);
        device.Set("kind", "gpu");
        device.Set("name", gpu.name);
        device.Set("ordinal", Napi::Number::New(env, gpu.ordinal));
        device.Set("pciBusId", gpu.pci_bus_id);
        device.Set("memoryBytes", number(env, gpu.memory_bytes));
        device.Set("multiprocessors", Napi::Number::New(env, gpu.multiprocessors));
        device.Set("computeCapability", gpu.compute_capability);
        device.Set("l2Bytes", number(env, gpu.l2_bytes));
        device.Set("pageableAccess", Napi::Boolean::New(env, gpu.pageable_access));
        device.Set("hostPageTables", Napi::Boolean::New(env, gpu.host_page_tables));
        device.Set("hostNumaMapping", Napi::Boolean::New(env, gpu.host_numa_mapping));
        device.Set("numaNode", Napi::Number::New(env, gpu.numa_node));
        device.Set("copyEngines", Napi::Number::New(env, gpu.copy_engines));
        device.Set("reason", gpu.reason.empty() ? env.Null() : Napi::String::New(env, gpu.reason));
        array.Set(i, device);
    }
    return array;
}

Napi::Value encode_blocks(Napi::Env env, const std::vector<FileBlock>& blocks) {
    auto array = Napi::Array::New(env, blocks.size());
    for (uint32_t i = 0; i < blocks.size(); ++i) {
        auto block = Napi::Object::New(env);
        block.Set("offset", number(env, static_cast<uint64_t>(blocks[i].offset)));
        block.Set("metadataBytes", number(env, static_cast<uint64_t>(blocks[i].metadata_bytes)));
        block.Set("bodyBytes", number(env, static_cast<uint64_t>(blocks[i].body_bytes)));
        array.Set(i, block);
    }
    return array;
}

}  // namespace spillway::addon
