// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/stream_spec.hpp"
#include "device/device.hpp"
#include "stream/row_sums.hpp"

// How rows flow through operators that need not hold them: ChunkSource -> StreamOperator -> ResultSink.
namespace spillway::cuda { inline namespace stream {

// Who lends chunks to an operator.
class ChunkOwner {
  public:
    virtual ~ChunkOwner() = default;
    // The oldest chunk that was not released yet has been read. After an error nothing is released any more: the
    // operator has waited for its copies when it throws.
    virtual void release() {}
    // Chunks are in memory of the operator's own GPU, and the device's stream has the work that fills them. They are
    // read in the order of that stream, which has the reading work when push() returns, and are never released.
    virtual bool is_on_device() const { return false; }
};

// Where the rows of one input come from. Called by the thread that runs the operator.
class ChunkSource : public ChunkOwner {
  public:
    // The next rows, StreamSizes::chunk_rows at most; false when there are no more. May wait for them.
    virtual bool next(Chunk& chunk) = 0;
};

// Where result rows go. Called by the thread that runs the operator.
class ResultSink {
  public:
    virtual ~ResultSink() = default;
    // Pinned host memory (or memory of any GPU) for so many rows, a pointer per column of the output. May wait for
    // readers, which holds up the operator and nothing else.
    virtual std::vector<void*> open(uint64_t rows) = 0;
    // Where the blocks of the columns of the last open() go, if its values are to be packed (SinkCalls); nullptr, or no
    // list: they come as they are.
    virtual std::vector<PackedBlock*> packed_blocks() const { return {}; }
    // The rows of the oldest open() that was not closed yet are there.
    virtual void close() = 0;
    // Rows are taken by take() where the operator has written them, in memory of its GPU, instead of open() and
    // close().
    virtual bool is_on_device() const { return false; }
    // The device's stream has the work that writes the rows. What reads them is in that stream when this returns.
    virtual void take(const std::vector<const void*>& columns, uint64_t rows);
    // Sums that are as good as the rows (kSumPartsMax); nullptr: the rows are wanted. Who can add them up while
    // it joins calls take_sums() once, with all rows, and take() never.
    virtual const std::vector<SumPart>* sum_parts() const { return nullptr; }
    virtual void take_sums(uint64_t rows, const std::vector<ExactSum>& sums);
};

// Throws kInvalid unless there is a sink where the result is rows, and only there.
inline void check_sink(JoinResultKind result, const ResultSink* sink) {
    if ((sink != nullptr) != (result == JoinResultKind::kRows)) {
        throw Error(ErrorCode::kInvalid, "a sink is for joins that give rows");
    }
}

// Throws kInvalid for sizes that no operator on chunks can work with.
void check_sizes(const StreamSizes& sizes);

// What stages took on the GPU, each by the clock of its stream; stages of two streams overlap.
using StageTimes = std::vector<PhaseTimer::Phase>;

// A join or a group-by of inputs of any size. Inputs are read one after the other, each chunk by chunk: by run(), which
// asks a source for them, or pushed by whoever has them, another operator for instance (ChunkPipe). Throws kOutOfMemory
// (device or host tier), kInvalid, kCancelled, kOverflow; before it throws, it has waited for all copies from and to
// memory of others. After an error the operator can only be destroyed.
class StreamOperator {
  public:
    explicit StreamOperator(Device& device) : device_(device) {}
    virtual ~StreamOperator() = default;
    StreamOperator(const StreamOperator&) = delete;
    StreamOperator& operator=(const StreamOperator&) = delete;

    virtual int inputs() const { return 2; }

    // Reads all of an input. sink: nullptr unless rows are wanted, and then given with every input, since some joins
    // give rows early. Returns when the input's chunks have been released; after the last input, also all results are
    // there.
    void run(int input, ChunkSource& source, ResultSink* sink);

    // The same in parts: begin(), push() for each chunk, end(). A chunk must stay until the owner is told to release
    // it.
    void begin(int input, ChunkOwner& owner, ResultSink* sink);
    void push(const Chunk& chunk);
    void end();

    // Columns whose sums over all rows, with the number of rows, are as good as the rows, where these have one key, 0:
    // add_sums() takes them instead of push(). None: it needs the rows.
    virtual std::optional<std::vector<SummedColumn>> sums_for_rows() const { return std::nullopt; }
    virtual void add_sums(uint64_t rows, const std::vector<ExactSum>& sums);

    const StreamReport& report() const { return report_; }  // after the last input
    virtual StageTimes stages() const { return {}; }        // of operators that have them

  protected:
    virtual void begin_input(int input, ChunkOwner& owner, ResultSink* sink) = 0;
    virtual void read(const Chunk& chunk) = 0;
    virtual void end_input() = 0;

    Device& device_;
    StreamReport report_;

  private:
    template <class Work>
    void settled(const Work& work);
};

// Storage beyond host memory, which the caller of a join or group-by brings. Several threads of the operation call it
// at once, until it has gone. What is thrown ends it.
class SpillDisk {
  public:
    virtual ~SpillDisk() = default;
    // Writes the bytes somewhere and returns where.
    virtual uint64_t write(const void* data, uint64_t bytes) = 0;
    // Reads what begins `offset` bytes into the bytes of the write() that returned `at`.
    virtual void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) = 0;
};

// Takes what a plan's chunks will use from the driver at once, as one piece of the pool's memory that serves all of
// them. Blocks of many sizes come and go with every chunk; where the limit leaves no room for a segment more, each that
// does not fit a free one would give others back to the driver and take new ones, and that waits for all copies on
// their way. planned_bytes: of all; before_bytes: that the pool had handed out before any of it.
void take_working_memory(Device& device, uint64_t planned_bytes, uint64_t before_bytes);

}}  // namespace spillway::cuda::stream
