// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "coherent_join/coherent_join.hpp"
#include "coherent_join/coherent_shape.hpp"
#include "coherent_join/far_side.hpp"
#include "coherent_join/gathered_join.hpp"
#include "coherent_join/second_pass_join.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

PageAreaSpec area_spec(Device& device, const CoherentJoinSpec& spec, const CoherentShape& shape, Device* peer) {
    PageAreaSpec area;
    area.page_bytes = shape.page_bytes();
    area.pages = shape.pages;
    area.shares = shape.shares(device, spec, peer);
    area.peer_limit_bytes = spec.options.shares.peer > 0 ? UINT64_MAX : spec.join.sizes.peer_bytes;
    area.host_limit_bytes = spec.join.sizes.spill_bytes;
    area.mapped = spec.options.mapped;
    return area;
}

// Inputs may lie there, whether pages do or not.
Device* reachable(Device& device, Device* peer) {
    if (peer != nullptr) enable_peer_access(device, *peer);
    return peer;
}

}  // namespace

// All that a join holds; members go in reverse order, so that what copies waits before its memory goes.
struct CoherentJoin::State {
    State(Device& opened, const CoherentJoinSpec& wanted, Device* peer)
        : spec(wanted),
          shape(CoherentShape::make(wanted, opened)),
          area(opened, area_spec(opened, wanted, shape, peer), reachable(opened, peer)),
          keeps_keyless{wanted.join.kind.keeps_unmatched_build(), wanted.join.kind.keeps_unmatched_probe()},
          split_counts(zeroed_split_counts(opened)),
          sides{{opened, area, shape.rows.row_bytes(), shape.page_rows, wanted.join.sizes.radix_bits},
                {opened, area, shape.rows.row_bytes(), shape.page_rows, wanted.join.sizes.radix_bits}} {
        const uint64_t more_bytes = std::max(shape.partition_bytes, shape.join_bytes);
        take_working_memory(opened, more_bytes, opened.memory().used_bytes());
    }

    // The second pass needs these counts of its rows; the first pass adds them up from 0.
    Allocation zeroed_split_counts(Device& device) const {
        if (!shape.second_pass) return {};
        const uint64_t counts = 2 * (shape.partitions << shape.split_bits);
        Allocation zeroed = device.memory().allocate(counts * sizeof(uint64_t), "histogram of the second pass");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(zeroed.as(), 0, zeroed.bytes(), device.stream()));
        return zeroed;
    }
    FarPartitionOptions options_for(int side, const DeviceProperties& properties) const {
        FarPartitionOptions options = first_pass_options(spec, properties);
        options.reversed_keys = spec.options.perfect_hash;
        if (!shape.second_pass) return options;
        options.split_bits = shape.split_bits;
        options.split_counts =
            split_counts.as<uint64_t>() + static_cast<uint64_t>(side) * (shape.partitions << shape.split_bits);
        return options;
    }

    const CoherentJoinSpec spec;
    const CoherentShape shape;
    PageArea area;
    const bool keeps_keyless[2];  // rows without a key are in the result
    Allocation split_counts;      // of both sides
    FarSide sides[2];
};

CoherentJoin::CoherentJoin(Device& device, const CoherentJoinSpec& spec, Device* peer) : StreamOperator(device) {
    device.make_current();
    state_ = std::make_unique<State>(device, spec, peer);
}
CoherentJoin::~CoherentJoin() = default;

void CoherentJoin::begin_input(int input, ChunkOwner& owner, ResultSink* sink) {
    if (input == kProbeSide) check_sink(state_->spec.join.result, sink);
    input_ = input;
    owner_ = &owner;
    sink_ = sink;
    clock_ = {};
}

void CoherentJoin::read(const Chunk& chunk) {
    device_.check_cancelled();
    FarSide& side = state_->sides[input_];
    if (chunk.rows > state_->spec.rows[input_] - side.rows()) {
        throw Error(ErrorCode::kInvalid, "a side has more rows than the join was made for");
    }
    if (chunk.columns.size() != state_->spec.join.widths[input_].size()) {
        throw Error(ErrorCode::kInvalid, "a chunk has other columns than the join was made for");
    }
    if (chunk.is_packed()) throw Error(ErrorCode::kInvalid, "kernels read chunks where they lie, and so not packed");
    FarRelation relation;
    relation.key = chunk.key;
    relation.payload = chunk.columns.empty() ? chunk.key : chunk.columns[0];
    relation.key_valid = chunk.key_valid;
    relation.rows = chunk.rows;
    relation.column_bytes = state_->spec.join.key_bytes;
    const bool keyless = chunk.key_valid != nullptr && state_->keeps_keyless[input_];
    const uint64_t keyless_rows = side.partition(relation, state_->options_for(input_, device_.properties()), keyless);
    if (!owner_->is_on_device()) {
        report_.h2d_bytes += chunk.rows * (chunk.columns.empty() ? 1 : 2) * relation.column_bytes;
        if (chunk.key_valid != nullptr) report_.h2d_bytes += (keyless ? 2 : 1) * validity_bytes(chunk.rows);
        report_.h2d_bytes += keyless_rows * relation.column_bytes;
    }
    if (!owner_->is_on_device()) owner_->release();
}

void CoherentJoin::end_input() {
    report_.rows[input_] = state_->sides[input_].rows();
    report_.input_ms[input_] = clock_.passed_ms();
    if (input_ == kProbeSide) join();
}

// Its memory is that of the first pass's buffers.
void CoherentJoin::join() {
    const HostClock joining;
    for (int side = 0; side < 2; ++side) {
        report_.spilled_rows[side] = state_->sides[side].far_rows();
        report_.spilled_bytes[side] = report_.spilled_rows[side] * state_->shape.row_bytes();
        report_.peer_bytes += state_->sides[side].peer_rows() * state_->shape.row_bytes();
    }
    report_.d2h_bytes = report_.spilled_bytes[kBuildSide] + report_.spilled_bytes[kProbeSide];
    const FarSide& build = state_->sides[kBuildSide];
    const FarSide& probe = state_->sides[kProbeSide];
    if (state_->shape.second_pass) {
        SecondPassJoin join(device_, state_->spec, state_->shape, state_->area.base(), build, probe,
                            state_->split_counts.as<const uint64_t>());
        join.run(report_);
        stages_ = join.stages();
    } else {
        GatheredJoin join(device_, state_->spec, state_->shape, state_->area.base(), build, probe);
        join.run(sink_, report_);
        stages_ = join.stages();
    }
    report_.spilled_ms = joining.passed_ms();
}

uint64_t CoherentJoin::near_pages() const {
    return state_->area.near_pages();
}
uint64_t CoherentJoin::pages() const {
    return state_->area.pages();
}

}}  // namespace spillway::cuda::coherent_join
