// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "row_index/probe_index.hpp"
#include "row_index/row_index_policy.hpp"
#include "row_index/total.cuh"
#include "stream/row_tiles.cuh"
#include "stream/write_result.cuh"

namespace spillway::cuda { inline namespace row_index {

namespace {

// The row of one lane and the bucket that its partners are in.
template <int kKeyWords>
struct ProbeLane {
    uint64_t row = 0;  // of the batch
    bool present = false;
    uint64_t key = 0;
    uint32_t begin = 0;  // rows of the partition
    uint32_t end = 0;
    bool equal_keys = false;

    __device__ ProbeLane(const ProbePass& pass, const RowPiece& piece, const IndexedPartition& indexed,
                         uint64_t in_piece, bool is_there)
        : row(piece.begin + in_piece), present(is_there) {
        if (!present || indexed.bucket_bits == kNotIndexed) return;
        key = row_key<kKeyWords>(pass.rows + row * pass.row_words);
        const uint32_t* const bucket = pass.index.bucket + indexed.first_bucket +
                                       bucket_of<kKeyWords>(key, pass.index.radix_bits, indexed.bucket_bits);
        begin = bucket[0] & ~kEqualKeys;
        end = bucket[1] & ~kEqualKeys;
        equal_keys = (bucket[0] & kEqualKeys) != 0;
    }
    __device__ bool is_long() const { return end - begin > kLongBucketRows; }
};

// The rows of long buckets, those of lanes that want it, are shared out among the lanes of the warp; all lanes call.
// each(lane, key, row, begin, end) runs in all lanes for one lane's row after the other.
template <int kKeyWords, class Each>
__device__ inline void for_long_buckets(const ProbeLane<kKeyWords>& own, bool wanted, const Each& each) {
    uint32_t lanes = __ballot_sync(kFullWarp, wanted && own.is_long());
    while (lanes != 0) {
        const int lane = __ffs(static_cast<int>(lanes)) - 1;
        lanes &= lanes - 1;
        each(static_cast<uint32_t>(lane), __shfl_sync(kFullWarp, own.key, lane), __shfl_sync(kFullWarp, own.row, lane),
             __shfl_sync(kFullWarp, own.begin, lane), __shfl_sync(kFullWarp, own.end, lane));
    }
}

// Whether a build row is a partner of the probe row, whose key is `key`. kMore: keys have more words than that.
template <int kKeyWords, bool kMore>
__device__ inline bool is_partner(const ProbePass& pass, uint64_t build_key, const uint32_t* build, uint64_t key,
                                  uint64_t probe_row) {
    if (build_key != key) return false;
    if constexpr (!kMore) return true;
    const uint32_t* const probe = pass.rows + probe_row * pass.row_words;
    return equal_words(build + pass.index.more_at, probe + pass.more_at, pass.index.more_words);
}

template <int kKeyWords>
__device__ inline const uint32_t* build_row(const IndexView& index, const IndexedPartition& indexed, uint32_t row) {
    return index.rows + index.place(indexed, row) * index.row_words;
}

// Rows `from` to `end` of a partition, kRowsAtOnce at most: where they are, and their keys. All are asked for before
// the first one is looked at.
template <int kKeyWords>
struct BucketRows {
    uint64_t place[kRowsAtOnce] = {};
    uint64_t key[kRowsAtOnce] = {};

    __device__ BucketRows(const IndexView& index, const IndexedPartition& indexed, uint32_t from, uint32_t end) {
#pragma unroll
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
            if (from + i < end) place[i] = index.place(indexed, from + i);
        }
        // Where rows begin at multiples of eight bytes, one access per key.
        if (kKeyWords == 2 && index.row_words % 2 == 0) {
            const auto* const rows = reinterpret_cast<const uint64_t*>(index.rows);
#pragma unroll
            for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
                if (from + i < end) key[i] = rows[place[i] * (index.row_words / 2)];
            }
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
            if (from + i < end) key[i] = row_key<kKeyWords>(index.rows + place[i] * index.row_words);
        }
    }
};

// visit(place) for each partner of the lane's row, unless its bucket is a long one.
template <int kKeyWords, bool kMore, class Visit>
__device__ inline void for_short_bucket(const ProbePass& pass, const IndexedPartition& indexed,
                                        const ProbeLane<kKeyWords>& own, const Visit& visit) {
    if (own.is_long()) return;
    const IndexView& index = pass.index;
    for (uint32_t from = own.begin; from < own.end; from += kRowsAtOnce) {
        const BucketRows<kKeyWords> rows(index, indexed, from, own.end);
#pragma unroll
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
            if (from + i >= own.end) continue;
            const uint32_t* const build = index.rows + rows.place[i] * index.row_words;
            if (is_partner<kKeyWords, kMore>(pass, rows.key[i], build, own.key, own.row)) visit(rows.place[i]);
        }
    }
}

// Partners of the lane's row; visit(place, row) for each of them, in whichever lane finds it, with the probe row. Those
// of a frequent key, the first of them at `place`, are only counted if visits(place) says that nobody has to see them.
template <int kKeyWords, bool kMore, class Visits, class Visit>
__device__ inline uint64_t count_partners(const ProbePass& pass, const IndexedPartition& indexed,
                                          const ProbeLane<kKeyWords>& own, const Visits& visits, const Visit& visit) {
    uint64_t partners = 0;
    bool searches = true;
    if (own.equal_keys) {
        const uint64_t place = pass.index.place(indexed, own.begin);
        const uint32_t* const build = pass.index.rows + place * pass.index.row_words;
        const bool same = is_partner<kKeyWords, kMore>(pass, row_key<kKeyWords>(build), build, own.key, own.row);
        searches = same && visits(place);
        if (same) partners = own.end - own.begin;
    }
    for_short_bucket<kKeyWords, kMore>(pass, indexed, own, [&](uint64_t place) {
        ++partners;
        visit(place, own.row);
    });
    for_long_buckets(own, searches, [&](uint32_t lane, uint64_t key, uint64_t row, uint32_t begin, uint32_t end) {
        uint32_t found = 0;
        // In 64 bits: the step behind the last row must not wrap around.
        for (uint64_t r = begin + static_cast<uint64_t>(lane_index()); r < end; r += kWarpThreads) {
            const uint64_t place = pass.index.place(indexed, static_cast<uint32_t>(r));
            const uint32_t* const build = pass.index.rows + place * pass.index.row_words;
            if (!is_partner<kKeyWords, kMore>(pass, row_key<kKeyWords>(build), build, key, row)) continue;
            ++found;
            visit(place, row);
        }
        const uint32_t all = __reduce_add_sync(kFullWarp, found);
        if (lane_index() == lane) partners = all;
    });
    return partners;
}

// body(lane's row, group number) for every group of the tile that this warp takes.
template <int kKeyWords, class Body>
__device__ inline void for_groups(const ProbePass& pass, const RowTile& tile, const Body& body) {
    const RowPiece piece = pass.tiles.piece[tile.piece];
    const IndexedPartition indexed = pass.index.partition[piece.partition];
    for (uint32_t g = warp_index(); g < kTileGroups && g * kGroupRows < tile.rows; g += kStreamWarps) {
        const uint32_t in_tile = g * kGroupRows + lane_index();
        const ProbeLane<kKeyWords> own(pass, piece, indexed, tile.offset + in_tile, in_tile < tile.rows);
        body(own, indexed, static_cast<uint64_t>(blockIdx.x) * kTileGroups + g);
    }
}

// Whether rows of a frequent key, the first at `place`, are to be marked: whoever marks the first one marks them all
// before the kernel ends.
__device__ inline bool wants_marks(const ProbePass& pass, uint64_t place) {
    return pass.build_marks != nullptr && pass.build_marks[place] == 0;
}

template <int kKeyWords, bool kMore>
__global__ void sum_kernel(ProbePass pass, ResultWindow columns, uint64_t* totals) {
    uint64_t sums[kSumColumnsMax] = {};
    uint64_t rows = 0;
    const auto add = [&](const uint32_t* build, const uint32_t* probe) {
#pragma unroll
        for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
            if (c >= static_cast<uint32_t>(columns.columns)) break;
            sums[c] += addend<kKeyWords>(columns.column[c], build, probe, true);
        }
    };
    const bool adds = pass.rule.pairs && columns.columns > 0;
    for_groups<kKeyWords>(pass, row_tile(pass.tiles),
                          [&](const ProbeLane<kKeyWords>& own, const IndexedPartition& indexed, uint64_t) {
                              const uint64_t partners = count_partners<kKeyWords, kMore>(
                                  pass, indexed, own, [&](uint64_t place) { return adds || wants_marks(pass, place); },
                                  [&](uint64_t place, uint64_t probe_row) {
                                      const uint32_t* const build = pass.index.rows + place * pass.index.row_words;
                                      if (pass.build_marks != nullptr) pass.build_marks[place] = 1;
                                      if (adds) add(build, pass.rows + probe_row * pass.row_words);
                                  });
                              if (!own.present) return;
                              if (pass.probe_marks != nullptr && partners > 0) pass.probe_marks[own.row] = 1;
                              const uint64_t given = pass.rule.rows(partners);
                              rows += given;
                              if (given > 0 && (!pass.rule.pairs || partners == 0))
                                  add(nullptr, pass.rows + own.row * pass.row_words);
                          });
    add_total(rows, totals);
    for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
        if (c < static_cast<uint32_t>(columns.columns)) add_total(sums[c], totals + 1 + c);
    }
}

// A warp one of whose lanes has counted more pairs adds what it has to the totals. With those of another 32 probe rows,
// which have fewer than 2^31 partners each and share long buckets out, a lane has added up fewer than 2^32 parts of 32
// bits, whose sum fits 64.
constexpr uint64_t kKeptPairsMax = 1ULL << 20;

// Inner joins alone. Each thread has its sums in shared memory, [part][thread]: in registers, as many as there may be,
// they left the loop over parts no way but to be unrolled, which took 3.1 ms for 2^21 pairs of 12 parts (H200).
template <int kKeyWords, bool kMore>
__global__ void sum_parts_kernel(ProbePass pass, const __grid_constant__ AddedParts parts, uint64_t* totals) {
    extern __shared__ uint64_t all_sums[];
    uint64_t* const sums = all_sums + threadIdx.x;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < parts.count; ++i) sums[i * kStreamThreads] = 0;
    const auto give = [&] {
        add_total(rows, totals);
        rows = 0;
        for (uint32_t i = 0; i < parts.count; ++i) {
            SplitSum sum;
            sum.add(sums[i * kStreamThreads], parts.part[i].is_signed);
            add_exact(sum, totals + 1 + 2 * i);
            sums[i * kStreamThreads] = 0;
        }
    };
    for_groups<kKeyWords>(pass, row_tile(pass.tiles),
                          [&](const ProbeLane<kKeyWords>& own, const IndexedPartition& indexed, uint64_t) {
                              rows += count_partners<kKeyWords, kMore>(
                                  pass, indexed, own, [](uint64_t) { return true; },
                                  [&](uint64_t place, uint64_t probe_row) {
                                      const uint32_t* const build = pass.index.rows + place * pass.index.row_words;
                                      const uint32_t* const probe = pass.rows + probe_row * pass.row_words;
                                      for (uint32_t i = 0; i < parts.count; ++i) {
                                          sums[i * kStreamThreads] += added<kKeyWords>(parts.part[i], build, probe);
                                      }
                                  });
                              if (__any_sync(kFullWarp, rows > kKeptPairsMax)) give();
                          });
    add_total(rows, totals);
    __syncthreads();
    // A warp has all of the block's sums of a part: its atomics come one after the other where all blocks add.
    for (uint32_t i = warp_index(); i < parts.count; i += kStreamWarps) {
        SplitSum sum;
        for (uint32_t thread = lane_index(); thread < kStreamThreads; thread += kWarpThreads) {
            sum.add(all_sums[i * kStreamThreads + thread], parts.part[i].is_signed);
        }
        add_exact(sum, totals + 1 + 2 * i);
    }
}

template <int kKeyWords, bool kMore>
__global__ void count_kernel(ProbePass pass, uint64_t* group_rows) {
    for_groups<kKeyWords>(pass, row_tile(pass.tiles),
                          [&](const ProbeLane<kKeyWords>& own, const IndexedPartition& indexed, uint64_t group) {
                              const uint64_t partners = count_partners<kKeyWords, kMore>(
                                  pass, indexed, own, [&](uint64_t place) { return wants_marks(pass, place); },
                                  [&](uint64_t place, uint64_t) {
                                      if (pass.build_marks != nullptr) pass.build_marks[place] = 1;
                                  });
                              if (pass.probe_marks != nullptr && own.present && partners > 0)
                                  pass.probe_marks[own.row] = 1;
                              uint64_t rows = own.present ? pass.rule.rows(partners) : 0;
#pragma unroll
                              for (uint32_t distance = 16; distance > 0; distance /= 2)
                                  rows += __shfl_xor_sync(kFullWarp, rows, distance);
                              if (lane_index() == 0) group_rows[group] = rows;
                          });
}

// Rows of the result that a block writes: its part of the window.
struct WindowPart {
    uint64_t first;
    uint64_t last;

    __device__ explicit WindowPart(const ResultWindow& window) {
        const uint64_t rows = (window.rows + gridDim.y - 1) / gridDim.y;
        const uint64_t end = window.first + window.rows;
        first = min(window.first + blockIdx.y * rows, end);
        last = min(first + rows, end);
    }
    __device__ bool overlaps(uint64_t begin, uint64_t end) const { return begin < last && end > first; }
};

// The rows of one lane from position `at` on, in the order of its bucket.
template <int kKeyWords, bool kMore>
__device__ inline void write_lane(const ProbePass& pass, const IndexedPartition& indexed,
                                  const ProbeLane<kKeyWords>& own, uint64_t given, uint64_t at,
                                  const ResultWindow& window, const WindowPart& part) {
    const auto write = [&](uint64_t position, const uint32_t* build, uint64_t probe_row) {
        if (position < part.first || position >= part.last) return;
        write_result<kKeyWords>(window, position - window.first, build, pass.rows + probe_row * pass.row_words, true);
    };
    uint64_t position = at;
    bool lone = given == 1;  // until a partner is found
    if (pass.rule.pairs) {
        for_short_bucket<kKeyWords, kMore>(pass, indexed, own, [&](uint64_t place) {
            lone = false;
            write(position++, pass.index.rows + place * pass.index.row_words, own.row);
        });
        const bool frequent = own.equal_keys && given > 1;
        const bool overlaps = given > 0 && part.overlaps(at, at + given);
        const auto write_long = [&](uint32_t lane, uint64_t key, uint64_t row, uint32_t begin, uint32_t end) {
            uint64_t next = __shfl_sync(kFullWarp, at, static_cast<int>(lane));
            for (uint64_t from = begin; from < end; from += kWarpThreads) {
                const uint64_t r = from + lane_index();
                const uint32_t* const build =
                    r < end ? build_row<kKeyWords>(pass.index, indexed, static_cast<uint32_t>(r)) : nullptr;
                const bool equal =
                    build != nullptr && is_partner<kKeyWords, kMore>(pass, row_key<kKeyWords>(build), build, key, row);
                const uint32_t lanes = __ballot_sync(kFullWarp, equal);
                if (equal) write(next + __popc(lanes & lanes_below()), build, row);
                if (lane_index() == lane && lanes != 0) lone = false;
                next += __popc(lanes);
            }
        };
        for_long_buckets(own, overlaps && !own.equal_keys, write_long);
        for_long_buckets(own, overlaps && frequent,
                         [&](uint32_t lane, uint64_t, uint64_t row, uint32_t begin, uint32_t end) {
                             const uint64_t first = __shfl_sync(kFullWarp, at, static_cast<int>(lane));
                             const uint64_t from = part.first > first ? part.first - first : 0;
                             const uint64_t to = min(part.last - first, static_cast<uint64_t>(end - begin));
                             for (uint64_t i = from + lane_index(); i < to; i += kWarpThreads) {
                                 const auto r = static_cast<uint32_t>(begin + i);
                                 write(first + i, build_row<kKeyWords>(pass.index, indexed, r), row);
                             }
                         });
    }
    if (lone) write(at, nullptr, own.row);
}

template <int kKeyWords, bool kMore>
__global__ void write_kernel(ProbePass pass, const uint64_t* first_of_group, ResultWindow window) {
    const WindowPart part(window);
    const RowTile tile = row_tile(pass.tiles);
    const uint64_t first_group = static_cast<uint64_t>(blockIdx.x) * kTileGroups;
    // The groups that a tile lacks are empty, so that this holds for the last tile of a piece too.
    if (!part.overlaps(first_of_group[first_group], first_of_group[first_group + kTileGroups])) return;
    for_groups<kKeyWords>(pass, tile,
                          [&](const ProbeLane<kKeyWords>& own, const IndexedPartition& indexed, uint64_t group) {
                              const uint64_t first = first_of_group[group];
                              if (!part.overlaps(first, first_of_group[group + 1]))
                                  return;  // the same for the whole warp
                              const uint64_t partners = count_partners<kKeyWords, kMore>(
                                  pass, indexed, own, [](uint64_t) { return false; }, [](uint64_t, uint64_t) {});
                              const uint64_t given = own.present ? pass.rule.rows(partners) : 0;
                              write_lane<kKeyWords, kMore>(pass, indexed, own, given,
                                                           first + warp_inclusive_sum(given) - given, window, part);
                          });
}

dim3 grid_of(const ProbePass& pass) {
    return dim3(static_cast<unsigned>(pass.tiles.tiles));
}

// That of the kernels which looks rows with such keys up.
template <class Kernel>
Kernel* kernel_for(const IndexView& index, Kernel* four, Kernel* eight, Kernel* more) {
    if (index.more_words > 0) return more;
    return index.key_words == 1 ? four : eight;
}

}  // namespace

void sum_matches(Device& device, const ProbePass& pass, const ResultWindow& columns, uint64_t* totals) {
    if (columns.columns > static_cast<int32_t>(kSumColumnsMax)) {
        throw Error(ErrorCode::kInvalid, "a join gives at most " + std::to_string(kSumColumnsMax) + " sums");
    }
    launch(kernel_for(pass.index, sum_kernel<1, false>, sum_kernel<2, false>, sum_kernel<2, true>), grid_of(pass),
           dim3(kStreamThreads), 0, device.stream(), pass, columns, totals);
}

void sum_parts_of_matches(Device& device, const ProbePass& pass, const AddedParts& parts, uint64_t* totals) {
    static_assert(kSumPartsMax * kStreamThreads * sizeof(uint64_t) <= 48 << 10, "what every block may have");
    launch(kernel_for(pass.index, sum_parts_kernel<1, false>, sum_parts_kernel<2, false>, sum_parts_kernel<2, true>),
           grid_of(pass), dim3(kStreamThreads), parts.count * kStreamThreads * sizeof(uint64_t), device.stream(), pass,
           parts, totals);
}

void count_matches_of_groups(Device& device, const ProbePass& pass, uint64_t* group_rows) {
    // Groups behind the last row of a piece are counted as empty.
    SPILLWAY_CUDA_CHECK(
        cudaMemsetAsync(group_rows, 0, (pass.tiles.tiles * kTileGroups + 1) * sizeof(uint64_t), device.stream()));
    launch(kernel_for(pass.index, count_kernel<1, false>, count_kernel<2, false>, count_kernel<2, true>), grid_of(pass),
           dim3(kStreamThreads), 0, device.stream(), pass, group_rows);
}

void write_matches(Device& device, const ProbePass& pass, const uint64_t* first_of_group, const ResultWindow& window,
                   bool many_partners) {
    const dim3 grid(grid_of(pass).x, many_partners ? kWindowBlocks : 1);
    launch(kernel_for(pass.index, write_kernel<1, false>, write_kernel<2, false>, write_kernel<2, true>), grid,
           dim3(kStreamThreads), 0, device.stream(), pass, first_of_group, window);
}

}}  // namespace spillway::cuda::row_index
