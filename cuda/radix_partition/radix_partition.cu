// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "radix_partition/histogram.cuh"
#include "radix_partition/plan_regions.hpp"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/scatter_launch.hpp"
#include "radix_partition/tile_size.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

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
        for (uint32_t w = 0; w < in.width[c] / 4U; ++w) {
            in.word[layout.offsets[c] / 4 + w] = {in.before[c], static_cast<uint8_t>(w * 4),
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
        result_.layout = RowLayout::make(relation.key.width, widths);
        result_.radix_bits = radix_bits;
    }

    PartitionedRows run() {
        const int bits_max = pass_bits_max(device_.properties(), static_cast<int>(row_words()));
        const int passes = std::max(1, (bits_ + bits_max - 1) / bits_max);
        // The counters of the first histogram serve as many passes as they have bits for.
        int counted = std::min(bits_, kHistogramBitsMax);
        while ((sizeof(uint32_t) << counted) > device_.properties().shared_bytes_per_block_optin) --counted;
        Allocation counts = count_keys(counted);
        int done = 0;
        for (int pass = 0; pass < passes; ++pass) {
            const int bits = (bits_ - done) / (passes - pass);  // as even as can be, later passes have the odd ones
            if (done + bits > counted) {
                counts = count_rows(done, bits);
                counted = done + bits;
            }
            move_rows(counts, counted, done, bits, pass == 0);
            done += bits;
        }
        result_.data = std::move(rows_);
        result_.begin = std::move(regions_.begin);
        result_.end = std::move(regions_.end);
        return std::move(result_);
    }

  private:
    uint32_t row_words() const { return result_.layout.row_words; }
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

    Allocation count_keys(int bits) {
        Allocation counts = zeroed_counts(1ULL << bits);
        count_moved(device_, relation_.rows * relation_.key.width);
        auto* const out = counts.as<unsigned long long>();
        const uint64_t per_block = 4ULL * kHistogramThreads;
        const uint64_t most = 2ULL * device_.properties().multiprocessors;
        const dim3 grid(static_cast<unsigned>(std::min(most, (relation_.rows + per_block - 1) / per_block)));
        const size_t shared_bytes = sizeof(uint32_t) << bits;
        if (relation_.key.width == 4) {
            launch(histogram_kernel<1>, grid, dim3(kHistogramThreads), shared_bytes, device_.stream(),
                   static_cast<const uint32_t*>(relation_.key.data), relation_.key_valid, relation_.rows, bits, out);
        } else {
            launch(histogram_kernel<2>, grid, dim3(kHistogramThreads), shared_bytes, device_.stream(),
                   static_cast<const uint64_t*>(relation_.key.data), relation_.key_valid, relation_.rows, bits, out);
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
        if (first) {
            launch_scatter_columns(device_, pass, result_.layout);
        } else {
            launch_scatter_rows(device_, pass, result_.layout);
        }
        rows_ = std::move(rows);
        regions_ = std::move(next);
        sizes_ = std::move(sizes);
    }

    Device& device_;
    const DeviceRelation& relation_;
    const int bits_;
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

}}  // namespace spillway::cuda::radix_partitioning
