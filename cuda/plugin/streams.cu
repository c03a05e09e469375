// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "baseline_join/baseline_join.hpp"
#include "coherent_join/coherent_join.hpp"
#include "coherent_join/coherent_shape.hpp"
#include "device/guard.hpp"
#include "memory_model/baseline_memory.hpp"
#include "plugin/functions.hpp"
#include "plugin/stream_handle.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "staged_join/staged_join.hpp"

namespace spillway::cuda { inline namespace plugin {

namespace {

// Whoever is on the other side of the border may have written any bytes: a number that no enum has, a list longer than
// its room. What an operator cannot do it refuses itself.

void check(const StagedJoinSpec& spec) {
    require(spec.kind.emit <= JoinEmit::kProbeOnce, "a join gives rows of no known side");
    require(spec.result <= JoinResultKind::kRows, "a join has no known kind of result");
    for (const ColumnWidths& widths : spec.widths) require(widths.is_valid(), "a side has too many columns");
    require(spec.output.is_valid(), "a join has too many result columns");
    for (const JoinOutputColumn& column : spec.output) {
        require(column.side <= OutputSide::kPresence, "a result column is of no known side");
    }
}

void check(const CoherentJoinSpec& spec) {
    check(spec.join);
    require(spec.options.partitioner <= FarPartitioner::kBest, "a join has no known partitioner");
}

void check(const BaselineJoinSpec& spec) {
    check(spec.join);
    require(static_cast<int>(spec.algorithm) < kBaselineJoins, "a join is of no known kind");
    require(static_cast<int>(spec.stream_probe) < kStreamProbes, "a build side is kept in no known way");
    require(spec.join.kind.inner(), "this algorithm makes inner joins alone");
    // What its memory is counted by, before it looks at any of them itself.
    const StreamSizes& sizes = spec.join.sizes;
    require(is_key_width(spec.join.key_bytes), "keys have 4 or 8 bytes");
    require(sizes.radix_bits >= 0 && sizes.radix_bits <= kFirstPassBitsMax, "a first pass has 0 to 12 radix bits");
    require(sizes.chunk_rows > 0 && sizes.chunk_slots > 0, "chunks have rows, and a slot at least");
}

void check(const StagedGroupBySpec& spec) {
    require(spec.sizes.pre_aggregation <= PreAggregation::kNever, "chunks are aggregated in no known way");
    require(spec.widths.is_valid(), "a group-by has too many columns");
    require(spec.aggregates.is_valid(), "a group-by has too many aggregates");
    for (const StagedAggregate& aggregate : spec.aggregates) {
        require(aggregate.kind <= GroupAggregateKind::kFirst, "an aggregate is of no known kind");
        require(aggregate.value_kind <= ValueKind::kFloat, "an aggregate's values are of no known kind");
        require(aggregate.decided_by == kNothingDecides || aggregate.decided_by < spec.widths.size(),
                "an aggregate is decided by a column that chunks do not have");
    }
}

template <class Widths>
std::vector<uint32_t> list_of(const Widths& widths) {
    return {widths.begin(), widths.end()};
}

StreamShape shape_of(const StagedJoinSpec& spec) {
    StreamShape shape;
    shape.key_bytes = spec.key_bytes;
    for (const int side : {kBuildSide, kProbeSide}) shape.inputs[side] = spec.widths[side];
    shape.gives_rows = spec.result == JoinResultKind::kRows;
    if (shape.gives_rows) shape.outputs = list_of(spec.output_widths());
    shape.sizes = spec.sizes;
    return shape;
}

StreamShape shape_of(const CoherentJoinSpec& spec) {
    StreamShape shape = shape_of(spec.join);
    shape.refuses = spec.options.perfect_hash;
    return shape;
}

StreamShape shape_of(const BaselineJoinSpec& spec) {
    StreamShape shape = shape_of(spec.join);
    shape.refuses = true;
    return shape;
}

BaselineAlgorithm algorithm_of(BaselineJoin join) {
    switch (join) {
        case BaselineJoin::kStreamProbe:
            return BaselineAlgorithm::kStreamProbe;
        case BaselineJoin::kNpjFar:
            return BaselineAlgorithm::kNpjFar;
        case BaselineJoin::kCpuPartitioned:
            return BaselineAlgorithm::kCpuPartitioned;
    }
    throw Error(ErrorCode::kInvalid, "a join is of no known kind");
}

BaselineSpec spec_of(const BaselineJoinSpec& spec) {
    BaselineSpec made;
    made.join = spec.join;
    made.build_rows = spec.build_rows;
    made.shares = spec.shares;
    made.threads = spec.threads;
    made.stream_probe = spec.stream_probe;
    made.overlap = spec.overlap;
    return made;
}

StreamShape shape_of(const StagedGroupBySpec& spec) {
    StreamShape shape;
    shape.key_bytes = spec.key_bytes;
    shape.inputs[0] = spec.widths;
    shape.gives_rows = true;
    shape.outputs = list_of(spec.output_widths());
    shape.sizes = spec.sizes;
    return shape;
}

// nullptr: the plan wants no rows there, or nobody has opened one.
Device* peer_for(const spillway_cuda_gpu& gpu, const StreamSizes& sizes) {
    return sizes.peer_bytes == 0 ? nullptr : gpu.peer.get();
}

// make(device, disk) makes the operator, which takes no more than so many bytes. It refuses what its shape cannot be
// told of.
template <class Spec, class Make>
void begin(spillway_cuda_gpu* gpu, const Spec& spec, uint64_t bytes, const char* purpose, const DiskCalls* disk,
           spillway_cuda_stream** stream, const Make& make) {
    PoolClaim memory = gpu->device.memory().claim(bytes, purpose);
    const PoolClaim::User user(memory);
    auto begun = std::make_unique<spillway_cuda_stream>(gpu, disk, std::move(memory));
    begun->work = make(gpu->device, begun->disk.usable());
    begun->shape = shape_of(spec);
    *stream = begun.release();
}

// With the device to itself.
template <class Body>
void with_device(spillway_cuda_gpu* gpu, spillway_cuda_stream** stream, spillway_cuda_status* status,
                 const Body& body) {
    *stream = nullptr;
    guarded(status, [&] {
        const std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        body();
    });
}

}  // namespace

void begin_staged_join(spillway_cuda_gpu* gpu, const StagedJoinSpec* spec, const DiskCalls* disk,
                       spillway_cuda_stream** stream, spillway_cuda_status* status) {
    with_device(gpu, stream, status, [&] {
        check(*spec);
        const uint64_t bytes = StagedJoin::device_bytes(*spec);
        begin(gpu, *spec, bytes, "a join out of core", disk, stream, [&](Device& device, SpillDisk* to) {
            return std::make_unique<StagedJoin>(device, *spec, peer_for(*gpu, spec->sizes), to);
        });
    });
}

void begin_coherent_join(spillway_cuda_gpu* gpu, const CoherentJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status) {
    bool mapping = false;
    with_device(gpu, stream, status, [&] {
        check(*spec);
        CoherentShape::make(*spec, gpu->device);  // refuses what cannot work anywhere
        mapping = spec->options.mapped;
        const uint64_t bytes = std::min(spec->options.device_bytes, gpu->device.memory().free_bytes());
        begin(gpu, *spec, bytes, "a join out of core", nullptr, stream, [&](Device& device, SpillDisk*) {
            return std::make_unique<CoherentJoin>(device, *spec, peer_for(*gpu, spec->join.sizes));
        });
    });
    // What is refused now is what this machine's driver cannot map.
    if (mapping && status->code == SPILLWAY_CUDA_INVALID) status->code = SPILLWAY_CUDA_UNSUPPORTED;
}

void begin_staged_group_by(spillway_cuda_gpu* gpu, const StagedGroupBySpec* spec, const DiskCalls* disk,
                           spillway_cuda_stream** stream, spillway_cuda_status* status) {
    with_device(gpu, stream, status, [&] {
        check(*spec);
        const uint64_t bytes = StagedGroupBy::device_bytes(*spec);
        begin(gpu, *spec, bytes, "a group-by out of core", disk, stream, [&](Device& device, SpillDisk* to) {
            return std::make_unique<StagedGroupBy>(device, *spec, peer_for(*gpu, spec->sizes), to);
        });
    });
}

void begin_baseline_join(spillway_cuda_gpu* gpu, const BaselineJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status) {
    bool running = false;
    with_device(gpu, stream, status, [&] {
        check(*spec);
        const uint64_t bytes = baseline_join_memory(*spec).device_bytes;
        running = true;
        begin(gpu, *spec, bytes, "a join out of core", nullptr, stream, [&](Device& device, SpillDisk*) {
            return open_baseline_join(device, algorithm_of(spec->algorithm), spec_of(*spec));
        });
    });
    // Its arguments were checked before: what is refused now is something that it cannot do on this machine.
    if (running && status->code == SPILLWAY_CUDA_INVALID) status->code = SPILLWAY_CUDA_UNSUPPORTED;
}

// Its destructors wait for the device, which others may use meanwhile but not take memory of in between.
void free_stream(spillway_cuda_stream* stream) {
    if (stream == nullptr) return;
    guarded(nullptr, [&] {
        spillway_cuda_gpu* const gpu = stream->child.gpu();
        const std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        delete stream;
    });
}

}}  // namespace spillway::cuda::plugin
