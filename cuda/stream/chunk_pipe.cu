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
    write_piped(pass.key, pass.spec.key_bytes, row, {key.word[0], 0});
    for (uint32_t w = 1; w < kPipeKeyWordsMax; ++w) {
        if (w <= pass.spec.key_columns) store_piped(pass.columns[w - 1], row, key.word[w]);
    }
    for (uint32_t c = pass.spec.key_columns; c < pass.spec.columns.size(); ++c) {
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

const PipeSpec& checked(const PipeSpec& spec, const std::vector<uint32_t>& from) {
    check_pipe(spec, from);
    return spec;
}

// Parts of at most 4 bytes whose sums make up that of a column of chunks. false: no such parts do.
bool add_sum_parts(std::vector<SumPart>& parts, const PipeColumn& column, bool is_signed) {
    if (column.kind == PipeColumnKind::kKeyWord || column.value.parts.size() != 1) return false;
    const PipePart& value = column.value.parts[0];
    if (value.mask != 0) return false;
    SumPart part;
    if (column.kind == PipeColumnKind::kPresence) {
        if (value.validity < 0) return false;
        part.column = static_cast<uint16_t>(value.validity);
        part.width = 1;
        part.counts = true;
        parts.push_back(part);
        return true;
    }
    if ((value.validity >= 0 && column.fill != 0) || value.offset % std::min(column.width(), 4U) != 0) return false;
    part.column = static_cast<uint16_t>(value.column);
    part.offset = static_cast<uint8_t>(value.offset + (column.kind == PipeColumnKind::kHigh ? 4 : 0));
    part.width = static_cast<uint8_t>(std::min(column.width(), 4U));
    part.is_signed = is_signed && column.width() <= 4;
    part.validity = value.validity;
    parts.push_back(part);
    if (column.width() == 8) {
        part.offset = static_cast<uint8_t>(part.offset + 4);
        part.is_signed = is_signed;
        parts.push_back(part);
    }
    return column.width() <= 8;
}

uint64_t checked_rows(uint64_t chunk_rows) {
    if (chunk_rows == 0 || chunk_rows > kPipeRowsMax) refuse("a pipe gives chunks of no rows or of far too many");
    return chunk_rows;
}

}  // namespace

ChunkPipe::ChunkPipe(Device& device, const PipeSpec& spec, const std::vector<uint32_t>& from, uint64_t chunk_rows)
    : device_(device),
      spec_(checked(spec, from)),
      from_(from),
      chunk_rows_(checked_rows(chunk_rows)),
      layout_(spec.key_bytes, spec.widths(), chunk_rows),
      may_lack_keys_(spec.may_lack_keys()),
      chunk_(device.memory().allocate(layout_.bytes, "a chunk between two operators")) {}

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
    sum_parts_ = parts_of_sums(to);
}

// Without keys all rows have the key 0.
std::optional<std::vector<SumPart>> ChunkPipe::parts_of_sums(const StreamOperator& to) const {
    const std::optional<std::vector<SummedColumn>> columns = to.sums_for_rows();
    if (!columns || !spec_.keys.empty()) return std::nullopt;
    std::vector<SumPart> parts;
    for (const SummedColumn& column : *columns) {
        if (!add_sum_parts(parts, spec_.columns[column.column], column.is_signed)) return std::nullopt;
    }
    if (parts.size() > kSumPartsMax) return std::nullopt;
    return parts;
}

void ChunkPipe::take_sums(uint64_t rows, const std::vector<ExactSum>& sums) {
    if (to_ == nullptr || !sum_parts_ || sums.size() != sum_parts_->size()) {
        throw Error(ErrorCode::kInternal, "sums come into a pipe that asked for none, or for others");
    }
    const std::optional<std::vector<SummedColumn>> columns = to_->sums_for_rows();
    std::vector<ExactSum> of_columns;
    size_t at = 0;
    for (const SummedColumn& column : *columns) {
        of_columns.push_back(sums[at++]);
        const PipeColumn& summed = spec_.columns[column.column];
        if (summed.width() == 8) of_columns.back() += sums[at++] * (ExactSum{1} << 32);
    }
    in_claim([&] { to_->add_sums(rows, of_columns); });
    rows_ += rows;
}

void ChunkPipe::end() {
    if (filled_ > 0) push();
    in_claim([&] { to_->end(); });
    to_ = nullptr;
}

std::vector<void*> ChunkPipe::open(uint64_t) {
    throw Error(ErrorCode::kInternal, "rows are to be copied into a pipe, which takes them where they are");
}

void ChunkPipe::close() {}

void ChunkPipe::take(const std::vector<const void*>& columns, uint64_t rows) {
    if (to_ == nullptr) throw Error(ErrorCode::kInternal, "rows come into a pipe that leads nowhere");
    for (uint64_t done = 0; done < rows;) {
        const uint64_t some = std::min(rows - done, chunk_rows_ - filled_);
        project(columns, done, some);
        done += some;
        filled_ += some;
        if (filled_ == chunk_rows_) push();
    }
    rows_ += rows;
}

// In the order of the device's stream, the operator behind the pipe has read the chunk that was there before.
void ChunkPipe::project(const std::vector<const void*>& columns, uint64_t first, uint64_t rows) {
    device_.make_current();
    Projection pass;
    pass.spec = spec_;
    pass.from_row = first;
    pass.first = filled_;
    pass.end = filled_ + rows;
    for (size_t c = 0; c < from_.size(); ++c) {
        pass.from.column[c] = {static_cast<const uint8_t*>(columns.at(c)), from_[c]};
    }
    uint8_t* const chunk = chunk_.as<uint8_t>();
    pass.key = chunk;
    if (may_lack_keys_) pass.key_valid = reinterpret_cast<uint32_t*>(chunk + layout_.validity);
    for (size_t c = 0; c < layout_.columns.size(); ++c) pass.columns[c] = chunk + layout_.columns[c];
    const uint64_t words_rows = pass.end - pass.first / kWarpThreads * kWarpThreads;
    const auto blocks = static_cast<uint64_t>(device_.properties().threads_per_multiprocessor_max) / kStreamThreads;
    launch(project_rows, grid_over(device_, words_rows, kStreamThreads, blocks), dim3(kStreamThreads), 0,
           device_.stream(), pass);
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
    const uint8_t* const data = chunk_.as<const uint8_t>();
    Chunk chunk;
    chunk.rows = filled_;
    chunk.key = data;
    if (may_lack_keys_) chunk.key_valid = reinterpret_cast<const uint32_t*>(data + layout_.validity);
    for (const uint64_t offset : layout_.columns) chunk.columns.push_back(data + offset);
    filled_ = 0;
    in_claim([&] { to_->push(chunk); });
}

}}  // namespace spillway::cuda::stream
