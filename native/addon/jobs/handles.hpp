// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "addon/jobs/engine.hpp"
#include "addon/jobs/job_registry.hpp"
#include "addon/jobs/js_memory.hpp"
#include "addon/jobs/queue_delivery.hpp"
#include "base/error.hpp"
#include "base/heap.hpp"
#include "cpu/radix_partition/radix_partitioner.hpp"
#include "device/gpu_table.hpp"
#include "executor/sinks/file_sink.hpp"
#include "executor/sinks/limit_sink.hpp"
#include "executor/sinks/queue_sink.hpp"
#include "transfer/file_batches.hpp"
#include "transfer/source.hpp"
#include "transfer/source_stream.hpp"

namespace spillway::addon {

// What JS holds: a Napi::External with a type tag, so that a handle of another kind (or of another copy of the addon)
// is an error and not a wild pointer. Closing empties the box; running jobs keep their own shared pointer.
template <class T>
struct Box {
    std::shared_ptr<T> value;
};

// Specialized below for each kind: NAME ("Source"), for messages, and NUMBER, unique.
template <class T>
struct HandleKind;

napi_type_tag type_tag(uint64_t kind_number);

template <class T>
Napi::Value make_handle(Napi::Env env, std::shared_ptr<T> value) {
    auto box = std::make_unique<Box<T>>(Box<T>{std::move(value)});
    auto external = Napi::External<Box<T>>::New(env, box.get(), [](Napi::BasicEnv, Box<T>* last) { delete last; });
    box.release();
    const napi_type_tag tag = type_tag(HandleKind<T>::NUMBER);
    external.TypeTag(&tag);
    return external;
}

template <class T>
Box<T>& box_of(const Napi::Value& value) {
    const napi_type_tag tag = type_tag(HandleKind<T>::NUMBER);
    if (value.IsExternal()) {
        auto external = value.As<Napi::External<Box<T>>>();
        if (external.CheckTypeTag(&tag)) return *external.Data();
    }
    throw Error(ErrorCode::kInvalidArgument,
                std::string("expected a ") + HandleKind<T>::NAME + " handle made by this addon",
                {{"handle", HandleKind<T>::NAME}});
}

template <class T>
std::shared_ptr<T> get_handle(const Napi::Value& value) {
    const auto& box = box_of<T>(value);
    if (box.value == nullptr) {
        throw Error(ErrorCode::kClosed, std::string("the ") + HandleKind<T>::NAME + " was closed",
                    {{"handle", HandleKind<T>::NAME}});
    }
    return box.value;
}

// Closing twice is allowed.
template <class T>
void close_handle(const Napi::Value& value) {
    box_of<T>(value).value.reset();
}

// Marks something as used by a running stage; both ends on the JS thread (captures of Work die there).
class Lease {
  public:
    // Throws kInvalidArgument when the owner is busy already: two stages would fill or read the same object at once.
    template <class T>
    static std::shared_ptr<Lease> take(const std::shared_ptr<T>& owner, const char* what) {
        expect_idle(owner->busy, what);
        return std::make_shared<Lease>(owner, owner->busy);
    }
    Lease(std::shared_ptr<void> owner, bool& busy) : owner_(std::move(owner)), busy_(busy) { busy_ = true; }
    ~Lease() { busy_ = false; }
    Lease(const Lease&) = delete;

  private:
    static void expect_idle(bool busy, const char* what);
    std::shared_ptr<void> owner_;
    bool& busy_;
};

struct SourceHandle : Disposable {
    // Its lists of buffers take 100 bytes for each.
    static constexpr size_t kFewBatches = 64;

    using Disposable::Disposable;
    bool frees_at_once() const noexcept override { return source == nullptr || is_small; }
    void free_memory() noexcept override { source.reset(); }

    bool is_small = false;  // few batches, all in memory, and no dictionaries

    std::unique_ptr<Source> source;
    std::unique_ptr<SourceStream> stream;  // its rows come as sources of their own, and `source` has none
    JsMemory memory;                       // record batches in JS memory; outlives the source
};

// Where the batches of a relation of files are. Sources that read them share it.
struct FileBatchesHandle : Disposable {
    using Disposable::Disposable;
    void free_memory() noexcept override { batches.reset(); }

    std::shared_ptr<const FileBatches> batches;
};

struct PartitionsHandle : Disposable {
    enum class State : uint8_t { kFilling, kFinished, kConsumed };
    // Lists of their pages take a mebibyte.
    static constexpr uint64_t kManyRows = uint64_t{1} << 22;
    // Their pages are a few mappings, which the budget keeps for the next set.
    static constexpr uint64_t kFewBytes = uint64_t{1} << 20;
    static constexpr int32_t kFewPartitions = 64;

    PartitionsHandle(std::shared_ptr<Job> of_job, std::vector<TypePtr> column_types)
        : Disposable(of_job->engine), job(std::move(of_job)), columns(std::move(column_types)) {}
    bool frees_at_once() const noexcept override;
    void free_memory() noexcept override {
        partitioner.reset();
        if (rows) {
            spill_file = rows->take_spill_file();
            large = rows->total_rows() > kManyRows;
        }
        rows.reset();
    }
    void close_files() noexcept override { spill_file.reset(); }
    void tidy_up() noexcept override {
        if (large) give_back_free_memory();
    }
    // Throws kInvalidArgument naming what is wrong.
    void expect(State wanted) const;
    void make_rows(PartitionSpec spec, RowLayout layout);

    const std::shared_ptr<Job> job;  // its JobControl is referred to by `rows`
    const std::vector<TypePtr> columns;
    std::unique_ptr<PartitionedRows> rows;
    std::unique_ptr<RadixPartitioner> partitioner;
    std::unique_ptr<SpillFile> spill_file;  // of rows that are gone
    bool large = false;                     // were they many?
    State state = State::kFilling;
    bool busy = false;
};

struct DeviceTableHandle : Disposable {
    DeviceTableHandle(std::shared_ptr<Engine> of_engine, GpuTable rows)
        : Disposable(std::move(of_engine)), table(std::move(rows)) {}
    void free_memory() noexcept override { table.reset(); }

    GpuTable table;
};

// A join in pieces, with the tables that it reads.
struct DevicePiecesHandle : Disposable {
    DevicePiecesHandle(std::shared_ptr<Engine> of_engine, GpuPieces of_join, std::shared_ptr<DeviceTableHandle> build,
                       std::shared_ptr<DeviceTableHandle> probe)
        : Disposable(std::move(of_engine)),
          build_(std::move(build)),
          probe_(std::move(probe)),
          pieces(std::move(of_join)) {}
    void before_free() noexcept override {
        // Now, so that the disposal of the tables begins before that of the pieces has ended.
        pieces.reset();
        build_.reset();
        probe_.reset();
    }
    void free_memory() noexcept override { pieces.reset(); }

  private:
    std::shared_ptr<DeviceTableHandle> build_;
    std::shared_ptr<DeviceTableHandle> probe_;

  public:
    GpuPieces pieces;
    bool busy = false;
};

struct SinkHandle : Disposable {
    explicit SinkHandle(std::shared_ptr<Job> of_job) : Disposable(of_job->engine), job(std::move(of_job)) {}
    // All but files, and queues in which batches wait.
    bool frees_at_once() const noexcept override {
        return file == nullptr && diverted == nullptr && (queue == nullptr || queue->finished());
    }
    void before_free() noexcept override {
        if (delivery) delivery->detach();
        if (partitions) {
            // Now, so that their disposal begins before that of the sink has ended: whoever drains the engine must not
            // find it idle in between.
            sink.reset();
            partitions.reset();
        }
    }
    void free_memory() noexcept override { sink.reset(); }

    QueueSink& queue_sink() const;  // throws kInvalidArgument when it is another kind of sink
    FileSink& file_sink() const;

    const std::shared_ptr<Job> job;
    std::unique_ptr<BatchSink> sink;
    QueueSink* queue = nullptr;  // one of these when `sink` is of that kind
    FileSink* file = nullptr;
    LimitSink* limit = nullptr;                    // before any of these, and then `sink`: no more rows are wanted
    std::shared_ptr<SinkHandle> diverted;          // queue: the file that takes what the queue does not
    std::shared_ptr<PartitionsHandle> partitions;  // partition sink: where the rows go
    std::shared_ptr<QueueDelivery> delivery;       // queue sink: promises of nextBatch
    bool busy = false;
};

// The sink of one stage while it runs. Ends the stream of a queue when the stage ends, in whatever way.
class StageSink {
  public:
    explicit StageSink(std::shared_ptr<SinkHandle> handle);
    BatchSink& operator*() const { return *handle_->sink; }
    // On the job thread, as soon as no more rows come.
    void end() const;
    // The stage was stopped because all rows that were wanted had come: their number.
    std::optional<uint64_t> rows_at_limit() const;

  private:
    std::shared_ptr<SinkHandle> handle_;
    std::shared_ptr<Lease> lease_;
    std::shared_ptr<Lease> partitions_lease_;
};

template <>
struct HandleKind<Engine> {
    static constexpr const char* NAME = "runtime";
    static constexpr uint64_t NUMBER = 1;
};
template <>
struct HandleKind<Job> {
    static constexpr const char* NAME = "job";
    static constexpr uint64_t NUMBER = 2;
};
template <>
struct HandleKind<SourceHandle> {
    static constexpr const char* NAME = "source";
    static constexpr uint64_t NUMBER = 3;
};
template <>
struct HandleKind<PartitionsHandle> {
    static constexpr const char* NAME = "partitions";
    static constexpr uint64_t NUMBER = 4;
};
template <>
struct HandleKind<SinkHandle> {
    static constexpr const char* NAME = "sink";
    static constexpr uint64_t NUMBER = 5;
};
template <>
struct HandleKind<DeviceTableHandle> {
    static constexpr const char* NAME = "device table";
    static constexpr uint64_t NUMBER = 6;
};
template <>
struct HandleKind<DevicePiecesHandle> {
    static constexpr const char* NAME = "join in pieces";
    static constexpr uint64_t NUMBER = 7;
};
template <>
struct HandleKind<FileBatchesHandle> {
    static constexpr const char* NAME = "file batches";
    static constexpr uint64_t NUMBER = 8;
};

}  // namespace spillway::addon
