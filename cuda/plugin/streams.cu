// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "coherent_join/coherent_join.hpp"
#include "device/guard.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "staged_join/staged_join.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace plugin {

// Sources, sinks and disks of the host as operators use them.

// The device's other callers may go on while the host's code runs, which may wait for them: a reader of result rows
// that asks for another query. What they enqueue comes between two calls of the join in the order of one stream.
class Unlocked {
  public:
    explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked&) = delete;

  private:
    std::unique_lock<std::mutex>& lock_;
};

// Whoever called knows why, and does not look at the text.
[[noreturn]] inline void fail_callback() {
    throw Error(ErrorCode::kCancelled, "a source, sink or disk of the caller failed");
}

class CallbackSource final : public ChunkSource {
  public:
    CallbackSource(const SourceCalls& source, std::unique_lock<std::mutex>& lock) : source_(source), lock_(lock) {}

    bool next(Chunk& chunk) override {
        int32_t told = 0;
        {
            const Unlocked waiting(lock_);
            told = source_.next(source_.context, &chunk);
        }
        if (told < 0) fail_callback();
        return told != 0;
    }
    void release() override { source_.release(source_.context); }

  private:
    const SourceCalls source_;
    std::unique_lock<std::mutex>& lock_;
};

class CallbackSink final : public ResultSink {
  public:
    CallbackSink(const SinkCalls& sink, size_t columns, std::unique_lock<std::mutex>& lock)
        : sink_(sink), columns_(columns), lock_(lock) {}

    std::vector<void*> open(uint64_t rows) override {
        std::vector<void*> columns(columns_);
        int32_t told = 0;
        {
            const Unlocked waiting(lock_);
            told = sink_.open(sink_.context, rows, columns.data());
        }
        if (told < 0) fail_callback();
        return columns;
    }
    void close() override { sink_.close(sink_.context); }

  private:
    const SinkCalls sink_;
    const size_t columns_;
    std::unique_lock<std::mutex>& lock_;
};

class CallbackDisk final : public SpillDisk {
  public:
    explicit CallbackDisk(const DiskCalls* disk) : disk_(disk == nullptr ? DiskCalls{} : *disk) {}

    SpillDisk* usable() { return disk_.write == nullptr ? nullptr : this; }
    uint64_t write(const void* data, uint64_t bytes) override {
        uint64_t at = 0;
        if (disk_.write(disk_.context, data, bytes, &at) < 0) fail_callback();
        return at;
    }
    void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) override {
        if (disk_.read(disk_.context, at, offset, data, bytes) < 0) fail_callback();
    }

  private:
    const DiskCalls disk_;
};

}}  // namespace spillway::cuda::plugin

// The child is the first member, so that it is counted until the memory is back in its pools.
struct spillway_cuda_stream {
    spillway_cuda_stream(spillway_cuda_gpu* gpu, size_t output_columns, const spillway::cuda::DiskCalls* given,
                         spillway::cuda::PoolClaim claim)
        : child(gpu), open(gpu), outputs(output_columns), disk(given), memory(std::move(claim)) {}
    spillway::cuda::Child child;
    spillway::cuda::OpenOperation open;
    const size_t outputs;  // columns of the result
    spillway::cuda::CallbackDisk disk;
    spillway::cuda::PoolClaim memory;  // all that it will take: between callbacks it has less
    int next_input = 0;
    std::unique_ptr<spillway::cuda::StreamOperator> work;
};

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

void check(const StagedGroupBySpec& spec) {
    require(spec.sizes.pre_aggregation <= PreAggregation::kNever, "chunks are aggregated in no known way");
    require(spec.widths.is_valid(), "a group-by has too many columns");
    require(spec.aggregates.is_valid(), "a group-by has too many aggregates");
    for (const StagedAggregate& aggregate : spec.aggregates) {
        require(aggregate.kind <= GroupAggregateKind::kFirst, "an aggregate is of no known kind");
        require(aggregate.value_kind <= ValueKind::kFloat, "an aggregate's values are of no known kind");
    }
}

// make(device, disk) makes the operator, which takes no more than so many bytes.
template <class Make>
void begin(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, size_t outputs, const DiskCalls* disk,
           spillway_cuda_stream** stream, const Make& make) {
    PoolClaim memory = gpu->device.memory().claim(bytes, purpose);
    const PoolClaim::User user(memory);
    auto begun = std::make_unique<spillway_cuda_stream>(gpu, outputs, disk, std::move(memory));
    begun->work = make(gpu->device, begun->disk.usable());
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
        begin(gpu, bytes, "a join out of core", spec->output.size(), disk, stream,
              [&](Device& device, SpillDisk* to) { return std::make_unique<StagedJoin>(device, *spec, nullptr, to); });
    });
}

void begin_coherent_join(spillway_cuda_gpu* gpu, const CoherentJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status) {
    with_device(gpu, stream, status, [&] {
        check(*spec);
        const uint64_t bytes = std::min(spec->options.device_bytes, gpu->device.memory().free_bytes());
        begin(gpu, bytes, "a join out of core", spec->join.output.size(), nullptr, stream,
              [&](Device& device, SpillDisk*) { return std::make_unique<CoherentJoin>(device, *spec); });
    });
}

void begin_staged_group_by(spillway_cuda_gpu* gpu, const StagedGroupBySpec* spec, const DiskCalls* disk,
                           spillway_cuda_stream** stream, spillway_cuda_status* status) {
    with_device(gpu, stream, status, [&] {
        check(*spec);
        const uint64_t bytes = StagedGroupBy::device_bytes(*spec);
        begin(gpu, bytes, "a group-by out of core", spec->output_widths().size(), disk, stream,
              [&](Device& device, SpillDisk* to) { return std::make_unique<StagedGroupBy>(device, *spec, to); });
    });
}

// With the device to itself, but for the time in callbacks.
void run_stream(spillway_cuda_stream* stream, int32_t input, const SourceCalls* source, const SinkCalls* sink,
                StreamReport* report, spillway_cuda_status* status) {
    *report = {};
    guarded(status, [&] {
        spillway_cuda_gpu* const gpu = stream->child.gpu();
        require(input == stream->next_input && input < stream->work->inputs(),
                "an operator's inputs come in order, each once, and none after an error");
        stream->next_input = stream->work->inputs();  // unless it succeeds
        std::unique_lock<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        const PoolClaim::User user(stream->memory);
        CallbackSource chunks(*source, lock);
        if (sink == nullptr) {
            stream->work->run(input, chunks, nullptr);
        } else {
            CallbackSink rows(*sink, stream->outputs, lock);
            stream->work->run(input, chunks, &rows);
        }
        stream->next_input = input + 1;
        *report = stream->work->report();
        report->peak_bytes = gpu->device.memory().peak_bytes();
    });
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
