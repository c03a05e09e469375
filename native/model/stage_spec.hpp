// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/row_layout.hpp"

namespace spillway {

// What TypeScript decided for each stage. Plain values, decoded and range-checked by addon/decode. No defaults
// that tune anything live here: every number comes from the plan.

struct PartitionSpec {
    std::vector<KeySpec> keys;
    std::vector<int32_t> carry;        // columns whose values later stages need; kRowNumberColumn allowed
    std::vector<int32_t> carry_bytes;  // of byte strings that lie in the row itself (RowLayout::make)
    NullKeys null_keys = NullKeys::kDrop;
    int32_t radix_bits = 0;  // 0 .. 14: fan-out 2^bits, taken from the top of the hash
    uint64_t page_bytes = 0;
    uint64_t pool_bytes = 0;         // pages kept in memory by this partitioner
    uint64_t spill_run_bytes = 0;    // rows of one partition that are written (and read back) together, raw
    uint64_t spill_write_bytes = 0;  // encoded rows that one system call writes, about
    bool spill = false;              // false: running out of pool_bytes is an error (the plan was wrong)
    bool pack_spilled = true;
    bool force_spill = false;  // tests: every full page goes to disk
    int64_t morsel_rows = 0;
    int32_t workers = 1;
    uint64_t hash_mask = ~0ULL;  // tests: 0 sends every row to partition 0 / slot 0
};

enum class HashingScheme : uint8_t { kLinearProbing, kBucketChaining, kPerfect };

enum class JoinEmit : uint8_t {
    kPairs,      // a row per match (inner and outer joins)
    kBuildOnce,  // build rows that have a match (semi)
    kProbeOnce,  // probe rows that have a match (semi)
};

enum class OutputSide : uint8_t { kBuild, kProbe, kEither /* coalesced key: probe if there, else build */ };

struct JoinOutput {
    OutputSide side = OutputSide::kBuild;
    int32_t build_field = -1;  // index into that side's carry list
    int32_t probe_field = -1;
};

struct JoinSpec {
    JoinEmit emit = JoinEmit::kPairs;
    bool anti = false;                  // kBuildOnce / kProbeOnce: rows *without* a match
    bool keep_unmatched_build = false;  // kPairs
    bool keep_unmatched_probe = false;
    HashingScheme scheme = HashingScheme::kLinearProbing;
    std::vector<JoinOutput> outputs;
    std::vector<int32_t> schedule;   // partition numbers in the order to visit; the NULL partition is implied
    int32_t second_radix_bits = 0;   // in-memory pass inside a co-partition (fixed-width rows only)
    uint64_t table_bytes = 0;        // hash table + build rows in memory at once, all workers together
    uint64_t build_chunk_bytes = 0;  // a co-partition's build side above this is joined in chunks
    uint64_t perfect_range_max = 0;  // kPerfect: largest (max key - min key + 1) of a partition
    int64_t probe_split_rows = 0;    // probe sides above this are shared by several workers
    int32_t workers = 1;
    uint64_t hash_mask = ~0ULL;
};

// A join whose build side is no more than a set of dense integer keys: result columns come from the probe side.
struct ArrayJoinSpec {
    JoinEmit emit = JoinEmit::kPairs;   // kPairs: build keys must be unique; kProbeOnce
    bool anti = false;                  // kProbeOnce: rows *without* a match
    bool keep_unmatched_probe = false;  // kPairs
    std::vector<int32_t> outputs;       // indices into the probe side's carry list
    uint64_t first_key = 0;             // smallest key that the bitmap has a bit for, as a normalized word
    uint64_t key_values = 1;            // how many values it has bits for, from there on
    int32_t build_workers = 1;          // each fills a bitmap of its own
    int32_t workers = 1;
};

// A column of the rows on their way through a pipeline.
struct PipelineColumn {
    int32_t join = -1;   // that found the build row which has it; -1: the source
    int32_t column = 0;  // of the source; else index into the carry list of that build side
};

// A join of a pipeline: rows come, and go on with the build rows of their key. `spec` has no outputs of its own, and
// emits kPairs or kProbeOnce: what comes out is decided row by row.
struct PipelineJoin {
    std::vector<PipelineColumn> key_columns;
    std::vector<KeySpec> keys;             // KeySpec::column: index into key_columns
    NullKeys null_keys = NullKeys::kKeep;  // kKeep: NULL has no partner; kEqual
    JoinSpec spec;
};

// Values of one integer key, both ends included.
struct KeyInterval {
    int64_t first = 0;
    int64_t last = 0;
};

// The build side of one join of a pipeline does not fit at once: the source is read once for each interval of its key,
// past the tables of the build rows in it.
struct PipelinePasses {
    size_t join = 0;
    std::vector<KeyInterval> intervals;
};

// Joins whose tables stay in memory, one behind the other: the rows of a source stream through all of them.
struct PipelineSpec {
    std::vector<PipelineJoin> joins;
    std::vector<PipelineColumn> outputs;
    std::optional<PipelinePasses> passes;
    int64_t morsel_rows = 0;
    int32_t workers = 1;
};

enum class AggregateKind : uint8_t { kCountRows, kCount, kSum, kMin, kMax, kMean, kFirst, kAny, kCountDistinct };

struct AggregateSpec {
    AggregateKind kind = AggregateKind::kCountRows;
    int32_t field = -1;  // index into the carry list; kCountRows: -1
    TypePtr result_type;
    int32_t decimal_scale = 0;  // kMean of a decimal: the float64 result is divided by 10^decimal_scale
};

enum class GroupByAlgorithm : uint8_t { kHash, kPartitioned };

struct GroupBySpec {
    std::vector<int32_t> key_fields;  // carry fields that reproduce the key columns, in output order
    std::vector<AggregateSpec> aggregates;
    int32_t row_number_field = -1;  // carry field of kRowNumberColumn, needed by kFirst
    std::vector<int32_t> schedule;  // kPartitioned
    uint64_t table_bytes = 0;
    int32_t workers = 1;
    uint64_t hash_mask = ~0ULL;
};

}  // namespace spillway
