// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/handles.hpp"

namespace spillway::addon {

namespace {

// Its address differs between two copies of the addon in one process, whose structs may differ too.
const char kImageAnchor = 0;

Error misuse(const std::string& message) {
    return Error(ErrorCode::kInvalidArgument, message);
}

}  // namespace

napi_type_tag type_tag(uint64_t kind_number) {
    return {kind_number, reinterpret_cast<uint64_t>(&kImageAnchor)};
}

void Lease::expect_idle(bool busy, const char* what) {
    if (busy) throw misuse(std::string("the ") + what + " is in use by another stage; wait for that to end");
}

bool PartitionsHandle::frees_at_once() const noexcept {
    if (!rows) return !spill_file;
    uint64_t bytes = 0;
    for (int32_t p = 0; p <= rows->partition_count(); ++p) {
        if (rows->partition(p).spilled_bytes > 0) return false;
        bytes += rows->partition(p).bytes;
    }
    return bytes <= kFewBytes && rows->partition_count() <= kFewPartitions;
}

void PartitionsHandle::make_rows(PartitionSpec spec, RowLayout layout) {
    Engine& engine = *job->engine;
    rows = std::make_unique<PartitionedRows>(std::move(spec), std::move(layout), engine.budget, engine.spill_space,
                                             job->control);
    partitioner = std::make_unique<RadixPartitioner>(*rows);
}

void PartitionsHandle::expect(State wanted) const {
    if (state == wanted) return;
    switch (state) {
        case State::kFilling:
            throw misuse("the partitions are still being filled; call finishPartitions first");
        case State::kFinished:
            throw misuse("the partitions are finished and take no more rows");
        case State::kConsumed:
            throw misuse("the rows of these partitions were used up by an earlier stage");
    }
}

QueueSink& SinkHandle::queue_sink() const {
    if (queue == nullptr) throw misuse("this sink has no batches to take; it was not made by createQueueSink");
    return *queue;
}

FileSink& SinkHandle::file_sink() const {
    if (file == nullptr) throw misuse("this sink is no file; it was not made by createFileSink");
    return *file;
}

StageSink::StageSink(std::shared_ptr<SinkHandle> handle)
    : handle_(std::move(handle)), lease_(Lease::take(handle_, "sink")) {
    if (handle_->queue != nullptr && handle_->queue->finished()) {
        throw misuse("the stream of this sink has ended; make a sink per stage");
    }
    if (handle_->partitions) {
        handle_->partitions->expect(PartitionsHandle::State::kFilling);
        partitions_lease_ = Lease::take(handle_->partitions, "set of partitions");
    }
}

std::optional<uint64_t> StageSink::rows_at_limit() const {
    const LimitSink* limit = handle_->limit;
    if (limit == nullptr || !limit->ended_well()) return std::nullopt;
    return limit->rows_max();
}

void StageSink::end() const {
    if (handle_->limit != nullptr && handle_->limit->keeps_sink_open()) return;
    if (handle_->queue != nullptr) handle_->queue->close_producer();
}

}  // namespace spillway::addon
