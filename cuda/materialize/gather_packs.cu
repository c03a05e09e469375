// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "materialize/gather_packs.hpp"
#include "materialize/materialize_policy.hpp"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace materialize {

namespace {

constexpr int kPackedWordsMax = 8;
constexpr int kPackedBytesMax = 4 * kPackedWordsMax;

// A pack's columns by the word that they begin with, if they have 4, 8 or 16 bytes, and the others.
struct PackColumns {
    uint32_t* word[kPackedWordsMax] = {};
    uint2* pair[kPackedWordsMax] = {};
    uint4* quad[kPackedWordsMax] = {};
    bool words_alone = true;  // all columns have 4 bytes
    bool pairs_alone = true;  // all columns have 8 bytes
    int narrow_count = 0;
    MatchColumn narrow[kPackedBytesMax] = {};
};

struct PackGather {
    const uint32_t* rows;
    const void* places;
    uint64_t count;
    PresentRows present;
    PackColumns columns;
};

// What a lane stores of a part of a row, up to four words that lie at a multiple of as many bytes.
template <int kAtOnce>
class PackPartWriter {
  public:
    // first: the part's first word in the row.
    __device__ PackPartWriter(const PackColumns& columns, int first) : columns_(columns), first_(first) {
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            word_[k] = columns.word[first + k];
            if (k % 2 == 0) pair_[k / 2] = columns.pair[first + k];
        }
    }

    __device__ void write(uint64_t to, const uint32_t (&value)[kAtOnce]) const {
        if (!columns_.pairs_alone) {
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) {
                if (word_[k] != nullptr) __stcs(word_[k] + to, value[k]);
            }
        }
        if (columns_.words_alone) return;
        if constexpr (kAtOnce >= 2) {
#pragma unroll
            for (int k = 0; k < kAtOnce; k += 2) {
                if (pair_[k / 2] != nullptr) __stcs(pair_[k / 2] + to, make_uint2(value[k], value[k + 1]));
            }
        }
        if (columns_.pairs_alone) return;
        if constexpr (kAtOnce == 4) {
            uint4* const quad = columns_.quad[first_];
            if (quad != nullptr) __stcs(quad + to, make_uint4(value[0], value[1], value[2], value[3]));
        }
        for (int c = 0; c < columns_.narrow_count; ++c) write_narrow(columns_.narrow[c], to, value);
    }

  private:
    // A column of 1 or 2 bytes, which most likely is of another part. All lanes ask for the same one.
    __device__ void write_narrow(const MatchColumn& column, uint64_t to, const uint32_t (&value)[kAtOnce]) const {
        uint32_t word = 0;
        bool is_here = false;
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            if (static_cast<int>(column.offset / 4) != first_ + k) continue;
            word = value[k];
            is_here = true;
        }
        if (!is_here) return;
        const uint32_t bits = word >> (column.offset % 4 * 8);
        if (column.width == 1) {
            static_cast<uint8_t*>(column.data)[to] = static_cast<uint8_t>(bits);
        } else {
            static_cast<uint16_t*>(column.data)[to] = static_cast<uint16_t>(bits);
        }
    }

    const PackColumns& columns_;
    const int first_;
    uint32_t* word_[kAtOnce];
    uint2* pair_[(kAtOnce + 1) / 2];
};

template <int kAtOnce>
__device__ void load_part(const uint32_t* from, uint32_t (&to)[kAtOnce]) {
    if constexpr (kAtOnce == 4) {
        const uint4 four = __ldg(reinterpret_cast<const uint4*>(from));
        to[0] = four.x;
        to[1] = four.y;
        to[2] = four.z;
        to[3] = four.w;
    } else if constexpr (kAtOnce == 2) {
        const uint2 two = __ldg(reinterpret_cast<const uint2*>(from));
        to[0] = two.x;
        to[1] = two.y;
    } else {
        to[0] = __ldg(from);
    }
}

// The places of a lane's rows from `base` on.
template <class Number>
__device__ void load_places(const PackGather& gather, uint64_t base, Number (&place)[kPackGatherRows]) {
#pragma unroll
    for (int u = 0; u < kPackGatherRows; ++u) {
        const uint64_t i = base + u * kWarpThreads + lane_index();
        const uint8_t* const presence = gather.present.presence;
        const bool is_there = i < gather.count && (presence == nullptr || (presence[i] & gather.present.mask) != 0);
        place[u] = is_there ? __ldcs(static_cast<const Number*>(gather.places) + i) : ~Number{0};
    }
}

// Calls body(base, place) for all rows that a warp takes: the places of a lane's rows from `base` on.
template <class Number, class Body>
__device__ void for_places(const PackGather& gather, const Body& body) {
    constexpr uint64_t kWarpRows = kWarpThreads * kPackGatherRows;
    const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (kMaterializeThreads / kWarpThreads);
    const uint64_t warp = static_cast<uint64_t>(blockIdx.x) * (kMaterializeThreads / kWarpThreads) + warp_index();
    for (uint64_t base = warp * kWarpRows; base < gather.count; base += warps * kWarpRows) {
        Number place[kPackGatherRows];
        load_places(gather, base, place);
        body(base, place);
    }
}

// Bytes: see gather_packs(). Neighbouring lanes read the parts of a row, so that its sector is asked for once: 2^26
// rows of 32 bytes by two lanes each took an H200 1.28 ms in the order that joins give, 3.5 TB/s, and by one lane with
// two loads 2.2 ms. With more rows under way they leave the L2 cache before their neighbours are asked for: 2.0 ms with
// four blocks of a multiprocessor instead of two.
template <int kWords, class Number>
__global__ void __launch_bounds__(kMaterializeThreads) gather_packs_kernel(const __grid_constant__ PackGather gather) {
    constexpr int kAtOnce = kWords < 4 ? kWords : 4;
    constexpr int kParts = kWords / kAtOnce;  // of a row, a lane each
    constexpr int kRows = kPackGatherRows;    // of a lane, whose places it reads
    constexpr Number kNowhere = ~Number{0};
    const int part = static_cast<int>(lane_index()) % kParts;
    const PackPartWriter<kAtOnce> writer(gather.columns, part * kAtOnce);
    for_places<Number>(gather, [&](uint64_t base, const Number(&place)[kRows]) {
        uint32_t value[kRows][kParts][kAtOnce] = {};
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
#pragma unroll
            for (int p = 0; p < kParts; ++p) {
                const int lane = p * (kWarpThreads / kParts) + static_cast<int>(lane_index()) / kParts;
                const Number from = __shfl_sync(kFullWarp, place[u], lane);
                if (from == kNowhere) continue;
                load_part(gather.rows + static_cast<uint64_t>(from) * kWords + part * kAtOnce, value[u][p]);
            }
        }
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
#pragma unroll
            for (int p = 0; p < kParts; ++p) {
                const uint64_t i = base + u * kWarpThreads + p * (kWarpThreads / kParts) + lane_index() / kParts;
                if (i < gather.count) writer.write(i, value[u][p]);
            }
        }
    });
}

// The same where rows come many times over, each from the caches most likely: a lane takes all of a row, so that its
// columns are known to be the same in all lanes and their stores are of 32 rows. Bound by instructions.
template <int kWords, class Number>
__global__ void __launch_bounds__(kMaterializeThreads)
    gather_repeated_kernel(const __grid_constant__ PackGather gather) {
    constexpr int kAtOnce = kWords < 4 ? kWords : 4;
    constexpr int kParts = kWords / kAtOnce;
    constexpr int kRows = kPackGatherRows;
    for_places<Number>(gather, [&](uint64_t base, const Number(&place)[kRows]) {
        uint32_t value[kRows][kParts][kAtOnce] = {};
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
            if (place[u] == ~Number{0}) continue;
            const uint32_t* const from = gather.rows + static_cast<uint64_t>(place[u]) * kWords;
#pragma unroll
            for (int p = 0; p < kParts; ++p) load_part(from + p * kAtOnce, value[u][p]);
        }
#pragma unroll
        for (int u = 0; u < kRows; ++u) {
            const uint64_t i = base + u * kWarpThreads + lane_index();
            if (i >= gather.count) continue;
#pragma unroll
            for (int p = 0; p < kParts; ++p) PackPartWriter<kAtOnce>(gather.columns, p * kAtOnce).write(i, value[u][p]);
        }
    });
}

template <int kWords, class Number>
auto kernel_for(bool repeated) {
    return repeated ? gather_repeated_kernel<kWords, Number> : gather_packs_kernel<kWords, Number>;
}

// of_rows: rows of the relation that places belong to.
template <int kWords>
void launch_gather(Device& device, const PackGather& gather, uint64_t of_rows, uint32_t number_width) {
    const bool repeated = gather.count / kPackRepeatsMin >= of_rows;
    const auto kernel =
        number_width == 4 ? kernel_for<kWords, uint32_t>(repeated) : kernel_for<kWords, unsigned long long>(repeated);
    constexpr uint64_t kTileRows = static_cast<uint64_t>(kMaterializeThreads) * kPackGatherRows;
    const int blocks = repeated ? kPackRepeatedBlocks : kPackGatherBlocks;
    launch(kernel, grid_over(device, gather.count, kTileRows, blocks), dim3(kMaterializeThreads), 0, device.stream(),
           gather);
}

void launch_words(Device& device, const PackGather& gather, uint32_t words, uint64_t of_rows, uint32_t number_width) {
    switch (words) {
        case 1:
            return launch_gather<1>(device, gather, of_rows, number_width);
        case 2:
            return launch_gather<2>(device, gather, of_rows, number_width);
        case 4:
            return launch_gather<4>(device, gather, of_rows, number_width);
        case 8:
            return launch_gather<8>(device, gather, of_rows, number_width);
        default:
            throw Error(ErrorCode::kInternal, "packs have 1, 2, 4 or 8 words");
    }
}

PackColumns columns_of(const std::vector<MatchColumn>& columns) {
    PackColumns by_word;
    for (const MatchColumn& column : columns) {
        by_word.words_alone = by_word.words_alone && column.width == 4;
        by_word.pairs_alone = by_word.pairs_alone && column.width == 8;
        const uint32_t first = column.offset / 4;
        if (column.width == 4) {
            by_word.word[first] = static_cast<uint32_t*>(column.data);
        } else if (column.width == 8) {
            by_word.pair[first] = static_cast<uint2*>(column.data);
        } else if (column.width == 16) {
            by_word.quad[first] = static_cast<uint4*>(column.data);
        } else {
            by_word.narrow[by_word.narrow_count++] = column;
        }
    }
    return by_word;
}

}  // namespace

void gather_packs(Device& device, const PackedRows& pack, const RowNumbers& places,
                  const std::vector<MatchColumn>& columns, const PresentRows& present) {
    const PackGather gather{pack.rows, places.rows, places.count, present, columns_of(columns)};
    uint64_t row_bytes = places.width + (present.presence == nullptr ? 0 : 1);
    for (const MatchColumn& column : columns) row_bytes += column.width;
    const uint64_t pack_bytes = places.of_rows * pack.words * 4;
    count_moved(device,
                places.count * row_bytes + sector_bytes(device, places.count, pack.words * 4ULL, pack_bytes, 1));
    launch_words(device, gather, pack.words, places.of_rows, places.width);
}

}}  // namespace spillway::cuda::materialize
