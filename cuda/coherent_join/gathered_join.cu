// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include "coherent_join/coherent_policy.hpp"
#include "coherent_join/gathered_join.hpp"
#include "device/launch.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

// Reads each row once, from far memory or near, and writes it once to near memory. A block takes one copy after the
// other, a page each at most, so that all have about as much to do. Words as wide as rows are aligned; row_words: of
// such words.
template <class Word>
__global__ void __launch_bounds__(kGatherThreads)
    gather_rows_kernel(const Word* from, Word* to, uint32_t row_words, const RowCopy* copies, uint64_t count) {
    for (uint64_t c = blockIdx.x; c < count; c += gridDim.x) {
        const RowCopy copy = copies[c];
        const uint64_t words = copy.rows * row_words;
        const Word* const source = from + copy.from * row_words;
        Word* const target = to + copy.to * row_words;
        uint64_t i = threadIdx.x;
        // Several loads under way, as each takes some microseconds.
        for (; i + (kGatherLoads - 1) * kGatherThreads < words; i += kGatherLoads * kGatherThreads) {
            Word held[kGatherLoads];
#pragma unroll
            for (uint32_t n = 0; n < kGatherLoads; ++n) held[n] = source[i + n * kGatherThreads];
#pragma unroll
            for (uint32_t n = 0; n < kGatherLoads; ++n) target[i + n * kGatherThreads] = held[n];
        }
        for (; i < words; i += kGatherThreads) target[i] = source[i];
    }
}

template <class Word>
void launch_gather(dim3 grid, uint64_t shared_bytes, cudaStream_t stream, const char* from, uint32_t* to,
                   uint32_t row_words, const RowCopy* copies, uint64_t count) {
    launch(gather_rows_kernel<Word>, grid, dim3(kGatherThreads), shared_bytes, stream,
           reinterpret_cast<const Word*>(from), reinterpret_cast<Word*>(to),
           static_cast<uint32_t>(row_words * sizeof(uint32_t) / sizeof(Word)), copies, count);
}

uint32_t grid_for(const Device& device, uint32_t wanted) {
    if (wanted > 0) return wanted;
    const auto multiprocessors = static_cast<uint32_t>(device.properties().multiprocessors);
    return std::max(1U, multiprocessors / kGatherMultiprocessorShare);
}

}  // namespace

RowGatherer::RowGatherer(Device& device, uint32_t grid, bool alone)
    : device_(device),
      grid_(grid_for(device, grid)),
      shared_bytes_(alone ? device.properties().shared_bytes_per_block_optin : 0),
      timer_(stream_.get()) {}

RowGatherer::~RowGatherer() {
    // Not for the slots' events: where one could not be recorded, the copies before it are under way all the same. A
    // lost device copies nothing any more.
    discard(cudaStreamSynchronize(stream_.get()));
}

const RowCopy* RowGatherer::send(Slot& slot, const std::vector<RowCopy>& copies) {
    const uint64_t bytes = copies.size() * sizeof(RowCopy);
    if (slot.host.bytes() < bytes) {
        slot.host.reset();
        slot.device.reset();
        slot.host = device_.staging().allocate(bytes + bytes / 2, "lists of rows to be gathered");
        slot.device = device_.memory().allocate(bytes + bytes / 2, "lists of rows to be gathered");
    }
    std::memcpy(slot.host.as(), copies.data(), bytes);
    // Behind the last user of the list's memory, and of the memory that is written.
    join_streams(device_.stream(), stream_.get(), joint_);
    // Nothing else goes into the device by a copy engine, so that it waits for nothing.
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(slot.device.as(), slot.host.as(), bytes, cudaMemcpyHostToDevice, stream_.get()));
    return slot.device.as<const RowCopy>();
}

uint32_t RowGatherer::gather(const char* from, uint32_t* to, uint32_t row_words, const std::vector<RowCopy>& copies) {
    const uint32_t ticket = next_;
    next_ = (next_ + 1) % slots_.size();
    Slot& slot = slots_[ticket];
    slot.gathered.synchronize();  // of its last use, which was joined long ago
    if (!copies.empty()) {
        const RowCopy* const list = send(slot, copies);
        const dim3 grid(static_cast<unsigned>(std::min<uint64_t>(grid_, copies.size())));
        const auto launch_by = row_words % 4 == 0   ? launch_gather<uint4>
                               : row_words % 2 == 0 ? launch_gather<uint2>
                                                    : launch_gather<uint32_t>;
        timer_.begin("gather");
        launch_by(grid, shared_bytes_, stream_.get(), from, to, row_words, list, copies.size());
        timer_.end();
    }
    slot.gathered.record(stream_.get());
    return ticket;
}

void RowGatherer::wait_on_device(uint32_t ticket) {
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), slots_[ticket].gathered.get(), 0));
}

namespace {

std::unique_ptr<ResultWriter> writer_for(Device& device, const CoherentJoinSpec& spec, const CoherentShape& shape) {
    if (spec.join.result != JoinResultKind::kRows) return nullptr;
    return std::make_unique<ResultWriter>(device, shape.columns, spec.join.sizes.result_slots,
                                          spec.join.sizes.result_rows);
}

uint64_t tiles_for(uint64_t rows) {
    return (rows + kTileRows - 1) / kTileRows;
}

Allocation marks_for(Device& device, uint64_t rows, const char* what) {
    return rows == 0 ? Allocation() : device.memory().allocate(rows, what);
}

}  // namespace

// Pages for two groups: one is joined while the other comes.
GatheredJoin::GatheredJoin(Device& device, const CoherentJoinSpec& spec, const CoherentShape& shape, const char* base,
                           const FarSide& build, const FarSide& probe)
    : device_(device),
      shape_(shape),
      base_(reinterpret_cast<const uint32_t*>(base)),
      build_(build),
      probe_(probe),
      rules_(KindRules::of(spec.join.kind)),
      parcels_(device),
      pages_(device, parcels_, shape.rows.row_words, shape.page_rows, 2 * shape.group_pages, shape.partitions),
      index_(device, parcels_, pages_, shape.rows, spec.join.sizes.radix_bits, shape.group_rows()),
      staged_(device.memory().allocate(kUnitsAhead * shape.staged_rows * shape.rows.row_bytes(), "batches of rows")),
      build_marks_(marks_for(device, shape.build_marks, "marks of build rows")),
      probe_marks_(marks_for(device, shape.marked_rows, "marks of probe rows")),
      writer_(writer_for(device, spec, shape)),
      joiner_(device, parcels_, spec.join.result, shape.columns, shape.rows, shape.probe_tiles, writer_.get()),
      gatherer_(device, spec.options.gather_grid, spec.options.gather_alone),
      timer_(device.stream()) {}

void GatheredJoin::run(ResultSink* sink, StreamReport& report) {
    if (writer_ != nullptr) writer_->set_sink(sink);
    give_keyless();
    parts_ = plan_gathered_parts(shape_, rules_, build_, probe_);
    for (;;) {
        device_.check_cancelled();
        gather_ahead();
        if (ahead_.empty()) break;
        Unit unit = std::move(ahead_.front());
        ahead_.pop_front();
        use(unit);
    }
    report.result_rows = joiner_.total(report.sums);
    if (writer_ != nullptr) writer_->finish();
    device_.synchronize();
    report.h2d_bytes += far_rows_ * shape_.rows.row_bytes();
    report.d2h_bytes += writer_ == nullptr ? 0 : writer_->copied_bytes();
}

StageTimes GatheredJoin::stages() {
    StageTimes stages = gatherer_.milliseconds();
    for (PhaseTimer::Phase& phase : timer_.milliseconds()) stages.push_back(std::move(phase));
    return stages;
}

// Rows without a key have no partner: they are read where they lie, once.
void GatheredJoin::give_keyless() {
    for (const int side : {kBuildSide, kProbeSide}) {
        const bool is_build = side == kBuildSide;
        if (!(is_build ? rules_.build_keyless : rules_.probe_keyless)) continue;
        std::vector<RowPiece> pieces;
        far_rows_ += (is_build ? build_ : probe_).find_keyless(pieces);
        if (pieces.empty()) continue;
        LonePass pass;
        pass.rows = base_;
        pass.row_words = shape_.rows.row_words;
        pass.build_side = is_build;
        pass.has_key = false;
        timer_.begin("lone rows");
        joiner_.lone(pass, pieces);
        timer_.end();
    }
}

bool GatheredJoin::plan_units() {
    if (next_part_ == parts_.size()) return false;
    const GatheredPart& part = parts_[next_part_];
    if (!part.lone) plan_build(part);
    std::vector<RowPiece> pieces;
    for (const uint64_t partition : part.partitions) {
        const uint64_t rows = part.probe.of(probe_.rows(partition));
        far_rows_ += probe_.find(partition, part.probe.first, rows, pieces);
    }
    plan_probe(pieces);
    if (!planned_.empty()) planned_.back().last = true;
    ++next_part_;
    return true;
}

void GatheredJoin::plan_build(const GatheredPart& part) {
    Unit unit;
    unit.part = next_part_;
    unit.build = true;
    // The pool knows one list of pages for each partition.
    unit.waits = part.waits;
    for (const uint64_t partition : part.partitions) {
        const uint64_t rows = part.build.of(build_.rows(partition));
        far_rows_ += build_.find(partition, part.build.first, rows, unit.pieces);
        unit.pages += (rows + shape_.page_rows - 1) / shape_.page_rows;
    }
    planned_.push_back(std::move(unit));
}

// Cut into batches of so many rows where they are gathered, of so many tiles where they are not.
void GatheredJoin::plan_probe(const std::vector<RowPiece>& pieces) {
    const bool staged = shape_.staged_rows > 0;
    const uint64_t most = staged ? shape_.staged_rows : shape_.probe_tiles;
    uint64_t taken = most;  // the first piece begins a batch
    uint64_t before = 0;
    for (const RowPiece& piece : pieces) {
        for (uint64_t done = 0; done < piece.rows;) {
            if (taken == most) {
                planned_.emplace_back();
                planned_.back().part = next_part_;
                planned_.back().rows = base_;
                planned_.back().before = before;
                taken = 0;
            }
            const uint64_t room_rows = staged ? most - taken : (most - taken) * kTileRows;
            const uint64_t rows = std::min(piece.rows - done, room_rows);
            planned_.back().pieces.push_back({piece.begin + done, rows, piece.partition});
            taken += staged ? rows : tiles_for(rows);
            done += rows;
            before += rows;
        }
    }
}

// Parts without probe rows may follow each other, so that pages can be short before as many units are ahead as may be.
void GatheredJoin::gather_ahead() {
    while (ahead_.size() < kUnitsAhead) {
        while (planned_.empty()) {
            if (!plan_units()) return;
        }
        const bool must_wait = planned_.front().waits || planned_.front().pages > pages_.free_pages();
        if (must_wait && !ahead_.empty()) return;
        gather(planned_.front());
        ahead_.push_back(std::move(planned_.front()));
        planned_.pop_front();
    }
}

// Waits on the device for all that is enqueued there, so that pages and batches which units before have given back are
// free. Units that are ahead keep theirs.
void GatheredJoin::gather(Unit& unit) {
    if (unit.build) {
        unit.ticket = gatherer_.gather(reinterpret_cast<const char*>(base_), pages_.data(), shape_.rows.row_words,
                                       pages_.allot(unit.pieces));
    } else if (shape_.staged_rows > 0) {
        gather_probe(unit);
    }
}

// Rows of a partition become one piece, wherever their pages were.
void GatheredJoin::gather_probe(Unit& unit) {
    uint32_t* const to = staged_.as<uint32_t>() + next_staged_ * shape_.staged_rows * shape_.rows.row_words;
    next_staged_ = (next_staged_ + 1) % kUnitsAhead;
    std::vector<RowCopy> copies;
    std::vector<RowPiece> pieces;
    uint64_t at = 0;
    for (const RowPiece& piece : unit.pieces) {
        copies.push_back({piece.begin, at, piece.rows});
        if (pieces.empty() || pieces.back().partition != piece.partition) pieces.push_back({at, 0, piece.partition});
        pieces.back().rows += piece.rows;
        at += piece.rows;
    }
    unit.ticket = gatherer_.gather(reinterpret_cast<const char*>(base_), to, shape_.rows.row_words, copies);
    unit.rows = to;
    unit.pieces = std::move(pieces);
}

void GatheredJoin::use(Unit& unit) {
    const GatheredPart& part = parts_[unit.part];
    if (unit.build || shape_.staged_rows > 0) {
        timer_.begin("wait");
        gatherer_.wait_on_device(unit.ticket);
    }
    if (unit.build) {
        timer_.begin("index");
        index_build_rows(part);
    } else {
        timer_.begin(part.lone ? "lone rows" : "probe");
        use_probe_rows(part, unit);
    }
    timer_.end();
    if (unit.last && !part.lone) finish(part);
}

// Partitions without build rows have no index: their probe rows find no partner.
void GatheredJoin::index_build_rows(const GatheredPart& part) {
    std::vector<uint64_t> filled;
    for (const uint64_t partition : part.partitions) {
        if (pages_.rows(partition) > 0) filled.push_back(partition);
    }
    index_.build(filled);
    if (part.build_marks) {
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(build_marks_.as(), 0, build_marks_.bytes(), device_.stream()));
    }
    if (part.clears) {
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(probe_marks_.as(), 0, probe_marks_.bytes(), device_.stream()));
    }
}

void GatheredJoin::use_probe_rows(const GatheredPart& part, const Unit& unit) {
    uint8_t* const probe_marks = part.probe_marks ? probe_marks_.as<uint8_t>() + unit.before : nullptr;
    if (part.lone) {
        // All parts of the build side have marked them.
        LonePass pass;
        pass.rows = unit.rows;
        pass.row_words = shape_.rows.row_words;
        pass.marks = probe_marks;
        pass.marked = rules_.probe_marked();
        joiner_.lone(pass, unit.pieces);
        return;
    }
    RowPieces batch;
    batch.rows = unit.rows;
    batch.row_words = shape_.rows.row_words;
    uint8_t* const build_marks = part.build_marks ? build_marks_.as<uint8_t>() : nullptr;
    joiner_.probe(batch, unit.pieces, index_.view(), part.rule, build_marks, probe_marks);
}

void GatheredJoin::finish(const GatheredPart& part) {
    std::vector<RowPiece> pieces;
    for (const uint64_t partition : part.partitions) {
        const std::vector<RowPiece> own = pages_.pieces(partition);
        pieces.insert(pieces.end(), own.begin(), own.end());
        pages_.release(partition);
    }
    if (!part.build_marks || pieces.empty()) return;
    LonePass pass;
    pass.rows = pages_.data();
    pass.row_words = shape_.rows.row_words;
    pass.marks = build_marks_.as<const uint8_t>();
    pass.marked = rules_.build_marked;
    pass.build_side = true;
    timer_.begin("lone rows");
    joiner_.lone(pass, pieces);
    timer_.end();
}

}}  // namespace spillway::cuda::coherent_join
