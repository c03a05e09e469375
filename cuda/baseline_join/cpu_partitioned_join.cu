// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "baseline_join/baseline_join.hpp"
#include "baseline_join/cpu_partition.hpp"
#include "device/device.hpp"
#include "device/host_clock.hpp"
#include "radix_partition/row_layout.hpp"
#include "staged_join/join_state.hpp"
#include "staged_join/staged_join.hpp"
#include "stream/partition_groups.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// Rows of one partition in pinned host memory, one behind the other.
struct HostFragment {
    const uint8_t* data = nullptr;
    uint64_t rows = 0;
    uint64_t partition = 0;
};

// Both sides in partitions of packed rows, in pinned host memory: a run for every chunk of a source.
class HostRuns {
  public:
    // limit_bytes: of all runs of both sides.
    HostRuns(Device& device, const RowLayout (&layouts)[2], int radix_bits, uint32_t threads, uint64_t limit_bytes);

    // Partitions a chunk on the host's cores.
    void add(int side, const Chunk& chunk);

    uint64_t rows(int side, uint64_t partition) const { return rows_[side][partition]; }  // that have a key
    // Fragments of these partitions, none without rows: run by run, as far as they follow each other in memory.
    std::vector<HostFragment> find(int side, const std::vector<uint64_t>& partitions) const;

  private:
    struct Run {
        PinnedBlock rows;
        std::vector<uint64_t> first;
    };

    Device& device_;
    const RowLayout layouts_[2];
    const int radix_bits_;
    const uint32_t threads_;
    const uint64_t limit_bytes_;
    uint64_t used_bytes_ = 0;
    std::vector<Run> runs_[2];
    std::vector<uint64_t> rows_[2];
};

// The host's cores would fault on other memory.
void check_on_host(const void* data) {
    cudaPointerAttributes attributes{};
    SPILLWAY_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
    if (attributes.type == cudaMemoryTypeDevice) {
        throw Error(ErrorCode::kInvalid, "the CPU partitions rows of host memory alone");
    }
}

Error limit_error(uint64_t wanted_bytes, uint64_t used_bytes, uint64_t limit_bytes) {
    Error error(ErrorCode::kOutOfMemory, "rows partitioned by the CPU: " + std::to_string(wanted_bytes) +
                                             " bytes of host memory wanted, but " + std::to_string(used_bytes) +
                                             " of the limit of " + std::to_string(limit_bytes) + " are in use");
    error.tier = Tier::kHost;
    error.limit_reached = true;
    error.wanted_bytes = wanted_bytes;
    error.free_bytes = limit_bytes - used_bytes;
    error.limit_bytes = limit_bytes;
    return error;
}

HostRuns::HostRuns(Device& device, const RowLayout (&layouts)[2], int radix_bits, uint32_t threads,
                   uint64_t limit_bytes)
    : device_(device),
      layouts_{layouts[0], layouts[1]},
      radix_bits_(radix_bits),
      threads_(threads),
      limit_bytes_(limit_bytes) {
    for (auto& rows : rows_) rows.resize(1ULL << radix_bits);
}

void HostRuns::add(int side, const Chunk& chunk) {
    device_.check_cancelled();
    if (chunk.rows == 0) return;
    if (chunk.columns.size() != layouts_[side].widths.size()) {
        throw Error(ErrorCode::kInvalid, "a chunk has other columns than the plan says");
    }
    check_on_host(chunk.key);
    for (const void* column : chunk.columns) check_on_host(column);
    CpuPartitioner partitioner(layouts_[side], radix_bits_, threads_, chunk, device_.cancelled());
    partitioner.count();
    device_.check_cancelled();
    const uint64_t bytes = partitioner.rows() * layouts_[side].row_bytes();
    if (bytes == 0) return;
    if (bytes > limit_bytes_ - used_bytes_) throw limit_error(bytes, used_bytes_, limit_bytes_);
    Run run;
    run.rows = device_.staging().allocate(bytes, "rows partitioned by the CPU");
    used_bytes_ += bytes;
    partitioner.move(run.rows.as<uint8_t>());
    device_.check_cancelled();
    run.first = partitioner.first();
    for (uint64_t p = 0; p < rows_[side].size(); ++p) rows_[side][p] += run.first[p + 1] - run.first[p];
    runs_[side].push_back(std::move(run));
}

std::vector<HostFragment> HostRuns::find(int side, const std::vector<uint64_t>& partitions) const {
    std::vector<HostFragment> fragments;
    for (const Run& run : runs_[side]) {
        for (const uint64_t partition : partitions) {
            const uint64_t rows = run.first[partition + 1] - run.first[partition];
            if (rows == 0) continue;
            const uint64_t at = run.first[partition] * layouts_[side].row_bytes();
            fragments.push_back({run.rows.as<const uint8_t>() + at, rows, partition});
        }
    }
    return fragments;
}

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
    }
    void read(const Chunk& chunk) override {
        runs_.add(input_, chunk);
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

    // Neighbouring partitions join together, as many as fit the pages or make work for some chunks' time.
    void plan_groups() {
        const uint64_t rows_max = kGroupChunksApart * spec_.sizes.chunk_rows;
        PartitionGroups groups({rows_max, spec_.sizes.pages, UINT64_MAX});
        for (uint64_t p = 0; p < shape_.partitions; ++p) {
            const uint64_t rows = runs_.rows(kBuildSide, p);
            if (rows == 0 || runs_.rows(kProbeSide, p) == 0) continue;
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
    void join_units() {
        std::vector<uint32_t> slots(units_.size());
        size_t fetched = 0;
        for (size_t u = 0; u < units_.size(); ++u) {
            device_.check_cancelled();
            for (; fetched < units_.size() && fetched < u + ring_.slots(); ++fetched) slots[fetched] = fetch(fetched);
            use(units_[u], slots[u]);
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
        if (unit.side == kBuildSide) {
            pages_.append(batch, batch.pieces);
        } else {
            joiner_.probe(batch, batch.pieces, index_.view(), shape_.rules.probe, nullptr, nullptr);
        }
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
    const JoinShape shape_;
    HostRuns runs_;  // before the ring, which waits for copies from them
    Parcels parcels_;
    CopyRing ring_;
    RowPages pages_;
    RowIndex index_;
    std::unique_ptr<ResultWriter> writer_;
    ProbeJoiner joiner_;
    std::vector<Group> groups_;
    std::vector<Unit> units_;
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
