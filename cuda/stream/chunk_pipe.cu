// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/warp.cuh"
#include "stream/check_pipe.hpp"
#include "stream/chunk_pipe.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// Result rows from `from_row` on become rows [first, end) of a chunk.
struct Projection {
    PipeSpec spec;
    PipedColumns from;
    uint64_t from_row = 0;
    uint64_t first = 0;
    uint64_t end = 0;
    void* key = nullptr;
    uint32_t* key_valid = nullptr;  // nullptr: all have keys
    void* columns[kRowColumnsMax] = {};
};
static_assert(sizeof(Projection) <= 4096, "what parameters of a kernel may take");

// Returns whether the row has a key.
__device__ bool project_row(const Projection& pass, uint64_t row) {
    const PipedRow from(pass.spec, pass.from, pass.from_row + (row - pass.first));
    const PipedKey key = from.key();
    write_piped(pass.key, pass.spec.key_bytes, row, {key.word, 0});
    for (uint32_t c = 0; c < pass.spec.columns.size(); ++c) {
        const PipeColumn& column = pass.spec.columns[c];
        write_piped(pass.columns[c], column.width(), row, from.column(column));
    }
    return key.exists;
}

// A warp has the rows of one word of validity. The word that was begun by rows before is written again by the one warp
// that has it; bits of rows that come later are 0.
__global__ void __launch_bounds__(kStreamThreads) project_rows(const __grid_constant__ Projection pass) {
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t lane = threadIdx.x % kWarpThreads;
    for (uint64_t row = pass.first / kWarpThreads * kWarpThreads + thread; row - lane < pass.end; row += step) {
        bool has_key = false;
        if (row >= pass.first && row < pass.end) has_key = project_row(pass, row);
        if (pass.key_valid == nullptr) continue;
        const uint32_t word = __ballot_sync(kFullWarp, has_key);
        if (lane != 0) continue;
        uint32_t* const to = pass.key_valid + row / kWarpThreads;
        *to = row < pass.first ? *to | word : word;
    }
}

// What rows of all columns that there may be take fits 64 bits.
constexpr uint64_t kPipeRowsMax = 1ULL << 48;

// Streams and events are made on the current device.
const PipeSpec& checked(Device& device, const PipeSpec& spec, const std::vector<uint32_t>& from) {
    check_pipe(spec, from);
    device.make_current();
    return spec;
}

}  // namespace

ChunkPipe::ChunkPipe(Device& device, const PipeSpec& spec, const std::vector<uint32_t>& from, const StreamSizes& first,
                     const StreamSizes& second)
    : device_(device),
      spec_(checked(device, spec, from)),
      from_(from),
      window_rows_(first.result_rows),
      chunk_rows_(second.chunk_rows),
      layout_(spec.key_bytes, spec.widths(), second.chunk_rows),
      may_lack_keys_(spec.may_lack_keys()),
      stream_(StreamPriority::kUrgent) {
    const auto [least, most] = std::minmax(window_rows_, chunk_rows_);
    if (least == 0 || most > kPipeRowsMax) refuse("a pipe takes results, or gives chunks, of no rows or far too many");
    // One after the other: the pool's limit is reached before a list that a caller made far too long.
    const uint64_t window_bytes = result_bytes(from_, window_rows_);
    for (uint32_t slot = 0; slot < first.result_slots; ++slot) {
        windows_.emplace_back().memory = device.memory().allocate(window_bytes, "result rows between two operators");
    }
    for (uint64_t buffer = 0; buffer < pipe_buffers(second.chunk_slots); ++buffer) {
        chunks_.push_back(device.memory().allocate(layout_.bytes, "chunks between two operators"));
    }
    // The blocks may have been used by what the device still has to do.
    stream_.wait_for(device.stream());
}

ChunkPipe::~ChunkPipe() {
    discard(cudaStreamSynchronize(stream_.get()));  // a lost device runs nothing any more
}

template <class Work>
void ChunkPipe::in_claim(const Work& work) const {
    std::optional<PoolClaim::User> user;
    if (memory_ != nullptr) user.emplace(*memory_);
    work();
}

void ChunkPipe::begin(StreamOperator& to, int input, ResultSink* sink, const PoolClaim* memory) {
    memory_ = memory;
    in_claim([&] { to.begin(input, *this, sink); });
    to_ = &to;
}

void ChunkPipe::end() {
    if (filled_ > 0) push();
    in_claim([&] { to_->end(); });
    to_ = nullptr;
}

std::vector<void*> ChunkPipe::open(uint64_t rows) {
    if (to_ == nullptr) throw Error(ErrorCode::kInternal, "rows come into a pipe that leads nowhere");
    if (rows > window_rows_ || opened_ - closed_ == windows_.size()) {
        throw Error(ErrorCode::kInternal, "an operator has more result rows on their way than its sizes say");
    }
    Window& window = windows_[opened_++ % windows_.size()];
    window.rows = rows;
    std::vector<void*> columns;
    uint64_t at = 0;
    for (const uint32_t width : from_) {
        columns.push_back(window.memory.as<uint8_t>() + at);
        at += column_bytes(width, window_rows_);
    }
    return columns;
}

void ChunkPipe::wait_free(cudaStream_t copies) {
    const Window& window = windows_[(opened_ - 1) % windows_.size()];
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(copies, window.projected.get(), 0));
}

// The first operator has waited until the rows are there.
void ChunkPipe::close() {
    Window& window = windows_[closed_++ % windows_.size()];
    for (uint64_t done = 0; done < window.rows;) {
        const uint64_t rows = std::min(window.rows - done, chunk_rows_ - filled_);
        project(window, done, rows);
        done += rows;
        filled_ += rows;
        if (done == window.rows) window.projected.record(stream_.get());
        if (filled_ == chunk_rows_) push();
    }
    rows_ += window.rows;
}

// The operator behind the pipe keeps fewer chunks than it has slots when push() returns, so that a buffer is free. Who
// copied from it before has said on the host that this was done.
void ChunkPipe::project(const Window& window, uint64_t first, uint64_t rows) {
    if (pushed_ - released_ >= chunks_.size()) {
        throw Error(ErrorCode::kInternal, "an operator keeps more chunks than its sizes say");
    }
    device_.make_current();
    Projection pass;
    pass.spec = spec_;
    pass.from_row = first;
    pass.first = filled_;
    pass.end = filled_ + rows;
    const uint8_t* data = window.memory.as<const uint8_t>();
    for (size_t c = 0; c < from_.size(); ++c) {
        pass.from.column[c] = {data, from_[c]};
        data += column_bytes(from_[c], window_rows_);
    }
    uint8_t* const chunk = chunks_[pushed_ % chunks_.size()].as<uint8_t>();
    pass.key = chunk;
    if (may_lack_keys_) pass.key_valid = reinterpret_cast<uint32_t*>(chunk + layout_.validity);
    for (size_t c = 0; c < layout_.columns.size(); ++c) pass.columns[c] = chunk + layout_.columns[c];
    const uint64_t words_rows = pass.end - pass.first / kWarpThreads * kWarpThreads;
    const auto blocks = static_cast<uint64_t>(device_.properties().threads_per_multiprocessor_max) / kStreamThreads;
    launch(project_rows, grid_over(device_, words_rows, kStreamThreads, blocks), dim3(kStreamThreads), 0, stream_.get(),
           pass);
    count_moved(device_, rows * moved_row_bytes());
}

// Columns that several values are parts of are read once.
uint64_t ChunkPipe::moved_row_bytes() const {
    std::set<int32_t> read = {spec_.presence};
    const auto add = [&](const PipeValue& value) {
        for (const PipePart& part : value.parts) read.insert({part.column, part.validity});
    };
    for (const PipeKey& key : spec_.keys) add(key.value);
    for (const PipeColumn& column : spec_.columns) add(column.value);
    uint64_t bytes = spec_.key_bytes;
    for (const int32_t column : read) bytes += column < 0 ? 0 : from_[static_cast<size_t>(column)];
    for (const uint32_t width : spec_.widths()) bytes += width;
    return bytes;
}

void ChunkPipe::push() {
    const uint8_t* const data = chunks_[pushed_++ % chunks_.size()].as<const uint8_t>();
    Chunk chunk;
    chunk.rows = filled_;
    chunk.key = data;
    if (may_lack_keys_) chunk.key_valid = reinterpret_cast<const uint32_t*>(data + layout_.validity);
    for (const uint64_t offset : layout_.columns) chunk.columns.push_back(data + offset);
    filled_ = 0;
    in_claim([&] { to_->push(chunk); });
}

void ChunkPipe::wait_ready(cudaStream_t copies) {
    join_streams(stream_.get(), copies, joint_);
}

void ChunkPipe::release() {
    ++released_;
}

}}  // namespace spillway::cuda::stream
