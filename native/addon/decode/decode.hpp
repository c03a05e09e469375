// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "addon/decode/fields.hpp"
#include "generate/generate_spec.hpp"
#include "model/stage_spec.hpp"
#include "transfer/file_batches.hpp"
#include "transfer/source.hpp"

namespace spillway::addon {

// JS objects of src/native/binding.ts -> native structs. Every field is checked for presence, type and range, unknown
// fields are refused; errors are kInvalidArgument with the path of the field. What the checks promise is memory
// safety: no index, width or count that passed can make the engine read outside of its data.

TypePtr decode_column(const Field& field);
std::vector<TypePtr> decode_columns(const Field& field);

// references: every Uint8Array of a memory batch, to be kept alive (and checked for detachment) with the source.
SourceSpec decode_source(const Napi::Value& value, std::vector<Napi::Value>& references);

FileBatchesSpec decode_file_batches(const Napi::Value& value);

// Path of a dictionary node: a column, then child indices. Checks that it exists and is a dictionary.
std::vector<int32_t> decode_dictionary_path(const Napi::Value& value, const std::vector<TypePtr>& columns);

// Reads the fields of a key of that type but for its column, and finishes.
KeySpec decode_key(Fields& fields, const ColumnType& type);
std::vector<KeySpec> decode_keys(const Field& field, const std::vector<TypePtr>& columns);

struct PartitionPlan {
    std::vector<TypePtr> columns;
    PartitionSpec spec;
};
// How rows of the pass lie in memory.
RowLayout layout_of(const PartitionPlan& plan);
PartitionPlan decode_partition(const Napi::Value& value, const std::string& name);
JoinSpec decode_join(const Napi::Value& value);
JoinSpec decode_join(Fields fields);
ArrayJoinSpec decode_array_join(const Napi::Value& value);
GroupBySpec decode_group_by(const Napi::Value& value);

struct PipelinePlan {
    std::vector<TypePtr> columns;                   // of the source
    std::vector<std::vector<TypePtr>> key_columns;  // of each join
    PipelineSpec spec;
};
PipelinePlan decode_pipeline(const Napi::Value& value);

// Sides of a stage against each other: fields and partitions that do not exist.
void check_join_sides(const PartitionSpec& build, const RowLayout& build_layout, const PartitionSpec& probe,
                      const RowLayout& probe_layout, const JoinSpec& spec);
// Have keys of both sides the same bytes where they are equal?
bool same_key_area(const RowLayout& build, const RowLayout& probe);
void check_array_join(const PartitionSpec& build, const PartitionSpec& probe, const ArrayJoinSpec& spec);
// Joins and outputs against the build sides and the source. Returns the types of the outputs.
void check_pipeline_columns(const std::vector<TypePtr>& planned, const std::vector<TypePtr>& actual);
std::vector<TypePtr> check_pipeline(const PipelinePlan& plan, const std::vector<const RowLayout*>& builds);
void check_fields(const GroupBySpec& spec, const PartitionSpec& partition);
// The plan's idea of the columns against what the source has.
void check_columns(const std::vector<TypePtr>& planned, const std::vector<TypePtr>& actual);
void check_schedule(const std::vector<int32_t>& schedule, int32_t radix_bits);

GenerateSpec decode_generate(const Napi::Value& value);
// A table of a benchmark, and the ids that its dictionaries have in a file: none where its text is plain.
struct GeneratedTable {
    TableSpec spec;
    std::vector<int64_t> dictionary_ids;
};
GeneratedTable decode_generated_table(const Napi::Value& value);
BenchmarkTable decode_benchmark_table(const Napi::Value& benchmark, const Napi::Value& table);

// Limits of plan fields that only guard against nonsense; the planner stays far below.
constexpr int32_t kWorkersMax = 4096;
constexpr int32_t kRadixBitsMax = 14;      // as PartitionSpec says
constexpr int32_t kDecimalDigitsMax = 76;  // of a 256-bit decimal

}  // namespace spillway::addon
