// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "primitive/prefix_sum.hpp"
#include "row_index/probe_joiner.hpp"
#include "row_index/row_index_policy.hpp"
#include "row_index/total.cuh"
#include "stream/write_result.cuh"

namespace spillway::cuda { inline namespace row_index {

namespace {

constexpr uint64_t kTotals = 1 + std::max(kSumColumnsMax, 2 * kSumPartsMax);

// body(row, whether it is wanted, group number) by all lanes of a warp.
template <class Body>
__device__ inline void for_lone_groups(const LonePass& pass, const Body& body) {
    const RowTile tile = row_tile(pass.tiles);
    const uint64_t first = pass.tiles.piece[tile.piece].begin + tile.offset;
    for (uint32_t g = warp_index(); g < kTileGroups && g * kGroupRows < tile.rows; g += kStreamWarps) {
        const uint32_t in_tile = g * kGroupRows + lane_index();
        const uint64_t row = first + in_tile;
        const bool wanted = in_tile < tile.rows && (pass.marks == nullptr || (pass.marks[row] != 0) == pass.marked);
        body(row, wanted, static_cast<uint64_t>(blockIdx.x) * kTileGroups + g);
    }
}

template <int kKeyWords>
__global__ void sum_lone_kernel(LonePass pass, ResultWindow columns, uint64_t* totals) {
    uint64_t sums[kSumColumnsMax] = {};
    uint64_t rows = 0;
    for_lone_groups(pass, [&](uint64_t index, bool wanted, uint64_t) {
        if (!wanted) return;
        ++rows;
        const uint32_t* const row = pass.rows + index * pass.row_words;
#pragma unroll
        for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
            if (c >= static_cast<uint32_t>(columns.columns)) break;
            sums[c] += addend<kKeyWords>(columns.column[c], pass.build_side ? row : nullptr,
                                         pass.build_side ? nullptr : row, pass.has_key);
        }
    });
    add_total(rows, totals);
    for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
        if (c < static_cast<uint32_t>(columns.columns)) add_total(sums[c], totals + 1 + c);
    }
}

__global__ void count_lone_kernel(LonePass pass, uint64_t* group_rows) {
    for_lone_groups(pass, [&](uint64_t, bool wanted, uint64_t group) {
        const uint32_t lanes = __ballot_sync(kFullWarp, wanted);
        if (lane_index() == 0) group_rows[group] = __popc(lanes);
    });
}

template <int kKeyWords>
__global__ void write_lone_kernel(LonePass pass, const uint64_t* first_of_group, ResultWindow window) {
    for_lone_groups(pass, [&](uint64_t index, bool wanted, uint64_t group) {
        const uint32_t lanes = __ballot_sync(kFullWarp, wanted);
        const uint64_t position = first_of_group[group] + __popc(lanes & lanes_below());
        if (!wanted || position < window.first || position >= window.first + window.rows) return;
        const uint32_t* const row = pass.rows + index * pass.row_words;
        write_result<kKeyWords>(window, position - window.first, pass.build_side ? row : nullptr,
                                pass.build_side ? nullptr : row, pass.has_key);
    });
}

dim3 grid_of(const LonePass& pass) {
    return dim3(static_cast<unsigned>(pass.tiles.tiles));
}

// These three are as those of probe_index.hpp.
void sum_lone(Device& device, const LonePass& pass, const ResultWindow& columns, uint64_t* totals) {
    launch(columns.key_bytes == 4 ? sum_lone_kernel<1> : sum_lone_kernel<2>, grid_of(pass), dim3(kStreamThreads), 0,
           device.stream(), pass, columns, totals);
}

void count_lone_of_groups(Device& device, const LonePass& pass, uint64_t* group_rows) {
    SPILLWAY_CUDA_CHECK(
        cudaMemsetAsync(group_rows, 0, (pass.tiles.tiles * kTileGroups + 1) * sizeof(uint64_t), device.stream()));
    launch(count_lone_kernel, grid_of(pass), dim3(kStreamThreads), 0, device.stream(), pass, group_rows);
}

void write_lone(Device& device, const LonePass& pass, const uint64_t* first_of_group, const ResultWindow& window) {
    launch(window.key_bytes == 4 ? write_lone_kernel<1> : write_lone_kernel<2>, grid_of(pass), dim3(kStreamThreads), 0,
           device.stream(), pass, first_of_group, window);
}

}  // namespace

KindRules KindRules::of(const JoinKind& kind) {
    KindRules rules;
    rules.probe = {kind.pairs(), kind.pairs() && kind.keep_unmatched_probe, kind.emit == JoinEmit::kProbeOnce,
                   kind.anti};
    rules.build_marks = kind.marks_build_rows();
    rules.build_marked = !kind.pairs() && !kind.anti;
    rules.build_keyless = kind.keeps_unmatched_build();
    rules.probe_keyless = kind.keeps_unmatched_probe();
    return rules;
}

ProbeJoiner::ProbeJoiner(Device& device, Parcels& parcels, JoinResultKind result, const ResultWindow& columns,
                         const RowLayout& probe, uint64_t probe_tiles, ResultWriter* writer)
    : device_(device),
      parcels_(parcels),
      result_(result),
      columns_(columns),
      more_at_(probe.more_at),
      batch_tiles_(probe_tiles),
      writer_(writer),
      published_(device, kTotals) {
    totals_ = device.memory().allocate(kTotals * sizeof(uint64_t), "sums of a join");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(totals_.as(), 0, kTotals * sizeof(uint64_t), device.stream()));
    if (writer == nullptr) return;
    group_rows_ = device.memory().allocate((probe_tiles * kTileGroups + 1) * sizeof(uint64_t), "places of result rows");
}

bool ProbeJoiner::sum(const std::vector<SumPart>& parts) {
    AddedParts made;
    if (parts.size() > kSumPartsMax) return false;
    for (const SumPart& wanted : parts) {
        const ResultColumn& column = columns_.column[wanted.column];
        AddedPart part;
        part.side = column.side;
        part.offset = static_cast<uint8_t>(column.offset + wanted.offset);
        part.width = wanted.width;
        part.is_signed = wanted.is_signed;
        part.counts = wanted.counts;
        if (column.side == static_cast<uint8_t>(OutputSide::kPresence)) return false;
        if (wanted.validity >= 0) {
            const ResultColumn& validity = columns_.column[wanted.validity];
            if (validity.side != column.side || validity.side == static_cast<uint8_t>(OutputSide::kKey)) return false;
            part.validity = static_cast<int8_t>(validity.offset);
        }
        made.part[made.count++] = part;
    }
    parts_ = made;
    return true;
}

template <class Count, class Write>
void ProbeJoiner::give_rows(uint64_t tiles, const Count& count, const Write& write) {
    const uint64_t groups = tiles * kTileGroups;
    uint64_t* const group_rows = group_rows_.as<uint64_t>();
    count(group_rows);
    exclusive_sum(device_, group_rows, groups + 1);
    published_.publish({{group_rows + groups, 1}});
    const uint64_t rows = published_.wait()[0];
    rows_ += rows;
    const bool many_partners = rows / kTileRows > kManyPartners * tiles;
    writer_->write(rows, [&](const ResultWindow& window) { write(group_rows, window, many_partners); });
}

void ProbeJoiner::probe(const RowPieces& batch, const std::vector<RowPiece>& pieces, const IndexView& index,
                        const ProbeRule& rule, uint8_t* build_marks, uint8_t* probe_marks) {
    ProbePass pass;
    pass.tiles = send_pieces(parcels_, pieces);
    if (pass.tiles.tiles == 0) return;
    if (pass.tiles.tiles > batch_tiles_) throw Error(ErrorCode::kInternal, "a batch has more tiles than planned");
    pass.rows = batch.rows;
    pass.row_words = batch.row_words;
    pass.more_at = more_at_;
    pass.index = index;
    pass.rule = rule;
    pass.build_marks = build_marks;
    pass.probe_marks = probe_marks;
    if (parts_) return sum_parts_of_matches(device_, pass, *parts_, totals_.as<uint64_t>());
    const bool gives_rows = rule.pairs || rule.once;
    if (writer_ != nullptr && gives_rows) {
        give_rows(
            pass.tiles.tiles, [&](uint64_t* group_rows) { count_matches_of_groups(device_, pass, group_rows); },
            [&](const uint64_t* first, const ResultWindow& window, bool many_partners) {
                write_matches(device_, pass, first, window, many_partners);
            });
        return;
    }
    ResultWindow columns = columns_;
    if (!gives_rows || result_ != JoinResultKind::kSums) columns.columns = 0;
    sum_matches(device_, pass, columns, totals_.as<uint64_t>());
}

void ProbeJoiner::lone_batch(LonePass& pass, const std::vector<RowPiece>& pieces) {
    pass.tiles = send_pieces(parcels_, pieces);
    if (pass.tiles.tiles == 0) return;
    if (writer_ != nullptr) {
        give_rows(
            pass.tiles.tiles, [&](uint64_t* group_rows) { count_lone_of_groups(device_, pass, group_rows); },
            [&](const uint64_t* first, const ResultWindow& window, bool) { write_lone(device_, pass, first, window); });
        return;
    }
    ResultWindow columns = columns_;
    if (result_ != JoinResultKind::kSums) columns.columns = 0;
    sum_lone(device_, pass, columns, totals_.as<uint64_t>());
}

void ProbeJoiner::lone(LonePass pass, const std::vector<RowPiece>& pieces) {
    std::vector<RowPiece> some;
    uint64_t tiles = 0;
    for (const RowPiece& piece : pieces) {
        for (uint64_t done = 0; done < piece.rows;) {
            if (tiles == batch_tiles_) {
                lone_batch(pass, some);
                some.clear();
                tiles = 0;
            }
            const uint64_t rows = std::min(piece.rows - done, (batch_tiles_ - tiles) * kTileRows);
            some.push_back({piece.begin + done, rows, piece.partition});
            tiles += (rows + kTileRows - 1) / kTileRows;
            done += rows;
        }
    }
    lone_batch(pass, some);
}

uint64_t ProbeJoiner::total(std::vector<ExactSum>& sums) {
    published_.publish({{totals_.as(), kTotals}});
    const uint64_t* const totals = published_.wait();
    for (uint32_t i = 0; i < parts_->count; ++i) {
        const uint64_t low = totals[1 + 2 * i];
        const auto high = static_cast<int64_t>(totals[2 + 2 * i]);
        sums.push_back(ExactSum{low} + ExactSum{high} * (ExactSum{1} << 32));
    }
    return totals[0];
}

uint64_t ProbeJoiner::total(FixedList<uint64_t, kSumColumnsMax>& sums) {
    published_.publish({{totals_.as(), kTotals}});
    const uint64_t* const totals = published_.wait();
    if (result_ == JoinResultKind::kSums) sums.assign(totals + 1, totals + 1 + columns_.columns);
    return rows_ + totals[0];
}

}}  // namespace spillway::cuda::row_index
