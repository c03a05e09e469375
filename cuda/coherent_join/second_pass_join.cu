// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include "coherent_join/coherent_policy.hpp"
#include "coherent_join/second_pass_join.hpp"
#include "device/launch.hpp"
#include "hash_join/join_memory.hpp"
#include "hash_join/perfect_join.hpp"
#include "primitive/warp.cuh"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/tile_size.hpp"
#include "stream/partition_groups.hpp"

namespace spillway::cuda { inline namespace coherent_join {

namespace {

// Bytes: 64 per region.
__global__ void __launch_bounds__(kPlaceThreads)
    move_regions(const uint64_t* shift, uint64_t regions, int bits, uint64_t* begin, uint64_t* end, uint64_t* front,
                 uint64_t* back) {
    const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kPlaceThreads + threadIdx.x;
    if (i >= regions) return;
    const uint64_t rows = shift[i >> bits];
    for (uint64_t* const place : {begin, end, front, back}) place[i] += rows;
}

// largest[p], 0 before, becomes the rows of the largest region of partition p. A block each.
__global__ void __launch_bounds__(kPlaceThreads)
    largest_regions_kernel(const uint64_t* counts, int bits, unsigned long long* largest) {
    uint64_t own = 0;
    for (uint32_t i = threadIdx.x; i < 1U << bits; i += kPlaceThreads) {
        own = max(own, counts[(static_cast<uint64_t>(blockIdx.x) << bits) + i]);
    }
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        own = max(own, __shfl_xor_sync(kFullWarp, own, distance));
    }
    if (lane_index() == 0) atomicMax(&largest[blockIdx.x], static_cast<unsigned long long>(own));
}

}  // namespace

RegionPlaces::RegionPlaces(Device& device, const uint64_t* counts, uint64_t partitions, int bits)
    : device_(device),
      numbers_(2 * partitions),
      bits_(bits),
      regions_(Regions::open(device, counts, numbers_ << bits)),
      first_(numbers_ + 1) {
    SPILLWAY_CUDA_CHECK(cudaMemcpy2DAsync(first_.data(), sizeof(uint64_t), regions_.begin.as(),
                                          sizeof(uint64_t) << bits, sizeof(uint64_t), first_.size(),
                                          cudaMemcpyDeviceToHost, device.stream()));
    device.synchronize();
}

void RegionPlaces::place(Parcels& parcels, const std::vector<uint64_t>& first) {
    std::vector<uint64_t> shift(numbers_);
    for (uint64_t number = 0; number < numbers_; ++number) shift[number] = first[number] - first_[number];  // mod 2^64
    const uint64_t regions = numbers_ << bits_;
    const dim3 blocks = grid_of_threads(regions, kPlaceThreads);
    launch(move_regions, blocks, dim3(kPlaceThreads), 0, device_.stream(), parcels.send(shift), regions, bits_,
           regions_.begin.as<uint64_t>(), regions_.end.as<uint64_t>(), front(), back());
}

namespace {

bool wants_keys(const ResultWindow& columns) {
    for (int32_t c = 0; c < columns.columns; ++c) {
        if (static_cast<OutputSide>(columns.column[c].side) == OutputSide::kKey) return true;
    }
    return false;
}

uint32_t multiprocessors_of(const Device& device) {
    return static_cast<uint32_t>(device.properties().multiprocessors);
}

RegionTables tables_of(const CoherentOptions& options) {
    if (options.perfect_hash) return {0, true};
    if (options.table_buckets == 0) return {};
    if (options.table_buckets < kBucketsMin) throw Error(ErrorCode::kInvalid, "tables have 16 buckets at least");
    return {options.table_buckets / 4 * 4, false};
}

uint32_t split_blocks(const Device& device, const CoherentOptions& options) {
    if (!options.gather_alone) return 0;
    if (options.gather_grid > 0) return options.gather_grid;
    return std::max(1U, multiprocessors_of(device) / kSecondPassMultiprocessorShare);
}

}  // namespace

SecondPassJoin::SecondPassJoin(Device& device, const CoherentJoinSpec& spec, const CoherentShape& shape,
                               const char* base, const FarSide& build, const FarSide& probe,
                               const uint64_t* split_counts)
    : device_(device),
      shape_(shape),
      base_(base),
      sides_{&build, &probe},
      gives_sums_(spec.join.result == JoinResultKind::kSums),
      perfect_(spec.options.perfect_hash),
      done_(spec.join.sizes.radix_bits),
      bits_(shape.split_bits),
      tile_rows_(shape.split_tile_rows(device)),
      split_counts_(split_counts),
      blocks_(split_blocks(device, spec.options)),
      join_blocks_(blocks_ < multiprocessors_of(device) ? multiprocessors_of(device) - blocks_ : 0),
      parcels_(device, kSecondPassLists),
      regions_(device, split_counts, shape.partitions, bits_),
      split_rows_(device.memory().allocate(2 * kSecondPassSlots * shape.split_rows() * shape.rows.row_bytes(),
                                           "partitions of the second pass")),
      sums_(device, shape.rows, gives_sums_ && wants_keys(shape.columns), tables_of(spec.options)),
      split_timer_(stream_.get()),
      timer_(device.stream()) {}

SecondPassJoin::~SecondPassJoin() {
    discard(cudaStreamSynchronize(stream_.get()));  // a lost device runs nothing any more
}

void SecondPassJoin::run(StreamReport& report) {
    largest_ = largest_regions();
    plan_units();
    regions_.place(parcels_, places());
    for (size_t i = 0, ahead = 0; i < units_.size(); ++i) {
        device_.check_cancelled();
        for (; ahead < units_.size() && ahead < i + kSecondPassSlots; ++ahead) {
            // Nothing is joined beside the first one, and nothing is partitioned beside the last.
            split(units_[ahead], static_cast<uint32_t>(ahead % kSecondPassSlots), ahead == 0 ? 0 : blocks_);
        }
        join(units_[i], static_cast<uint32_t>(i % kSecondPassSlots), i + 1 == units_.size() ? 0 : join_blocks_);
    }
    for (const Unit& unit : deep_) join_deep(unit);
    for (const uint64_t partition : large_) join_large(partition);
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

StageTimes SecondPassJoin::stages() {
    StageTimes stages = split_timer_.milliseconds();
    for (PhaseTimer::Phase& phase : timer_.milliseconds()) stages.push_back(std::move(phase));
    return stages;
}

// Without rows on one side a partition has no result: it takes no room in its group, and is not read.
bool SecondPassJoin::has_both(uint64_t partition) const {
    return sides_[kBuildSide]->rows(partition) > 0 && sides_[kProbeSide]->rows(partition) > 0;
}

std::vector<uint64_t> SecondPassJoin::largest_regions() const {
    const Allocation largest = device_.memory().allocate(shape_.partitions * sizeof(uint64_t), "largest regions");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(largest.as(), 0, largest.bytes(), device_.stream()));
    launch(largest_regions_kernel, dim3(static_cast<unsigned>(shape_.partitions)), dim3(kPlaceThreads), 0,
           device_.stream(), split_counts_, bits_, largest.as<unsigned long long>());
    std::vector<uint64_t> rows(shape_.partitions);
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(rows.data(), largest.as(), largest.bytes(), cudaMemcpyDeviceToHost, device_.stream()));
    device_.synchronize();
    return rows;
}

int SecondPassJoin::third_bits(uint64_t region_rows) const {
    const DeviceProperties& gpu = device_.properties();
    const auto room_rows = [&](int bits) -> uint64_t {
        if (perfect_) return perfect_slots(gpu, shape_.rows.key_words);
        return block_room(gpu, shape_.rows.key_words, shape_.rows.row_words, done_ + bits_ + bits).rows;
    };
    if (region_rows <= kThirdPassPieces * room_rows(0)) return 0;
    const int most = std::min(kThirdPassBitsMax, pass_bits_max(gpu, static_cast<int>(shape_.rows.row_words)));
    int bits = 1;
    while (bits < most && region_rows >> bits > room_rows(bits)) ++bits;
    return bits;
}

// Neighbouring partitions, as many as fit a group.
void SecondPassJoin::plan_units() {
    const uint64_t rows_max = shape_.group_rows();
    PartitionGroups groups({rows_max, rows_max, kSecondPassPartitions});
    for (uint64_t p = 0; p < shape_.partitions; ++p) {
        check_counts(p);
        GroupWeights weights = {0, 0, 1};
        for (size_t side = 0; side < 2 && has_both(p); ++side) weights[side] = sides_[side]->rows(p);
        const bool is_deep = has_both(p) && third_bits(largest_[p]) > 0;
        const bool is_large = std::max(weights[kBuildSide], weights[kProbeSide]) > rows_max;
        is_large || is_deep ? groups.add_alone(p, weights) : groups.add(p, weights);
    }
    for (const PartitionGroup& group : groups.finish()) {
        const uint64_t first = group.partitions.front();
        const Unit unit = {first, group.partitions.size(), {group.weights[kBuildSide], group.weights[kProbeSide]}};
        if (group.alone && std::max(unit.rows[kBuildSide], unit.rows[kProbeSide]) > rows_max) {
            large_.push_back(first);
        } else if (unit.rows[kBuildSide] > 0) {
            (group.alone ? deep_ : units_).push_back(unit);
        }
    }
}

// What the first pass has counted decides where rows are moved to.
void SecondPassJoin::check_counts(uint64_t partition) const {
    for (int side = 0; side < 2; ++side) {
        const uint64_t rows = sides_[side]->rows(partition);
        const uint64_t padded = regions_.padded_rows(static_cast<uint64_t>(side) * shape_.partitions + partition);
        if (rows > padded || padded - rows > (kRegionAlignRows - 1) << bits_) {
            throw Error(ErrorCode::kInternal, "rows were counted wrong for the second pass");
        }
    }
}

// Returns where the rows of each partition of a unit begin in the slot of the unit: those of the build side lie from 0
// on, those of the probe side behind the room of all build rows.
std::vector<uint64_t> SecondPassJoin::places() const {
    std::vector<uint64_t> first(2 * shape_.partitions);
    std::vector<Unit> all = units_;
    all.insert(all.end(), deep_.begin(), deep_.end());
    for (const Unit& unit : all) {
        for (int side = 0; side < 2; ++side) {
            uint64_t row = static_cast<uint64_t>(side) * shape_.split_rows();
            for (uint64_t p = unit.first; p < unit.first + unit.partitions; ++p) {
                const uint64_t number = static_cast<uint64_t>(side) * shape_.partitions + p;
                first[number] = row;
                if (has_both(p)) row += regions_.padded_rows(number);
            }
        }
    }
    return first;
}

// split_rows() of the build side, as many of the probe side behind them.
uint32_t* SecondPassJoin::slot_rows(uint32_t slot, int side) const {
    const uint64_t rows = (2 * slot + static_cast<uint64_t>(side)) * shape_.split_rows();
    return split_rows_.as<uint32_t>() + rows * shape_.rows.row_words;
}

// Behind all that is on the device's stream: the list of its pages, and the join that used the slot last. Later work,
// that of the unit before, is enqueued there when this has been.
void SecondPassJoin::split(const Unit& unit, uint32_t slot, uint32_t blocks) {
    Input input;
    std::vector<RowPiece> pieces;
    for (int side = 0; side < 2; ++side) {
        for (uint64_t p = unit.first; p < unit.first + unit.partitions; ++p) {
            if (!has_both(p)) continue;
            pieces.clear();
            far_rows_ += sides_[side]->find(p, 0, sides_[side]->rows(p), pieces);
            add(input, pieces, static_cast<uint64_t>(side) * shape_.partitions + p);
        }
    }
    RowRegions in = send(input);
    in.blocks = blocks;
    in.stream = stream_.get();
    join_streams(device_.stream(), stream_.get(), joint_);
    split_timer_.begin("partition");
    move_split(device_, shape_.rows, in, done_, bits_, regions_.front(), regions_.back(), slot_rows(slot, kBuildSide));
    split_timer_.end();
    split_[slot].record(stream_.get());
}

void SecondPassJoin::join(const Unit& unit, uint32_t slot, uint32_t multiprocessors) {
    timer_.begin("wait");
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), split_[slot].get(), 0));
    timer_.begin("join");
    const auto of = [&](int side) {
        const uint64_t number = static_cast<uint64_t>(side) * shape_.partitions + unit.first;
        return RegionRows{slot_rows(slot, kBuildSide), regions_.begin(number), regions_.end(number), unit.rows[side]};
    };
    sums_.add(of(kBuildSide), of(kProbeSide), unit.partitions << bits_, done_ + bits_, multiprocessors);
    timer_.end();
}

// Behind all units, since both slots are needed: the partition's regions are in the first one, what they become in the
// second.
void SecondPassJoin::join_deep(const Unit& unit) {
    device_.check_cancelled();
    const int bits = third_bits(largest_[unit.first]);
    split(unit, 0, 0);
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), split_[0].get(), 0));
    Split again[2];
    for (int side = 0; side < 2; ++side) {
        const uint64_t number = static_cast<uint64_t>(side) * shape_.partitions + unit.first;
        again[side] =
            split_again({slot_rows(0, kBuildSide), regions_.begin(number), regions_.end(number), unit.rows[side]},
                        split_counts_ + (number << bits_), bits, side);
    }
    const auto of = [&](int side) {
        return RegionRows{slot_rows(1, side), again[side].regions.begin.as<const uint64_t>(),
                          again[side].regions.end.as<const uint64_t>(), unit.rows[side]};
    };
    timer_.begin("join");
    sums_.add(of(kBuildSide), of(kProbeSide), 1ULL << (bits_ + bits), done_ + bits_ + bits, 0);
    timer_.end();
}

SecondPassJoin::Split SecondPassJoin::split_again(const RegionRows& from, const uint64_t* counts, int bits, int side) {
    timer_.begin("third pass");
    const uint64_t regions = 1ULL << bits_;
    std::vector<uint64_t> parents(regions);
    std::iota(parents.begin(), parents.end(), 0);
    RowRegions in;
    in.tile_rows = cuda::split_tile_rows(device_, shape_.rows, bits);
    const Allocation tiles = first_tiles(device_, counts, regions, in.tile_rows);
    in.rows = from.rows;
    in.regions = regions;
    in.total_rows = from.count;
    in.begin = from.begin;
    in.end = from.end;
    in.parent = parcels_.send(parents);
    in.first_tile = tiles.as<const uint64_t>();
    Split split;
    split.counts = device_.memory().allocate((regions << bits) * sizeof(uint64_t), "histogram");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(split.counts.as(), 0, split.counts.bytes(), device_.stream()));
    count_split(device_, shape_.rows, in, done_ + bits_, bits, split.counts.as<uint64_t>());
    split.regions = Regions::open(device_, split.counts.as<const uint64_t>(), regions << bits);
    move_split(device_, shape_.rows, in, done_ + bits_, bits, split.regions.front.as<uint64_t>(),
               split.regions.back.as<uint64_t>(), slot_rows(1, side));
    timer_.end();
    return split;
}

// Every part of the build rows meets all probe rows of the partition, a part of them after the other: one key may have
// all of them, so that no further radix pass would help for certain. Parts are whole pages, whose rows the first pass
// has not counted each by itself: they are read twice.
void SecondPassJoin::join_large(uint64_t partition) {
    std::vector<std::vector<RowPiece>> parts[2];
    uint64_t far_rows[2] = {};
    for (int side = 0; side < 2; ++side) {
        std::vector<RowPiece> pieces;
        far_rows[side] = sides_[side]->find(partition, 0, sides_[side]->rows(partition), pieces);
        uint64_t room = 0;
        for (const RowPiece& piece : pieces) {
            if (piece.rows > room) {
                parts[side].emplace_back();
                room = shape_.group_rows();
            }
            parts[side].back().push_back(piece);
            room -= piece.rows;
        }
    }
    const auto rows_of = [](const std::vector<RowPiece>& pieces) {
        uint64_t rows = 0;
        for (const RowPiece& piece : pieces) rows += piece.rows;
        return rows;
    };
    for (const std::vector<RowPiece>& build_part : parts[kBuildSide]) {
        const uint64_t build_rows = rows_of(build_part);
        // This bounds regions of the mean size. No pass makes those of one key smaller.
        const int bits = third_bits(build_rows >> bits_);
        const Split build = split_part(build_part, kBuildSide, bits);
        for (const std::vector<RowPiece>& probe_part : parts[kProbeSide]) {
            device_.check_cancelled();
            const Split probe = split_part(probe_part, kProbeSide, bits);
            const auto of = [&](int side, const Split& split, uint64_t rows) {
                return RegionRows{slot_rows(bits > 0 ? 1 : 0, side), split.regions.begin.as<const uint64_t>(),
                                  split.regions.end.as<const uint64_t>(), rows};
            };
            timer_.begin("join");
            sums_.add(of(kBuildSide, build, build_rows), of(kProbeSide, probe, rows_of(probe_part)),
                      1ULL << (bits_ + bits), done_ + bits_ + bits, 0);
            timer_.end();
        }
        far_rows_ += 2 * far_rows[kProbeSide];
    }
    far_rows_ += 2 * far_rows[kBuildSide];
}

// more: bits of a third pass; 0: none.
SecondPassJoin::Split SecondPassJoin::split_part(const std::vector<RowPiece>& pieces, int side, int more) {
    timer_.begin("large partitions");
    Input input;
    add(input, pieces, 0);
    const RowRegions in = send(input);
    const uint64_t parts = 1ULL << bits_;
    Split split;
    split.counts = device_.memory().allocate(parts * sizeof(uint64_t), "histogram");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(split.counts.as(), 0, split.counts.bytes(), device_.stream()));
    count_split(device_, shape_.rows, in, done_, bits_, split.counts.as<uint64_t>());
    split.regions = Regions::open(device_, split.counts.as<const uint64_t>(), parts);
    move_split(device_, shape_.rows, in, done_, bits_, split.regions.front.as<uint64_t>(),
               split.regions.back.as<uint64_t>(), slot_rows(0, side));
    timer_.end();
    if (more == 0) return split;
    return split_again({slot_rows(0, side), split.regions.begin.as<const uint64_t>(),
                        split.regions.end.as<const uint64_t>(), input.rows},
                       split.counts.as<const uint64_t>(), more, side);
}

void SecondPassJoin::add(Input& input, const std::vector<RowPiece>& pieces, uint64_t parent) const {
    for (const RowPiece& piece : pieces) {
        input.begin.push_back(piece.begin);
        input.end.push_back(piece.begin + piece.rows);
        input.parent.push_back(parent);
        input.first_tile.push_back(input.first_tile.back() + (piece.rows + tile_rows_ - 1) / tile_rows_);
        input.rows += piece.rows;
    }
}

RowRegions SecondPassJoin::send(const Input& input) {
    const uint64_t count = input.begin.size();
    std::vector<uint64_t> words;
    words.reserve(4 * count + 1);
    for (const std::vector<uint64_t>* list : {&input.begin, &input.end, &input.parent, &input.first_tile}) {
        words.insert(words.end(), list->begin(), list->end());
    }
    const uint64_t* const sent = parcels_.send(words);
    RowRegions in;
    in.rows = reinterpret_cast<const uint32_t*>(base_);
    in.regions = count;
    in.total_rows = input.rows;
    in.begin = sent;
    in.end = sent + count;
    in.parent = sent + 2 * count;
    in.first_tile = sent + 3 * count;
    in.tile_rows = tile_rows_;
    return in;
}

}}  // namespace spillway::cuda::coherent_join
