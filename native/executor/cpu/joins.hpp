// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/radix_partition/partitioned_rows.hpp"
#include "model/batch_sink.hpp"
#include "model/stage_spec.hpp"
#include "transfer/source.hpp"
#include "transfer/source_stream.hpp"

namespace spillway {

// Joins two relations partitioned by the same radix bits, one co-partition after the other in spec.schedule; frees each
// as it goes. Returns the number of result rows. Stages of one co-partition: load the build side, build the table,
// stream the probe pages past it, emit what the join type keeps.
//  - Co-partitions whose build side and table fit a worker's share run side by side, one worker each.
//  - Larger ones, and those with very many probe rows, run one at a time with all workers on the probe side.
//  - A build side above spec.build_chunk_bytes is joined in chunks, the probe side being read once per chunk: equal
//    keys cannot be split by further radix bits, chunks always can.
uint64_t join_partitions(PartitionedRows& build, PartitionedRows& probe, const JoinSpec& spec, BatchSink& sink,
                         JobControl& control);

// No-partitioning join: the tables of all build partitions are made first and stay; the probe source streams past them
// and is never stored. For build sides that fit the cache or are small next to the probe side. With `stream` its
// sources are read, whose columns are those of `probe` and no dictionaries.
uint64_t join_streaming(PartitionedRows& build, Source& probe, SourceStream* stream, const PartitionSpec& probe_spec,
                        const JoinSpec& spec, BatchSink& sink, JobControl& control);

// Array join: a bit per value of the build side's dense key, set from the build source and looked up for the rows of
// the probe source; neither is stored. Build keys outside of the planned range, or equal ones where each match is a
// result row, end it before the first result row (an error whose detail `reason` is `notDense`: plan without it).
// Key columns are the only ones of the build side that are read; `keys` of both specs hold one integer of equal width.
uint64_t join_array(Source& build, const PartitionSpec& build_spec, Source& probe, const PartitionSpec& probe_spec,
                    const ArrayJoinSpec& spec, BatchSink& sink, MemoryBudget& budget, JobControl& control);

}  // namespace spillway
