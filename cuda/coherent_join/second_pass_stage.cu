// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "coherent_join/coherent_policy.hpp"
#include "coherent_join/second_pass_stage.hpp"
#include "hash_join/join_plan.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/split_regions.hpp"

namespace spillway::cuda {

namespace {

constexpr int kBuild = 0;
constexpr int kProbe = 1;

bool wants_keys(const ResultWindow& columns) {
    for (int32_t c = 0; c < columns.columns; ++c) {
        if (static_cast<OutputSide>(columns.column[c].side) == OutputSide::kKey) return true;
    }
    return false;
}

uint64_t aligned(uint64_t rows) {
    return (rows + kRegionAlignRows - 1) / kRegionAlignRows * kRegionAlignRows;
}

}  // namespace

SecondPassStage::SecondPassStage(Device& device, const CoherentSpec& spec, const CoherentShape& shape, const char* base,
                                 const FarSide& build, const FarSide& probe)
    : device_(device),
      shape_(shape),
      base_(base),
      sides_{&build, &probe},
      gives_sums_(spec.join.result == OutOfCoreResult::kSums),
      done_(spec.join.sizes.radix_bits),
      bits_(second_pass_bits(device, shape.rows, build.rows() >> done_, done_)),
      tile_rows_(split_tile_rows(device, shape.rows, bits_)),
      parcels_(device),
      gathered_(device.memory().allocate(2 * kSecondPassSlots * shape.area_rows() * shape.rows.row_bytes(),
                                         "groups of partitions")),
      gatherer_(device, spec.options.gather_grid, spec.options.gather_alone),
      sums_(device, shape.rows, gives_sums_ && wants_keys(shape.columns), gatherer_.left_multiprocessors()),
      timer_(device.stream()) {
    for (Allocation& rows : split_rows_) {
        rows = device.memory().allocate(shape.split_rows() * shape.rows.row_bytes(), "partitions of the second pass");
    }
}

void SecondPassStage::run(OutOfCoreReport& report) {
    plan_units();
    for (size_t i = 0, ahead = 0; i < units_.size(); ++i) {
        device_.check_cancelled();
        for (; ahead < units_.size() && ahead < i + kSecondPassSlots; ++ahead) {
            gather(units_[ahead], static_cast<uint32_t>(ahead % kSecondPassSlots));
        }
        use(units_[i], static_cast<uint32_t>(i % kSecondPassSlots));
        units_[i] = {};
    }
    const RegionSums::Totals totals = sums_.read();
    report.result_rows = totals.matches;
    if (gives_sums_) report.sums.clear();
    for (int32_t c = 0; gives_sums_ && c < shape_.columns.columns; ++c) {
        const auto side = static_cast<OutputSide>(shape_.columns.column[c].side);
        report.sums.push_back(side == OutputSide::kKey     ? totals.keys
                              : side == OutputSide::kBuild ? totals.build
                                                           : totals.probe);
    }
    report.h2d_bytes += far_rows_ * shape_.rows.row_bytes();
}

StageTimes SecondPassStage::stages() {
    StageTimes stages = gatherer_.milliseconds();
    for (PhaseTimer::Phase& phase : timer_.milliseconds()) stages.push_back(std::move(phase));
    return stages;
}

// Neighbouring partitions, as many as fit a group. Without rows on one side a partition has no result.
void SecondPassStage::plan_units() {
    Unit unit;
    uint64_t rows[2] = {};
    const auto close = [&] {
        if (!unit.partitions.empty()) units_.push_back(std::move(unit));
        unit = {};
        rows[kBuild] = rows[kProbe] = 0;
    };
    for (uint64_t p = 0; p < shape_.partitions; ++p) {
        const uint64_t more[2] = {sides_[kBuild]->rows(p), sides_[kProbe]->rows(p)};
        if (more[kBuild] == 0 || more[kProbe] == 0) continue;
        bool full = unit.partitions.size() == kSecondPassPartitions;
        for (int side = 0; side < 2; ++side) full = full || rows[side] + more[side] > shape_.group_rows();
        if (full) close();
        if (std::max(more[kBuild], more[kProbe]) > shape_.group_rows()) {
            plan_large(p);
            continue;
        }
        unit.partitions.push_back(p);
        for (int side = 0; side < 2; ++side) rows[side] += more[side];
    }
    close();
}

// Every part of the build rows meets all probe rows of the partition, a part of them after the other.
void SecondPassStage::plan_large(uint64_t partition) {
    const uint64_t step = shape_.group_rows();
    for (uint64_t build = 0; build < sides_[kBuild]->rows(partition); build += step) {
        for (uint64_t probe = 0; probe < sides_[kProbe]->rows(partition); probe += step) {
            Unit unit;
            unit.partitions = {partition};
            unit.first[kBuild] = build;
            unit.first[kProbe] = probe;
            unit.rows[kBuild] = unit.rows[kProbe] = step;
            unit.keeps_build = probe > 0;
            units_.push_back(std::move(unit));
        }
    }
}

uint32_t* SecondPassStage::gathered(uint32_t slot, int side) const {
    return gathered_.as<uint32_t>() +
           (2 * slot + static_cast<uint32_t>(side)) * shape_.area_rows() * shape_.rows.row_words;
}

// Waits on the device for all that is enqueued there: what used the slot last is. Later work, that of the unit before,
// is enqueued when this has been.
void SecondPassStage::gather(Unit& unit, uint32_t slot) {
    std::vector<RowCopy> copies;
    for (int side = unit.keeps_build ? kProbe : kBuild; side < 2; ++side) list(unit, side, copies);
    unit.ticket = gatherer_.gather(base_, gathered(slot, kBuild), shape_.rows.row_words, copies);
}

// Rows of a partition become one region, wherever their pages are: begin, end, parent of each, and its first tile.
void SecondPassStage::list(Unit& unit, int side, std::vector<RowCopy>& copies) {
    std::vector<RowPiece> pieces;
    for (const uint64_t partition : unit.partitions) {
        const uint64_t first = unit.first[side];
        const uint64_t rows = std::min(unit.rows[side], sides_[side]->rows(partition) - first);
        far_rows_ += sides_[side]->find(partition, first, rows, pieces);
    }
    const uint64_t count = unit.partitions.size();
    std::vector<uint64_t>& words = unit.words[side];
    words.assign(4 * count + 1, 0);
    uint64_t region = 0;
    uint64_t at = 0;
    uint64_t tiles = 0;
    for (size_t i = 0; i < pieces.size(); ++region) {
        words[region] = at = aligned(at);
        for (const uint64_t partition = pieces[i].partition; i < pieces.size() && pieces[i].partition == partition;
             ++i) {
            copies.push_back({pieces[i].begin, at + static_cast<uint64_t>(side) * shape_.area_rows(), pieces[i].rows});
            at += pieces[i].rows;
            unit.count[side] += pieces[i].rows;
        }
        words[count + region] = at;
        words[2 * count + region] = region;
        words[3 * count + region] = tiles;
        tiles += (at - words[region] + tile_rows_ - 1) / tile_rows_;
    }
    words[4 * count] = tiles;
    if (region != count) throw Error(ErrorCode::kInternal, "a partition without rows is joined");
}

void SecondPassStage::use(Unit& unit, uint32_t slot) {
    timer_.begin("wait");
    gatherer_.wait_on_device(unit.ticket);
    timer_.begin("partition");
    if (!unit.keeps_build) split(unit, kBuild, slot);
    split(unit, kProbe, slot);
    timer_.begin("join");
    RegionRows rows[2];
    for (int side = 0; side < 2; ++side) {
        rows[side].rows = split_rows_[side].as<const uint32_t>();
        rows[side].begin = split_[side].begin.as<const uint64_t>();
        rows[side].end = split_[side].end.as<const uint64_t>();
        rows[side].count = split_count_[side];
    }
    sums_.add(rows[kBuild], rows[kProbe], regions(unit), done_ + bits_);
    timer_.end();
}

void SecondPassStage::split(const Unit& unit, int side, uint32_t slot) {
    const uint64_t count = unit.partitions.size();
    const uint64_t* const words = parcels_.send(unit.words[side]);
    RowRegions in;
    in.rows = gathered(slot, side);
    in.regions = count;
    in.total_rows = unit.count[side];
    in.begin = words;
    in.end = words + count;
    in.parent = words + 2 * count;
    in.first_tile = words + 3 * count;
    in.multiprocessors = gatherer_.left_multiprocessors();
    const Allocation counts = device_.memory().allocate(regions(unit) * sizeof(uint64_t), "histogram");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counts.as(), 0, counts.bytes(), device_.stream()));
    count_split(device_, shape_.rows, in, done_, bits_, counts.as<uint64_t>());
    split_[side] = Regions::open(device_, counts.as<const uint64_t>(), regions(unit));
    move_split(device_, shape_.rows, in, done_, bits_, split_[side].front.as<uint64_t>(),
               split_[side].back.as<uint64_t>(), split_rows_[side].as<uint32_t>());
    split_count_[side] = unit.count[side];
}

}  // namespace spillway::cuda
