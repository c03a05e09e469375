// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "baseline_join/baseline_join.hpp"
#include "baseline_join/host_runs.hpp"
#include "device/device.hpp"
#include "device/host_clock.hpp"
#include "staged_join/join_state.hpp"
#include "staged_join/staged_join.hpp"
#include "stream/partition_groups.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// What comes in one slot of the ring.
struct Unit {
    size_t group = 0;
    int side = kBuildSide;
    bool last = false;  // of its side of the group
    std::vector<HostFragment> fragments;
};

// Build rows that are indexed at once, of so many partitions or a part of one.
using Group = std::vector<uint64_t>;

class CpuPartitionedJoin final : public StreamOperator {
  public:
    CpuPartitionedJoin(Device& device, const BaselineSpec& spec)
        : StreamOperator(device),
          spec_(spec.join),
          overlap_(spec.overlap),
          shape_(JoinShape::make(spec.join)),
          runs_(device, shape_.rows, spec.join.sizes.radix_bits, spec.threads, spec.join.sizes.spill_bytes),
          parcels_(device),
          ring_(device, spec_.sizes.chunk_slots, shape_.memory.slot_bytes),
          pages_(device, parcels_, shape_.rows[kBuildSide].row_words, spec_.sizes.page_rows, spec_.sizes.pages,
                 shape_.partitions),
          index_(device, parcels_, pages_, shape_.rows[kBuildSide], spec_.sizes.radix_bits, shape_.memory.index_rows),
          writer_(spec_.result == JoinResultKind::kRows
                      ? std::make_unique<ResultWriter>(device, shape_.columns, spec_.sizes.result_slots,
                                                       spec_.sizes.result_rows)
                      : nullptr),
          joiner_(device, parcels_, spec_.result, shape_.columns, shape_.rows[kProbeSide], shape_.memory.probe_tiles,
                  writer_.get()) {}

  private:
    void begin_input(int input, ChunkOwner& owner, ResultSink* sink) override {
        if (input == kProbeSide) check_sink(spec_.result, sink);
        if (writer_ != nullptr) writer_->set_sink(sink);
        input_ = input;
        owner_ = &owner;
        clock_ = {};
        if (input == kProbeSide) plan_working_set();
    }
    void read(const Chunk& chunk) override {
        // Nothing is left to do beside the build side, and beside the probe side when the working set is there.
        const bool beside = overlap_ && used_ < units_.size();
        runs_.add(input_, chunk, beside ? [this] { return advance(); } : CpuPartitioner::Beside());
        report_.rows[input_] += chunk.rows;
        owner_->release();
    }
    void end_input() override {
        report_.input_ms[input_] = clock_.passed_ms();
        if (input_ == kBuildSide) return;
        const HostClock joining;
        plan_groups();
        join_units();
        report_.result_rows = joiner_.total(report_.sums);
        if (writer_ != nullptr) writer_->finish();
        device_.synchronize();
        report_.h2d_bytes = ring_.copied_bytes();
        report_.d2h_bytes = writer_ == nullptr ? 0 : writer_->copied_bytes();
        report_.spilled_ms = joining.passed_ms();
    }

    uint64_t indexed_rows_max() const { return std::min(index_.partition_rows_max(), pages_.capacity_rows()); }

    // The build side is partitioned: what of it finds room in GPU memory is the first group, whose rows come and are
    // indexed while the host's cores partition the probe side.
    void plan_working_set() {
        kept_.resize(shape_.partitions);
        Group group;
        uint64_t pages = spec_.sizes.pages;
        for (uint64_t p = 0; p < shape_.partitions && group.size() < spec_.sizes.resident_partitions; ++p) {
            const uint64_t rows = runs_.rows(kBuildSide, p);
            const uint64_t wanted = pages_.pages_for(p, rows);
            if (rows == 0 || rows > indexed_rows_max() || wanted > pages) continue;
            pages -= wanted;
            kept_[p] = true;
            group.push_back(p);
        }
        report_.resident_partitions = group.size();
        if (group.empty()) return;
        groups_.push_back(group);
        add_units(kBuildSide, runs_.find(kBuildSide, group));
    }

    // Neighbouring partitions join together, as many as fit the pages or make work for some chunks' time.
    void plan_groups() {
        if (!groups_.empty()) add_units(kProbeSide, runs_.find(kProbeSide, groups_.front()));
        const uint64_t rows_max = kGroupChunksApart * spec_.sizes.chunk_rows;
        PartitionGroups groups({rows_max, spec_.sizes.pages, UINT64_MAX});
        for (uint64_t p = 0; p < shape_.partitions; ++p) {
            const uint64_t rows = runs_.rows(kBuildSide, p);
            if (kept_[p] || rows == 0 || runs_.rows(kProbeSide, p) == 0) continue;
            const GroupWeights weights = {rows, pages_.pages_for(p, rows), 1};
            rows > indexed_rows_max() ? groups.add_alone(p, weights) : groups.add(p, weights);
        }
        for (const PartitionGroup& group : groups.finish()) {
            if (group.alone) {
                add_large(group.partitions.front());
            } else {
                add_group(group.partitions, runs_.find(kBuildSide, group.partitions));
            }
        }
    }

    // A build partition that cannot be indexed at once comes in parts, its probe rows as often.
    void add_large(uint64_t partition) {
        const uint64_t rows_max = indexed_rows_max();
        std::vector<HostFragment> part;
        uint64_t rows = 0;
        const auto close = [&] {
            if (!part.empty()) add_group({partition}, part);
            part.clear();
            rows = 0;
        };
        for (HostFragment left : runs_.find(kBuildSide, {partition})) {
            while (left.rows > 0) {
                part.push_back(take(kBuildSide, left, rows_max - rows));
                rows += part.back().rows;
                if (rows == rows_max) close();
            }
        }
        close();
    }

    // The first rows of what is left, `rows` at most.
    HostFragment take(int side, HostFragment& left, uint64_t rows) const {
        HostFragment taken = left;
        taken.rows = std::min(left.rows, rows);
        left.data += taken.rows * shape_.rows[side].row_bytes();
        left.rows -= taken.rows;
        return taken;
    }

    void add_group(const Group& group, const std::vector<HostFragment>& build) {
        groups_.push_back(group);
        add_units(kBuildSide, build);
        add_units(kProbeSide, runs_.find(kProbeSide, group));
    }

    void add_units(int side, const std::vector<HostFragment>& fragments) {
        Unit unit;
        unit.group = groups_.size() - 1;
        unit.side = side;
        uint64_t rows = 0;
        uint64_t tiles = 0;
        for (HostFragment left : fragments) {
            while (left.rows > 0) {
                // Tiles suffice for a fragment of any size in an empty unit.
                const uint64_t some = std::min(left.rows, spec_.sizes.chunk_rows - rows);
                const uint64_t more_tiles = (some + kTileRows - 1) / kTileRows;
                if (some == 0 || tiles + more_tiles > shape_.memory.probe_tiles) {
                    units_.push_back(unit);
                    unit.fragments.clear();
                    rows = 0;
                    tiles = 0;
                    continue;
                }
                unit.fragments.push_back(take(side, left, some));
                rows += some;
                tiles += more_tiles;
            }
        }
        unit.last = true;
        units_.push_back(std::move(unit));
    }

    // Copies run ahead by as many slots as there are.
    void fetch_ahead() {
        const size_t last = std::min<size_t>(units_.size(), used_ + ring_.slots());
        while (slots_.size() < last) slots_.push_back(fetch(slots_.size()));
    }
    void use_next() {
        fetch_ahead();
        use(units_[used_], slots_[used_]);
        ++used_;
    }

    // Takes what has been copied by now. The host would wait for copies that others only begin when it has gone on:
    // lists for kernels lie in few places, each free when the kernel before has read it.
    bool advance() {
        device_.check_cancelled();
        fetch_ahead();
        while (used_ < slots_.size() && ring_.is_copied(slots_[used_])) {
            use_next();
            fetch_ahead();
        }
        return used_ < units_.size();
    }

    void join_units() {
        while (used_ < units_.size()) {
            device_.check_cancelled();
            use_next();
        }
    }

    // Fragments that follow each other in memory are one copy.
    uint32_t fetch(size_t index) {
        const Unit& unit = units_[index];
        const uint64_t row_bytes = shape_.rows[unit.side].row_bytes();
        const uint32_t slot = ring_.take();
        uint64_t at = 0;
        const uint8_t* from = nullptr;
        uint64_t bytes = 0;
        const auto copy = [&] {
            ring_.copy(slot, at, from, bytes);
            at += bytes;
            bytes = 0;
        };
        for (const HostFragment& fragment : unit.fragments) {
            if (bytes > 0 && from + bytes != fragment.data) copy();
            if (bytes == 0) from = fragment.data;
            bytes += fragment.rows * row_bytes;
        }
        copy();
        ring_.filled(slot);
        return slot;
    }

    void take_rows(int side, const RowPieces& batch) {
        if (side == kBuildSide) return pages_.append(batch, batch.pieces);
        joiner_.probe(batch, batch.pieces, index_.view(), shape_.rules.probe, nullptr, nullptr);
    }

    void use(const Unit& unit, uint32_t slot) {
        RowPieces batch;
        batch.rows = reinterpret_cast<const uint32_t*>(ring_.data(slot));
        batch.row_words = shape_.rows[unit.side].row_words;
        uint64_t begin = 0;
        for (const HostFragment& fragment : unit.fragments) {
            batch.pieces.push_back({begin, fragment.rows, fragment.partition});
            begin += fragment.rows;
        }
        ring_.wait_on_device(slot);
        if (!batch.pieces.empty()) take_rows(unit.side, batch);
        ring_.emptied(slot);
        if (!unit.last) return;
        const Group& group = groups_[unit.group];
        if (unit.side == kBuildSide) {
            index_.build(group);
        } else {
            for (const uint64_t partition : group) pages_.release(partition);
        }
    }

    const StagedJoinSpec spec_;
    const bool overlap_;
    const JoinShape shape_;
    HostRuns runs_;  // before the ring, which waits for copies from them
    Parcels parcels_;
    CopyRing ring_;
    RowPages pages_;
    RowIndex index_;
    std::unique_ptr<ResultWriter> writer_;
    ProbeJoiner joiner_;
    std::vector<bool> kept_;  // partitions of the working set
    std::vector<Group> groups_;
    std::vector<Unit> units_;
    std::vector<uint32_t> slots_;  // of units that have been fetched
    size_t used_ = 0;              // units
    int input_ = 0;
    ChunkOwner* owner_ = nullptr;
    HostClock clock_;
};

}  // namespace

std::unique_ptr<StreamOperator> open_cpu_partitioned_join(Device& device, const BaselineSpec& spec) {
    check_inner(spec.join);
    // Build rows come back into these pages, one group of partitions after the other.
    if (spec.join.sizes.pages == 0) throw Error(ErrorCode::kInvalid, "build rows need at least a page");
    device.make_current();
    return std::make_unique<CpuPartitionedJoin>(device, spec);
}

}}  // namespace spillway::cuda::baseline_join
