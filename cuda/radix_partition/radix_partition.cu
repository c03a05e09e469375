// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/copy_to_device.hpp"
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "radix_partition/column_packs.hpp"
#include "radix_partition/pack_pass.hpp"
#include "radix_partition/pack_policy.hpp"
#include "radix_partition/pass_policy.hpp"
#include "radix_partition/plan_regions.hpp"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"
#include "radix_partition/scatter_pass.hpp"
#include "radix_partition/tile_size.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

// counts[top bits of the mixed key] over all rows that have a key. Bytes: the key column, once for each slice; counters
// are in shared memory until the block ends. kSliced: digits are cut into 2^slice_bits slices, of which each block
// counts one. Blocks of all slices read the same keys at about the same time, so that most of those reads come from the
// L2 cache.
template <int kKeyWords, bool kSliced>
__global__ void __launch_bounds__(kHistogramThreads, kSliced ? 1 : 2)
    histogram_kernel(const typename MixedKey<kKeyWords>::Key* keys, const uint32_t* key_valid, uint64_t rows, int bits,
                     int slice_bits, unsigned long long* counts) {
    extern __shared__ uint32_t counters[];
    const uint32_t digits = kSliced ? 1U << (bits - slice_bits) : 1U << bits;
    const uint32_t slices = kSliced ? 1U << slice_bits : 1U;
    const uint32_t first_digit = kSliced ? blockIdx.x % slices * digits : 0;
    for (uint32_t d = threadIdx.x; d < digits; d += blockDim.x) counters[d] = 0;
    __syncthreads();
    using Key = typename MixedKey<kKeyWords>::Key;
    constexpr uint32_t kQuad = 4;
    const auto count = [&](Key key) {
        const auto top = static_cast<uint32_t>(MixedKey<kKeyWords>::mix(key) >> (32 * (kKeyWords - 1)));
        const uint32_t digit = bits == 0 ? 0 : top >> (32 - bits);
        if constexpr (kSliced) {
            // Digits below the slice wrap around to large numbers.
            if (digit - first_digit < digits) atomicAdd(&counters[digit - first_digit], 1U);
        } else {
            atomicAdd(&counters[digit], 1U);
        }
    };
    const uint64_t quads = rows / kQuad;
    const uint64_t step = static_cast<uint64_t>(gridDim.x / slices) * blockDim.x;
    const uint64_t first = static_cast<uint64_t>(blockIdx.x / slices) * blockDim.x + threadIdx.x;
    for (uint64_t quad = first; quad < quads; quad += step) {
        const uint64_t row = quad * kQuad;
        const uint32_t there = key_valid == nullptr ? 0xf : key_valid[row / 32] >> (row % 32) & 0xf;
        Key four[kQuad];
#pragma unroll
        for (uint32_t i = 0; i < kQuad * sizeof(Key) / 16; ++i) {
            reinterpret_cast<uint4*>(four)[i] = __ldcs(reinterpret_cast<const uint4*>(keys + row) + i);
        }
#pragma unroll
        for (uint32_t i = 0; i < kQuad; ++i) {
            if (there >> i & 1) count(four[i]);
        }
    }
    const uint64_t rest = quads * kQuad + first;
    if (rest < rows && (key_valid == nullptr || (key_valid[rest / 32] >> (rest % 32) & 1) != 0)) count(keys[rest]);
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < digits; d += blockDim.x) {
        if (counters[d] > 0) atomicAdd(&counts[first_digit + d], static_cast<unsigned long long>(counters[d]));
    }
}

// The same over rows that are already in regions: counts[region << bits | digit], a tile of rows at a time. parent: as
// in ScatterPass.
__global__ void __launch_bounds__(kHistogramThreads, 2)
    histogram_rows_kernel(const uint32_t* rows, uint32_t row_words, uint32_t top_word, const uint64_t* begin,
                          const uint64_t* end, const uint64_t* first_tile, const uint64_t* parent, uint64_t regions,
                          uint32_t tile_rows, uint32_t shift, int bits, unsigned long long* counts) {
    __shared__ uint32_t counters[kPassFanOutMax];
    const uint32_t digits = 1U << bits;
    const uint64_t tiles = first_tile[regions];
    for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const uint64_t region = last_not_above(first_tile, regions, tile);
        const uint64_t from = begin[region] + (tile - first_tile[region]) * tile_rows;
        const uint64_t to = from + tile_rows < end[region] ? from + tile_rows : end[region];
        if (threadIdx.x < digits) counters[threadIdx.x] = 0;
        __syncthreads();
        for (uint64_t row = from + threadIdx.x; row < to; row += blockDim.x) {
            atomicAdd(&counters[radix_digit(rows[row * row_words + top_word], shift, digits - 1)], 1U);
        }
        __syncthreads();
        if (threadIdx.x < digits && counters[threadIdx.x] > 0) {
            const uint64_t first = (parent == nullptr ? region : parent[region]) << bits;
            atomicAdd(&counts[first + threadIdx.x], static_cast<unsigned long long>(counters[threadIdx.x]));
        }
        __syncthreads();
    }
}

void check_column(const DeviceColumn& column) {
    if (reinterpret_cast<uintptr_t>(column.data) % 16 != 0) {
        throw Error(ErrorCode::kInvalid, "columns of a relation begin at multiples of 16 bytes");
    }
    if (column.data == nullptr && column.width != 4 && column.width != 8) {
        throw Error(ErrorCode::kInvalid, "row numbers have 4 or 8 bytes");
    }
}

KeyedColumns describe(const DeviceRelation& relation, const RowLayout& layout) {
    KeyedColumns in;
    check_column(relation.key);
    in.key = relation.key.data;
    in.key_valid = relation.key_valid;
    in.columns = static_cast<int32_t>(relation.columns.size());
    uint32_t before = relation.key.width;
    for (size_t c = 0; c < relation.columns.size(); ++c) {
        check_column(relation.columns[c]);
        in.data[c] = relation.columns[c].data;
        in.width[c] = static_cast<uint8_t>(relation.columns[c].width);
        in.offset[c] = static_cast<uint8_t>(layout.offsets[c]);
        in.before[c] = static_cast<uint8_t>(before);
        const uint32_t first = layout.offsets[c] / 4;
        const uint32_t end = std::min<uint32_t>(first + in.width[c] / 4, kRowWordsMax);
        for (uint32_t w = first; w < end; ++w) {
            in.word[w] = {in.before[c], static_cast<uint8_t>((w - first) * 4),
                          in.data[c] == nullptr ? uint8_t{0} : in.width[c]};
        }
        before += in.data[c] == nullptr ? 0 : in.width[c];
    }
    return in;
}

class RadixPartitioning {
  public:
    RadixPartitioning(Device& device, const DeviceRelation& relation, int radix_bits)
        : device_(device), relation_(relation), bits_(radix_bits) {
        std::vector<uint32_t> widths;
        for (const DeviceColumn& column : relation.columns) widths.push_back(column.width);
        result_.layout = RowLayout::make(relation.key.width, widths, kPartialWordsMax);
        result_.radix_bits = radix_bits;
    }

    // Rows of keys and places, while the first pass fills the packs of `packed`.
    RadixPartitioning(Device& device, const DeviceRelation& relation, int radix_bits, PackedRelation& packed,
                      bool with_keyless)
        : device_(device), relation_(relation), bits_(radix_bits), packed_(&packed), with_keyless_(with_keyless) {
        result_.layout = RowLayout::make(relation.key.width, std::vector<uint32_t>{packed.place_width});
        result_.radix_bits = radix_bits;
    }

    PartitionedRows run() {
        const std::vector<int> passes = pass_bits();
        // The counters of the first histogram serve as many passes as they have bits for.
        int counted = std::min(bits_, kHistogramBitsMax);
        while ((sizeof(uint32_t) << counted) > device_.properties().shared_bytes_per_block_optin) --counted;
        const int slice_bits = bits_ - counted <= kHistogramSliceBitsMax ? bits_ - counted : 0;
        counted += slice_bits;
        Allocation counts = count_keys(counted, slice_bits);
        int done = 0;
        for (const int bits : passes) {
            if (done + bits > counted) {
                counts = count_rows(done, bits);
                counted = done + bits;
            }
            if (done == 0 && packed_ != nullptr) {
                move_packs(counts, counted, bits);
            } else {
                move_rows(counts, counted, done, bits, done == 0);
            }
            done += bits;
        }
        result_.data = std::move(rows_);
        result_.begin = std::move(regions_.begin);
        result_.end = std::move(regions_.end);
        return std::move(result_);
    }

  private:
    uint32_t row_words() const { return result_.layout.row_words; }

    // Passes are as even as can be, and later ones have the odd bits; packs are moved by the first pass alone.
    std::vector<int> pass_bits() const {
        const int bits_max = pass_bits_max(device_.properties(), static_cast<int>(row_words()));
        std::vector<int> bits;
        int left = bits_;
        if (packed_ != nullptr) {
            bits.push_back(std::min(left, kPackPassBitsMax));
            left -= bits.back();
        }
        const int passes = std::max(packed_ == nullptr ? 1 : 0, (left + bits_max - 1) / bits_max);
        for (int pass = 0; pass < passes; ++pass) {
            bits.push_back(left / (passes - pass));
            left -= bits.back();
        }
        return bits;
    }

    // Returns the bytes that the first pass reads of each row. Row numbers are nowhere in memory before it.
    uint32_t column_bytes() const {
        uint32_t bytes = relation_.key.width;
        for (const DeviceColumn& column : relation_.columns) bytes += column.data == nullptr ? 0 : column.width;
        return bytes;
    }
    // Returns how many rows a tile has in the first pass, or in a later one.
    uint32_t tile_rows(int bits, bool first) const {
        bool has_narrow = false;
        for (const DeviceColumn& column : relation_.columns) has_narrow = has_narrow || column.width < 4;
        const int bits_max = scatter_bits_max(bits, first && has_narrow);
        return tile_size(device_.properties(), static_cast<int>(row_words()), bits_max).rows;
    }

    Allocation zeroed_counts(uint64_t counts) {
        Allocation memory = device_.memory().allocate(counts * sizeof(uint64_t), "histogram");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, counts * sizeof(uint64_t), device_.stream()));
        return memory;
    }

    Allocation count_keys(int bits, int slice_bits) {
        Allocation counts = zeroed_counts(1ULL << bits);
        count_moved(device_, (relation_.rows << slice_bits) * relation_.key.width);
        auto* const out = counts.as<unsigned long long>();
        const uint64_t per_block = 4ULL * kHistogramThreads;
        // Blocks of all slices are there at a time, one on each multiprocessor.
        dim3 grid = grid_over(device_, relation_.rows, per_block, slice_bits > 0 ? 1 : 2);
        if (slice_bits > 0) grid.x = std::max(1U, grid.x >> slice_bits) << slice_bits;
        const size_t shared_bytes = sizeof(uint32_t) << (bits - slice_bits);
        const auto count = [&](auto kernel, const auto* keys) {
            launch(kernel, grid, dim3(kHistogramThreads), shared_bytes, device_.stream(), keys, relation_.key_valid,
                   relation_.rows, bits, slice_bits, out);
        };
        if (relation_.key.width == 4) {
            const auto* const keys = static_cast<const uint32_t*>(relation_.key.data);
            count(slice_bits > 0 ? histogram_kernel<1, true> : histogram_kernel<1, false>, keys);
        } else {
            const auto* const keys = static_cast<const uint64_t*>(relation_.key.data);
            count(slice_bits > 0 ? histogram_kernel<2, true> : histogram_kernel<2, false>, keys);
        }
        return counts;
    }

    // Counts rows by the next `bits` bits behind the first `done`, inside the regions of the last pass.
    Allocation count_rows(int done, int bits) {
        Allocation counts = zeroed_counts(1ULL << (done + bits));
        count_moved(device_, relation_.rows * row_words() * 4);
        const Allocation tiles = first_tiles(device_, sizes_.as<uint64_t>(), regions_.count, tile_rows(bits, false));
        const dim3 grid(2U * static_cast<unsigned>(device_.properties().multiprocessors));
        launch(histogram_rows_kernel, grid, dim3(kHistogramThreads), 0, device_.stream(), rows_.as<const uint32_t>(),
               row_words(), result_.layout.key_words - 1, regions_.begin.as<const uint64_t>(),
               regions_.end.as<const uint64_t>(), tiles.as<const uint64_t>(), nullptr, regions_.count,
               tile_rows(bits, false), static_cast<uint32_t>(32 - done - bits), bits, counts.as<unsigned long long>());
        return counts;
    }

    // counts: of the first `counted` bits, at least done + bits.
    void move_rows(const Allocation& counts, int counted, int done, int bits, bool first) {
        const uint64_t children = 1ULL << (done + bits);
        Allocation sizes = count_groups(device_, counts.as<const uint64_t>(), children, counted - done - bits);
        Regions next = Regions::open(device_, sizes.as<const uint64_t>(), children);
        const uint64_t padded = relation_.rows + children * kRegionAlignRows;
        Allocation rows = device_.memory().allocate(padded * row_words() * 4, "partitioned rows");
        count_moved(device_, relation_.rows * (row_words() * 4 + (first ? column_bytes() : row_words() * 4)));
        Allocation tiles;
        ScatterPass pass;
        pass.tile_rows = tile_rows(bits, first);
        if (first) {
            pass.in = describe(relation_, result_.layout);
            pass.rows = relation_.rows;
            pass.tiles = (relation_.rows + pass.tile_rows - 1) / pass.tile_rows;
        } else {
            tiles = first_tiles(device_, sizes_.as<const uint64_t>(), regions_.count, pass.tile_rows);
            pass.rows_in = rows_.as();
            pass.regions = regions_.count;
            pass.begin = regions_.begin.as<const uint64_t>();
            pass.end = regions_.end.as<const uint64_t>();
            pass.first_tile = tiles.as<const uint64_t>();
            pass.rows = relation_.rows;
        }
        pass.rows_out = rows.as();
        pass.front = next.front.as<uint64_t>();
        pass.back = next.back.as<uint64_t>();
        pass.bits = static_cast<uint32_t>(bits);
        pass.shift = bits == 0 ? 0 : static_cast<uint32_t>(32 - done - bits);
        if (row_words() > kRowWordsMax) {
            launch_scatter_wide(device_, pass, result_.layout);
        } else if (first) {
            launch_scatter_columns(device_, pass, result_.layout);
        } else {
            launch_scatter_rows(device_, pass, result_.layout);
        }
        rows_ = std::move(rows);
        regions_ = std::move(next);
        sizes_ = std::move(sizes);
    }

    // The first pass of a relation that becomes keys and packs. Rows without a key are behind all others.
    void move_packs(const Allocation& counts, int counted, int bits) {
        const uint64_t children = 1ULL << bits;
        const bool keyless = with_keyless_ && relation_.key_valid != nullptr;
        Allocation sizes = count_groups(device_, counts.as<const uint64_t>(), children, counted - bits, children + 1);
        auto* const keyless_rows = sizes.as<uint64_t>() + children;
        if (keyless) count_keyless(device_, sizes.as<const uint64_t>(), children, relation_.rows, keyless_rows);
        Regions next = Regions::open(device_, sizes.as<const uint64_t>(), children + (keyless ? 1 : 0));
        packed_->places = relation_.rows + (children + 1) * kRegionAlignRows;
        Allocation rows = device_.memory().allocate(packed_->places * result_.layout.row_bytes(), "partitioned rows");
        uint64_t bytes = relation_.key.width + result_.layout.row_bytes() + column_bytes();
        for (ColumnPack& pack : packed_->packs) {
            pack.rows = device_.memory().allocate(packed_->places * pack.row_bytes(), "packed columns");
            bytes += pack.row_bytes();
        }
        count_moved(device_, relation_.rows * bytes);
        const std::vector<PackSource> sources = pack_sources(packed_->packs, relation_);
        const Allocation given = copy_to_device(device_, sources, "packs of columns");
        PackPass pass;
        pass.key = relation_.key.data;
        pass.key_valid = relation_.key_valid;
        pass.rows = relation_.rows;
        pass.keys_out = rows.as<uint32_t>();
        pass.packs = given.as<const PackSource>();
        pass.pack_count = static_cast<uint32_t>(sources.size());
        pass.front = next.front.as<uint64_t>();
        pass.bits = static_cast<uint32_t>(bits);
        pass.shift = bits == 0 ? 0 : static_cast<uint32_t>(32 - bits);
        pass.keeps_keyless = keyless;
        launch_pack_pass(device_, pass, result_.layout.key_words, packed_->place_width / 4);
        if (keyless) {
            packed_->key_valid =
                keyed_places(device_, next.begin.as<const uint64_t>() + children, keyless_rows, packed_->places);
            next.count = children;
        }
        rows_ = std::move(rows);
        regions_ = std::move(next);
        sizes_ = std::move(sizes);
    }

    Device& device_;
    const DeviceRelation& relation_;
    const int bits_;
    PackedRelation* const packed_ = nullptr;
    const bool with_keyless_ = false;
    PartitionedRows result_;
    Allocation rows_;   // of the last pass
    Regions regions_;   // where the partitions of the last pass lie
    Allocation sizes_;  // how many rows those partitions have
};

}  // namespace

int radix_bits_max() {
    return 3 * kPassBitsMax;
}

int radix_passes(int radix_bits) {
    return std::max(1, (radix_bits + kPassBitsMax - 1) / kPassBitsMax);
}

PartitionedRows radix_partition(Device& device, const DeviceRelation& relation, int radix_bits) {
    if (radix_bits < 0 || radix_bits > radix_bits_max()) {
        throw Error(ErrorCode::kInvalid, "radix bits from 0 to " + std::to_string(radix_bits_max()));
    }
    const PhaseScope transform(device, Phase::kTransform);
    return RadixPartitioning(device, relation, radix_bits).run();
}

PackedRelation partition_packed(Device& device, const DeviceRelation& relation, int radix_bits, bool with_keyless) {
    if (radix_bits < 0 || radix_bits > radix_bits_max()) {
        throw Error(ErrorCode::kInvalid, "radix bits from 0 to " + std::to_string(radix_bits_max()));
    }
    check_column(relation.key);
    // A column of no rows may have no address, and is then no column of row numbers.
    for (const DeviceColumn& column : relation.columns) {
        if (relation.rows > 0) check_column(column);
    }
    const PhaseScope transform(device, Phase::kTransform);
    PackedRelation packed;
    packed.packs = plan_packs(relation.columns);
    const uint64_t gaps = (kPackFanOutMax + 1) * kRegionAlignRows;
    packed.place_width = relation.rows + gaps <= 1ULL << 32 ? 4 : 8;
    packed.keys = RadixPartitioning(device, relation, radix_bits, packed, with_keyless).run();
    return packed;
}

namespace {

uint32_t shift_of(int done, int bits) {
    return static_cast<uint32_t>(bits == 0 ? 0 : 32 - done - bits);
}

cudaStream_t stream_of(Device& device, const RowRegions& in) {
    return in.stream == nullptr ? device.stream() : in.stream;
}

uint32_t tile_rows_of(Device& device, const RowLayout& layout, const RowRegions& in, int bits) {
    return in.tile_rows == 0 ? split_tile_rows(device, layout, bits) : in.tile_rows;
}

}  // namespace

uint32_t split_tile_rows(Device& device, const RowLayout& layout, int bits) {
    if (bits < 0 || bits > pass_bits_max(device.properties(), static_cast<int>(layout.row_words))) {
        throw Error(ErrorCode::kInvalid, "more radix bits than one pass takes");
    }
    return tile_size(device.properties(), static_cast<int>(layout.row_words), scatter_bits_max(bits, false)).rows;
}

void count_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* counts) {
    count_moved(device, in.total_rows * layout.row_bytes());
    const auto blocks = static_cast<unsigned>(2 * device.properties().multiprocessors);
    launch(histogram_rows_kernel, dim3(blocks), dim3(kHistogramThreads), 0, stream_of(device, in), in.rows,
           layout.row_words, layout.key_words - 1, in.begin, in.end, in.first_tile, in.parent, in.regions,
           tile_rows_of(device, layout, in, bits), shift_of(done, bits), bits,
           reinterpret_cast<unsigned long long*>(counts));
}

void move_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* front,
                uint64_t* back, uint32_t* out) {
    count_moved(device, 2 * in.total_rows * layout.row_bytes());
    ScatterPass pass;
    pass.tile_rows = tile_rows_of(device, layout, in, bits);
    pass.rows_in = in.rows;
    pass.regions = in.regions;
    pass.begin = in.begin;
    pass.end = in.end;
    pass.parent = in.parent;
    pass.first_tile = in.first_tile;
    pass.rows = in.total_rows;
    pass.rows_out = out;
    pass.front = front;
    pass.back = back;
    pass.bits = static_cast<uint32_t>(bits);
    pass.blocks = in.blocks;
    pass.stream = stream_of(device, in);
    pass.shift = shift_of(done, bits);
    if (layout.row_words > kRowWordsMax) return launch_scatter_wide(device, pass, layout);
    launch_scatter_rows(device, pass, layout);
}

}}  // namespace spillway::cuda::radix_partitioning
