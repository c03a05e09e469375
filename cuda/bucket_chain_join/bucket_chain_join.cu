// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "bucket_chain_join/bucket_chain_join.hpp"
#include "bucket_chain_join/bucket_pass.cuh"
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "radix_partition/plan_regions.hpp"

namespace spillway::cuda { inline namespace bucket_chain_join {

namespace {

// The buckets of one pass.
struct BucketChains {
    BucketPool pool;
    Allocation keys;
    Allocation rows;
    Allocation counters;   // of pool.open, pool.chain_buckets, pool.taken
    Allocation directory;  // of pool.owner, pool.ordinal
    Allocation sizes;      // uint64_t[partitions]
    uint64_t buckets = 0;  // the pool has
};

class BucketPartitioning {
  public:
    BucketPartitioning(Device& device, const DeviceRelation& relation, uint32_t row_width, int radix_bits)
        : device_(device), relation_(relation), row_width_(row_width), bits_(radix_bits) {}

    PartitionedTuples run() {
        BucketPass pass;
        pass.keys_in = relation_.key.data;
        pass.key_valid = relation_.key_valid;
        pass.rows = relation_.rows;
        const bool twice = bits_ > kTuplePassBitsMax;
        const int first_bits = twice ? bits_ / 2 : bits_;
        BucketChains chains = open_chains(1ULL << first_bits, twice ? kFirstBucketTuples : kLastBucketTuples);
        set_digit(pass, 0, first_bits);
        const uint64_t tuple_bytes = relation_.key.width + row_width_;
        count_moved(device_, relation_.rows * (relation_.key.width + tuple_bytes) +
                                 (relation_.key_valid == nullptr ? 0 : relation_.rows / 8));
        move(pass, chains, (relation_.rows + kBucketTileTuples - 1) / kBucketTileTuples);
        if (twice) {
            device_.check_cancelled();
            BucketChains later = open_chains(1ULL << bits_, kLastBucketTuples);
            pass.keys_in = chains.pool.keys;
            pass.rows_in = chains.pool.rows;
            pass.buckets_in = chains.pool.taken;
            pass.owner_in = chains.pool.owner;
            pass.ordinal_in = chains.pool.ordinal;
            pass.sizes_in = chains.sizes.as<const uint64_t>();
            set_digit(pass, first_bits, bits_ - first_bits);
            count_moved(device_, relation_.rows * 2 * tuple_bytes);
            move(pass, later, chains.buckets);
            chains = std::move(later);
        }
        return list(std::move(chains));
    }

  private:
    BucketChains open_chains(uint64_t partitions, uint32_t bucket_tuples) {
        MemoryPool& memory = device_.memory();
        BucketChains chains;
        BucketPool& pool = chains.pool;
        chains.buckets = bucket_pool_size(relation_.rows, partitions, bucket_tuples);
        const uint64_t tuples = chains.buckets * bucket_tuples;
        chains.keys = memory.allocate(tuples * relation_.key.width, "bucket chains");
        chains.rows = memory.allocate(tuples * row_width_, "bucket chains");
        chains.counters = memory.allocate((2 * partitions + 1) * sizeof(unsigned long long), "open buckets");
        chains.directory = memory.allocate(2 * chains.buckets * sizeof(uint32_t), "bucket directory");
        chains.sizes = memory.allocate(partitions * sizeof(uint64_t), "partition sizes");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(chains.counters.as(), 0, chains.counters.bytes(), device_.stream()));
        pool.keys = chains.keys.as();
        pool.rows = chains.rows.as();
        pool.open = chains.counters.as<unsigned long long>();
        pool.chain_buckets = pool.open + partitions;
        pool.taken = pool.chain_buckets + partitions;
        pool.owner = chains.directory.as<uint32_t>();
        pool.ordinal = pool.owner + chains.buckets;
        pool.bucket_tuples = bucket_tuples;
        return chains;
    }

    static void set_digit(BucketPass& pass, int done, int bits) {
        pass.bits = static_cast<uint32_t>(bits);
        pass.shift = bits == 0 ? 0 : static_cast<uint32_t>(32 - done - bits);
    }

    unsigned blocks_for(uint64_t tiles) const { return grid_over(device_, tiles, 1, kBucketBlocksPerMultiprocessor).x; }

    void move(BucketPass& pass, const BucketChains& to, uint64_t tiles) {
        pass.out = to.pool;
        if (relation_.key.width == 4) {
            row_width_ == 4 ? launch_pass<uint32_t, uint32_t>(pass, tiles)
                            : launch_pass<uint32_t, uint64_t>(pass, tiles);
        } else {
            row_width_ == 4 ? launch_pass<uint64_t, uint32_t>(pass, tiles)
                            : launch_pass<uint64_t, uint64_t>(pass, tiles);
        }
        const uint64_t partitions = to.sizes.bytes() / sizeof(uint64_t);
        const dim3 grid = grid_of_threads(partitions, kDirectoryThreads);
        launch(chain_sizes_kernel, grid, dim3(kDirectoryThreads), 0, device_.stream(), to.pool, partitions,
               to.sizes.as<uint64_t>());
    }
    template <class Key, class Row>
    void launch_pass(const BucketPass& pass, uint64_t tiles) {
        launch(bucket_pass_kernel<Key, Row>, dim3(blocks_for(tiles)), dim3(kBucketThreads),
               BucketStage<Key, Row>::bytes(), device_.stream(), pass);
    }

    PartitionedTuples list(BucketChains chains) {
        PartitionedTuples tuples;
        tuples.key_width = relation_.key.width;
        tuples.row_width = row_width_;
        tuples.radix_bits = bits_;
        tuples.relation_rows = relation_.rows;
        tuples.bucket_tuples = chains.pool.bucket_tuples;
        tuples.begin =
            first_tiles(device_, chains.sizes.as<const uint64_t>(), tuples.partitions(), chains.pool.bucket_tuples);
        tuples.bucket_list = device_.memory().allocate(chains.buckets * sizeof(uint32_t), "bucket directory");
        const uint64_t blocks = (chains.buckets + kDirectoryThreads - 1) / kDirectoryThreads;
        launch(list_buckets_kernel, dim3(blocks_for(blocks)), dim3(kDirectoryThreads), 0, device_.stream(), chains.pool,
               tuples.begin.as<const uint64_t>(), tuples.bucket_list.as<uint32_t>());
        tuples.keys = std::move(chains.keys);
        tuples.rows = std::move(chains.rows);
        tuples.sizes = std::move(chains.sizes);
        return tuples;
    }

    Device& device_;
    const DeviceRelation& relation_;
    const uint32_t row_width_;
    const int bits_;
};

}  // namespace

PartitionedTuples bucket_chain_partition(Device& device, const DeviceRelation& relation, uint32_t row_width,
                                         int radix_bits) {
    const PhaseScope transform(device, Phase::kTransform);
    return BucketPartitioning(device, relation, row_width, radix_bits).run();
}

MatchPairs bucket_chain_pairs(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                              const MatchWish& wish, const PairJoinOptions& options) {
    if (options.parts != TupleParts::kLarge) refuse("bucket chains for partitions of one size");
    check_pair_join(build, probe, options);
    const uint32_t row_width = tuple_row_width(build, probe, options);
    const int bits = tuple_radix_bits(build.rows, options);
    device.check_cancelled();
    const PartitionedTuples build_tuples = bucket_chain_partition(device, build, row_width, bits);
    device.check_cancelled();
    const PartitionedTuples probe_tuples = bucket_chain_partition(device, probe, row_width, bits);
    return join_tuples(device, build_tuples, probe_tuples, wish, options);
}

}}  // namespace spillway::cuda::bucket_chain_join
