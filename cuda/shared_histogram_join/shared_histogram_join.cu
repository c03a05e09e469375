// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "radix_partition/plan_regions.hpp"
#include "shared_histogram_join/reorder_pass.cuh"
#include "shared_histogram_join/shared_histogram_join.hpp"
#include "shared_histogram_join/staged_reorder.cuh"

namespace spillway::cuda { inline namespace shared_histogram_join {

namespace {

class HistogramPartitioning {
  public:
    HistogramPartitioning(Device& device, const DeviceRelation& relation, uint32_t row_width, int radix_bits,
                          const HistogramOptions& passes)
        : device_(device), relation_(relation), is_staged_(passes.staged) {
        const int even = radix_bits > kReorderEvenBitsMax ? radix_bits / 2 : radix_bits;
        first_bits_ = std::min(radix_bits, passes.first_pass_bits >= 0 ? passes.first_pass_bits : even);
        if (std::max(first_bits_, radix_bits - first_bits_) > kReorderPassBitsMax) {
            refuse("passes of 0 to " + std::to_string(kReorderPassBitsMax) + " bits");
        }
        result_.key_width = relation.key.width;
        result_.row_width = row_width;
        result_.radix_bits = radix_bits;
        result_.relation_rows = relation.rows;
    }

    PartitionedTuples run() {
        MemoryPool& memory = device_.memory();
        ReorderPass pass;
        pass.keys_in = relation_.key.data;
        pass.key_valid = relation_.key_valid;
        pass.rows = relation_.rows;
        result_.begin = memory.allocate(2 * sizeof(uint64_t), "partition offsets");
        result_.sizes = memory.allocate(sizeof(uint64_t), "partition sizes");
        launch(one_region_kernel, dim3(1), dim3(1), 0, device_.stream(), relation_.rows, result_.begin.as<uint64_t>(),
               result_.sizes.as<uint64_t>());
        move(pass, 0, first_bits_);
        if (first_bits_ < result_.radix_bits) {
            device_.check_cancelled();
            pass.keys_in = result_.keys.as();
            pass.rows_in = result_.rows.as();
            move(pass, first_bits_, result_.radix_bits - first_bits_);
        }
        return std::move(result_);
    }

  private:
    unsigned blocks_for(uint64_t chunks) const {
        return grid_over(device_, chunks, 1, kReorderBlocksPerMultiprocessor).x;
    }

    // By the next `bits` behind the first `done`; takes the partitions of result_ and leaves the new ones there.
    void move(ReorderPass& pass, int done, int bits) {
        MemoryPool& memory = device_.memory();
        pass.regions = 1ULL << done;
        pass.bits = static_cast<uint32_t>(bits);
        pass.shift = bits == 0 ? 0 : static_cast<uint32_t>(32 - done - bits);
        const uint64_t children = pass.regions << bits;
        const uint64_t chunks_max = relation_.rows / kChunkTuples + std::min(relation_.rows, pass.regions);
        const Allocation first_chunk =
            first_tiles(device_, result_.sizes.as<const uint64_t>(), pass.regions, kChunkTuples);
        // One more, so that there is one even without chunks. Those that no chunk writes count nothing.
        const uint64_t counters = (chunks_max << bits) + 1;
        const Allocation counts = memory.allocate(counters * sizeof(uint64_t), "shared histograms");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counts.as(), 0, counts.bytes(), device_.stream()));
        pass.begin = result_.begin.as<const uint64_t>();
        pass.first_chunk = first_chunk.as<const uint64_t>();
        pass.counts = counts.as<uint64_t>();
        const auto histogram =
            relation_.key.width == 4 ? shared_histogram_kernel<uint32_t> : shared_histogram_kernel<uint64_t>;
        launch(histogram, dim3(blocks_for(chunks_max)), dim3(kReorderThreads), 0, device_.stream(), pass);
        count_moved(device_, pass_bytes(pass) + 4 * counts.bytes());
        const Allocation offsets = first_tiles(device_, counts.as<const uint64_t>(), counters, 1);
        pass.offsets = offsets.as<const uint64_t>();

        Allocation keys = memory.allocate(relation_.rows * result_.key_width, "partitioned tuples");
        Allocation rows = memory.allocate(relation_.rows * result_.row_width, "partitioned tuples");
        pass.keys_out = keys.as();
        pass.rows_out = rows.as();
        reorder_for_widths(pass, dim3(blocks_for(chunks_max)));

        Allocation begin = memory.allocate((children + 1) * sizeof(uint64_t), "partition offsets");
        Allocation sizes = memory.allocate(children * sizeof(uint64_t), "partition sizes");
        const dim3 grid(static_cast<unsigned>(children / kOffsetThreads + 1));
        launch(find_partitions_kernel, grid, dim3(kOffsetThreads), 0, device_.stream(), pass.offsets, pass.first_chunk,
               pass.regions, pass.bits, begin.as<uint64_t>(), sizes.as<uint64_t>());
        result_.keys = std::move(keys);
        result_.rows = std::move(rows);
        result_.begin = std::move(begin);
        result_.sizes = std::move(sizes);
    }

    // Keys twice, row numbers where there are some before, tuples written; histograms are cleared, written, summed up.
    uint64_t pass_bytes(const ReorderPass& pass) const {
        const uint64_t tuple_bytes = result_.key_width + result_.row_width;
        uint64_t bytes = relation_.rows * (2ULL * result_.key_width + tuple_bytes);
        if (pass.rows_in != nullptr) bytes += relation_.rows * result_.row_width;
        if (pass.rows_in == nullptr && pass.key_valid != nullptr) bytes += relation_.rows / 4;
        return bytes;
    }

    void reorder_for_widths(const ReorderPass& pass, dim3 grid) const {
        if (result_.key_width == 4) {
            result_.row_width == 4 ? reorder<uint32_t, uint32_t>(pass, grid) : reorder<uint32_t, uint64_t>(pass, grid);
        } else {
            result_.row_width == 4 ? reorder<uint64_t, uint32_t>(pass, grid) : reorder<uint64_t, uint64_t>(pass, grid);
        }
    }
    template <class Key, class Row>
    void reorder(const ReorderPass& pass, dim3 grid) const {
        const auto kernel = is_staged_ ? staged_reorder_kernel<Key, Row> : reorder_kernel<Key, Row>;
        const uint64_t bytes = is_staged_ ? ReorderStage<Key, Row>::bytes() : 0;
        launch(kernel, grid, dim3(kReorderThreads), bytes, device_.stream(), pass);
    }

    Device& device_;
    const DeviceRelation& relation_;
    const bool is_staged_;
    int first_bits_ = 0;
    PartitionedTuples result_;
};

}  // namespace

PartitionedTuples shared_histogram_partition(Device& device, const DeviceRelation& relation, uint32_t row_width,
                                             int radix_bits, const HistogramOptions& passes) {
    const PhaseScope transform(device, Phase::kTransform);
    return HistogramPartitioning(device, relation, row_width, radix_bits, passes).run();
}

PartitionedTuples shared_histogram_partition(Device& device, const DeviceRelation& relation, uint32_t row_width,
                                             int radix_bits) {
    return shared_histogram_partition(device, relation, row_width, radix_bits, {});
}

MatchPairs shared_histogram_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                  const MatchWish& wish, const PairJoinOptions& options,
                                  const HistogramOptions& passes) {
    check_pair_join(build, probe, options);
    const uint32_t row_width = tuple_row_width(build, probe, options);
    const int bits = tuple_radix_bits(build.rows, options);
    device.check_cancelled();
    const PartitionedTuples build_tuples = shared_histogram_partition(device, build, row_width, bits, passes);
    device.check_cancelled();
    const PartitionedTuples probe_tuples = shared_histogram_partition(device, probe, row_width, bits, passes);
    return join_tuples(device, build_tuples, probe_tuples, wish, options);
}

MatchPairs shared_histogram_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                  const MatchWish& wish, const PairJoinOptions& options) {
    return shared_histogram_pairs(device, build, probe, wish, options, {});
}

}}  // namespace spillway::cuda::shared_histogram_join
