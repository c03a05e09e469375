// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "coherent_join/coherent_join.hpp"
#include "coherent_join/coherent_shape.hpp"
#include "coherent_join/far_side.hpp"
#include "coherent_join/join_stage.hpp"
#include "coherent_join/page_area.hpp"
#include "coherent_join/second_pass_stage.hpp"
#include "device/host_clock.hpp"
#include "out_of_core/working_memory.hpp"

namespace spillway::cuda {

namespace {

PageAreaSpec area_spec(Device& device, const CoherentSpec& spec, const CoherentShape& shape, bool has_peer) {
    PageAreaSpec area;
    area.page_bytes = shape.page_bytes();
    area.pages = shape.pages;
    area.shares = shape.shares(device, spec, has_peer);
    area.host_limit_bytes = spec.join.sizes.spill_bytes;
    return area;
}

// Inputs may lie there, whether pages do or not.
Device* reachable(Device& device, Device* peer) {
    if (peer != nullptr) enable_peer_access(device, *peer);
    return peer;
}

}  // namespace

class CoherentJoin::Work {
  public:
    Work(Device& device, const CoherentSpec& spec, Device* peer)
        : device_(device),
          spec_(spec),
          shape_(CoherentShape::make(spec, device)),
          area_(device, area_spec(device, spec, shape_, peer != nullptr), reachable(device, peer)),
          split_counts_(zeroed_split_counts()),
          build_(device, area_, shape_.rows.row_bytes(), shape_.page_rows, spec.join.sizes.radix_bits),
          probe_(device, area_, shape_.rows.row_bytes(), shape_.page_rows, spec.join.sizes.radix_bits) {
        const uint64_t more_bytes =
            std::max(shape_.partition_bytes(device.properties(), spec), shape_.join_bytes(spec));
        take_working_memory(device, more_bytes, device.memory().used_bytes());
    }

    void build(ChunkSource& source) {
        const HostClock clock;
        partition(source, build_, 0);
        report_.build_rows = build_.rows();
        report_.build_ms = clock.passed_ms();
    }

    const OutOfCoreReport& probe(ChunkSource& source, ResultSink* sink) {
        const HostClock probing;
        partition(source, probe_, 1);
        report_.probe_rows = probe_.rows();
        report_.probe_ms = probing.passed_ms();
        const HostClock joining;
        const uint64_t row_bytes = shape_.rows.row_bytes();
        report_.h2d_bytes = input_bytes_;
        report_.spilled_rows[0] = build_.far_rows();
        report_.spilled_rows[1] = probe_.far_rows();
        for (int side = 0; side < 2; ++side) report_.spilled_bytes[side] = report_.spilled_rows[side] * row_bytes;
        report_.d2h_bytes = report_.spilled_bytes[0] + report_.spilled_bytes[1];
        // Its memory is that of the first pass's buffers.
        if (shape_.second_pass) {
            SecondPassStage join(device_, spec_, shape_, area_.base(), build_, probe_,
                                 split_counts_.as<const uint64_t>());
            join.run(report_);
            stages_ = join.stages();
        } else {
            JoinStage join(device_, spec_, shape_, area_.base(), build_, probe_);
            join.run(sink, report_);
            stages_ = join.stages();
        }
        report_.spilled_ms = joining.passed_ms();
        return report_;
    }

    bool gives_rows() const { return spec_.join.result == OutOfCoreResult::kRows; }
    const StageTimes& stages() const { return stages_; }
    const PageArea& area() const { return area_; }
    const FarSide& build_side() const { return build_; }

  private:
    void partition(ChunkSource& source, FarSide& side, int number) {
        HostChunk chunk;
        while (source.next(chunk)) {
            device_.make_current();
            device_.check_cancelled();
            if (chunk.rows > spec_.rows[number] - side.rows()) {
                throw Error(ErrorCode::kInvalid, "a side has more rows than the join was made for");
            }
            FarRelation relation;
            relation.key = chunk.key;
            relation.payload = chunk.columns.empty() ? chunk.key : chunk.columns[0];
            relation.key_valid = chunk.key_valid;
            relation.rows = chunk.rows;
            relation.column_bytes = spec_.join.key_bytes;
            side.partition(relation, options_for(number));
            input_bytes_ += chunk.rows * (chunk.columns.empty() ? 1 : 2) * relation.column_bytes;
            if (chunk.key_valid != nullptr) input_bytes_ += (chunk.rows + 31) / 32 * sizeof(uint32_t);
            source.release();
        }
    }

    // Of the second pass: the first one counts rows for it.
    Allocation zeroed_split_counts() {
        if (!shape_.second_pass) return {};
        const uint64_t counts = 2 * (shape_.partitions << shape_.split_bits);
        Allocation zeroed = device_.memory().allocate(counts * sizeof(uint64_t), "histogram of the second pass");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(zeroed.as(), 0, zeroed.bytes(), device_.stream()));
        return zeroed;
    }
    FarPartitionOptions options_for(int side) const {
        FarPartitionOptions options = first_pass_options(spec_, device_.properties());
        if (!shape_.second_pass) return options;
        options.split_bits = shape_.split_bits;
        options.split_counts = split_counts_.as<uint64_t>() + side * (shape_.partitions << shape_.split_bits);
        return options;
    }

    Device& device_;
    const CoherentSpec spec_;
    const CoherentShape shape_;
    PageArea area_;
    Allocation split_counts_;  // of both sides
    FarSide build_;
    FarSide probe_;
    OutOfCoreReport report_;
    uint64_t input_bytes_ = 0;
    StageTimes stages_;
};

namespace {

// Sources, sinks and pages may go as soon as a join has thrown.
template <class Use>
void settle_after_errors(Device& device, const Use& use) {
    device.make_current();
    try {
        use();
    } catch (...) {
        if (try_set_device(device.ordinal())) discard(cudaDeviceSynchronize());
        throw;
    }
}

}  // namespace

CoherentJoin::CoherentJoin(Device& device, const CoherentSpec& spec, Device* peer) : device_(device) {
    device.make_current();
    work_ = std::make_unique<Work>(device, spec, peer);
}
CoherentJoin::~CoherentJoin() = default;

void CoherentJoin::build(ChunkSource& source) {
    settle_after_errors(device_, [&] { work_->build(source); });
}

const OutOfCoreReport& CoherentJoin::probe(ChunkSource& source, ResultSink* sink) {
    if ((sink != nullptr) != work_->gives_rows()) {
        throw Error(ErrorCode::kInvalid, "a sink is for joins that give rows");
    }
    const OutOfCoreReport* report = nullptr;
    settle_after_errors(device_, [&] { report = &work_->probe(source, sink); });
    return *report;
}

const std::vector<uint64_t>& CoherentJoin::partition_rows() const {
    return work_->build_side().partition_rows();
}
const StageTimes& CoherentJoin::stages() const {
    return work_->stages();
}
uint64_t CoherentJoin::near_pages() const {
    return work_->area().near_pages();
}
uint64_t CoherentJoin::pages() const {
    return work_->area().pages();
}

}  // namespace spillway::cuda
