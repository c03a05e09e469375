// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "materialize/dense_output.hpp"
#include "pair_join/child_kernels.hpp"
#include "pair_join/join_tuples.hpp"
#include "pair_join/tuple_join.cuh"
#include "radix_partition/plan_regions.hpp"

namespace spillway::cuda { inline namespace pair_join {

namespace {

// More than any memory holds, and little enough for products with widths to stay within 64 bits.
constexpr uint64_t kRowsMax = 1ULL << 40;
constexpr int kPlanThreads = 256;

void check_side(const DeviceRelation& relation) {
    if (relation.key.width != 4 && relation.key.width != 8) refuse("keys have 4 or 8 bytes");
    if (relation.rows > kRowsMax) refuse("a relation of more rows than any memory holds");
    if (relation.rows > 0 && relation.key.data == nullptr) refuse("a relation without a key column");
}

// Bytes: 24 per partition.
template <class Parts>
__global__ void count_pair_units(const uint64_t* build_sizes, const uint64_t* probe_sizes, uint64_t partitions,
                                 uint64_t* units) {
    const uint64_t p = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (p < partitions) units[p] = pair_units<Parts>(build_sizes[p], probe_sizes[p]);
}

// Rows that a writer of direct output takes at a time.
uint32_t chunk_rows_of(PairOutput output) {
    switch (output) {
        case PairOutput::kBlockChunks:
            return kPairBlockChunkRows;
        case PairOutput::kThreadPages:
            return kPairPageRows;
        default:
            return kPairChunkRows;
    }
}

template <class Parts>
class TuplesJoin {
  public:
    TuplesJoin(Device& device, const PartitionedTuples& build, const PartitionedTuples& probe, const MatchWish& wish,
               const PairJoinOptions& options)
        : device_(device),
          key_width_(build.key_width),
          row_width_(build.row_width),
          // Marks alone take no more time where a key comes often.
          child_kernels_(options.child_kernels &&
                         (wish.pairs || (wish.build_marks == nullptr && wish.probe_marks == nullptr))) {
        const uint64_t most = device.properties().multiprocessors * kChildBlocksPerMultiprocessor;
        child_blocks_ = options.child_blocks < 0 ? most : std::min<uint64_t>(most, options.child_blocks);
        build_rows_ = build.relation_rows;
        probe_rows_ = probe.relation_rows;
        numbers_width_ = build.rows ? row_width_ : 0;
        pass_.build = side_of(build);
        pass_.probe = side_of(probe);
        pass_.partitions = build.partitions();
        pass_.radix_bits = static_cast<uint32_t>(build.radix_bits);
        pass_.marks[0] = wish.build_marks;
        pass_.marks[1] = wish.probe_marks;
        counters_ = device.memory().allocate(sizeof(Counters), "join counters");
        auto* const counters = counters_.as<Counters>();
        pass_.next_unit = &counters->next_unit;
        pass_.out.matches = &counters->matches;
        pass_.out.reserved_rows = &counters->reserved;
        const Allocation units = device.memory().allocate(pass_.partitions * sizeof(uint64_t), "units of partitions");
        const dim3 grid = grid_of_threads(pass_.partitions, kPlanThreads);
        launch(count_pair_units<Parts>, grid, dim3(kPlanThreads), 0, device.stream(), pass_.build.sizes,
               pass_.probe.sizes, pass_.partitions, units.as<uint64_t>());
        first_unit_ = first_tiles(device, units.as<const uint64_t>(), pass_.partitions, 1);
        pass_.first_unit = first_unit_.as<const uint64_t>();
    }

    void mark() { run(PairUse::kMark); }

    uint64_t count() {
        run(PairUse::kCount);
        return read_counters().matches;
    }

    // Direct output: who writes takes chunks of the output and fills them; what they leave open is closed afterwards.
    MatchPairs write_directly(uint64_t expected_rows, PairOutput output) {
        const uint32_t chunk_rows = chunk_rows_of(output);
        const PairUse use = output == PairOutput::kBlockChunks   ? PairUse::kWriteByBlock
                            : output == PairOutput::kThreadPages ? PairUse::kWriteByThread
                                                                 : PairUse::kWrite;
        for (;;) {
            device_.check_cancelled();
            const uint64_t chunks = (expected_rows + chunk_rows - 1) / chunk_rows + writers(output);
            Allocation holes = device_.memory().allocate(chunks * sizeof(uint32_t), "holes of the result");
            SPILLWAY_CUDA_CHECK(cudaMemsetAsync(holes.as(), 0, holes.bytes(), device_.stream()));
            pass_.out.holes = holes.as<uint32_t>();
            pass_.out.chunk_rows = chunk_rows;
            MatchPairs pairs = allocate(chunks * chunk_rows);
            run(use);
            const Counters counters = read_counters();
            count_moved(device_, pair_bytes(std::min<uint64_t>(counters.matches, pass_.out.capacity_rows)));
            if (counters.reserved <= pass_.out.capacity_rows) {
                pairs.count = counters.matches;
                close_holes(device_, pass_.out, key_width_, pairs.count, counters.reserved);
                return pairs;
            }
            // Enough for as many writers to write the same pairs.
            expected_rows = counters.matches;
        }
    }

    // Counts the pairs of each unit; their prefix sum says where each begins. Marks are made by the second run alone.
    MatchPairs count_and_write() {
        uint64_t units = 0;
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&units, pass_.first_unit + pass_.partitions, sizeof units,
                                            cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        if (units == 0) return allocate(0);
        const Allocation matches = device_.memory().allocate(units * sizeof(uint64_t), "pairs of units");
        uint32_t* const marks[kMatchSides] = {std::exchange(pass_.marks[0], nullptr),
                                              std::exchange(pass_.marks[1], nullptr)};
        pass_.unit_matches = matches.as<uint64_t>();
        run(PairUse::kCount);
        pass_.unit_matches = nullptr;
        std::copy(marks, marks + kMatchSides, pass_.marks);
        const Allocation places = first_tiles(device_, matches.as<const uint64_t>(), units, 1);
        MatchPairs pairs = allocate(read_counters().matches);
        pairs.count = pass_.out.capacity_rows;
        device_.check_cancelled();
        pass_.unit_places = places.as<const uint64_t>();
        count_moved(device_, pair_bytes(pairs.count));
        run(PairUse::kWrite);
        pass_.unit_places = nullptr;
        return pairs;
    }

  private:
    struct Counters {
        unsigned long long next_unit;
        unsigned long long matches;
        unsigned long long reserved;
        unsigned long long child_blocks;
    };

    static TupleSide side_of(const PartitionedTuples& tuples) {
        TupleSide side;
        side.keys = tuples.keys.as();
        side.rows = tuples.rows.as();
        side.sizes = tuples.sizes.as<const uint64_t>();
        side.begin = tuples.begin.as<const uint64_t>();
        if (tuples.bucket_tuples == 0) return side;
        const bool fits = tuples.bucket_tuples >= kBucketTuplesMin && Parts::kBuildTuples % tuples.bucket_tuples == 0;
        if (!fits) throw Error(ErrorCode::kInternal, "buckets of a size that the join has no room for");
        side.bucket_list = tuples.bucket_list.as<const uint32_t>();
        side.bucket_bits = 0;
        while ((1U << side.bucket_bits) < tuples.bucket_tuples) ++side.bucket_bits;
        return side;
    }

    unsigned blocks() const {
        return static_cast<unsigned>(device_.properties().multiprocessors) * Parts::kBlocksPerMultiprocessor;
    }
    uint64_t child_blocks() const { return child_kernels_ ? child_blocks_ : 0; }
    uint64_t writers(PairOutput output) const {
        const int of_block = output == PairOutput::kBlockChunks   ? 1
                             : output == PairOutput::kThreadPages ? Parts::kThreads
                                                                  : Parts::kThreads / kWarpThreads;
        return (blocks() + child_blocks()) * of_block;
    }

    MatchPairs allocate(uint64_t rows) {
        if (rows > kRowsMax) refuse("a result of more rows than any memory holds");
        MatchPairs pairs;
        pairs.build_width = pairs.probe_width = row_width_;
        pairs.build_rows = device_.memory().allocate(rows * row_width_, "pairs of row numbers");
        pairs.probe_rows = device_.memory().allocate(rows * row_width_, "pairs of row numbers");
        MatchOutput& out = pass_.out;
        out.capacity_rows = rows;
        out.column[0] = {pairs.build_rows.as(), row_width_, 0};
        out.column[1] = {pairs.probe_rows.as(), row_width_, 0};
        // One column per side, of 4 bytes (the first kind) or 8 (the second).
        for (int kind = 0; kind < kFieldWidths; ++kind) {
            const bool begun = kind > 0 || row_width_ == 4;
            out.end[0][kind] = begun ? 1 : 0;
            out.end[1][kind] = begun ? 2 : 1;
        }
        return pairs;
    }

    uint64_t pair_bytes(uint64_t pairs) const { return pairs * 2 * row_width_; }

    void run(PairUse use) {
        // Tuples of both sides once; who counts needs no row numbers of the probe side.
        const uint64_t probe_width = key_width_ + (use == PairUse::kCount ? 0 : numbers_width_);
        count_moved(device_, build_rows_ * (key_width_ + numbers_width_) + probe_rows_ * probe_width);
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counters_.as(), 0, sizeof(Counters), device_.stream()));
        if (child_kernels_) {
            const ChildPass pass = {pass_, &counters_.as<Counters>()->child_blocks, child_blocks(), blocks()};
            launch_with_children(device_, pass, key_width_, row_width_, use);
        } else if (key_width_ == 4) {
            row_width_ == 4 ? run_kernel<uint32_t, uint32_t>(use) : run_kernel<uint32_t, uint64_t>(use);
        } else {
            row_width_ == 4 ? run_kernel<uint64_t, uint32_t>(use) : run_kernel<uint64_t, uint64_t>(use);
        }
    }
    template <class Key, class Row>
    void run_kernel(PairUse use) {
        switch (use) {
            case PairUse::kWrite:
                return start<Key, Row, PairUse::kWrite>();
            case PairUse::kWriteByBlock:
                return start<Key, Row, PairUse::kWriteByBlock>();
            case PairUse::kWriteByThread:
                return start<Key, Row, PairUse::kWriteByThread>();
            case PairUse::kCount:
                return start<Key, Row, PairUse::kCount>();
            case PairUse::kMark:
                return start<Key, Row, PairUse::kMark>();
        }
    }
    template <class Key, class Row, PairUse kUse>
    void start() {
        launch(tuple_join_kernel<Key, Row, Parts, kUse>, dim3(blocks()), dim3(Parts::kThreads),
               TupleTable<Key, Row, Parts>::bytes(), device_.stream(), pass_);
    }

    // Waits for the kernel.
    Counters read_counters() {
        Counters counters{};
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(&counters, counters_.as(), sizeof counters, cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        return counters;
    }

    Device& device_;
    const uint32_t key_width_;
    const uint32_t row_width_;
    const bool child_kernels_;
    uint64_t child_blocks_ = 0;
    uint64_t build_rows_ = 0;
    uint64_t probe_rows_ = 0;
    uint32_t numbers_width_ = 0;  // of row numbers that are read; none where places stand for them
    TuplePass pass_;
    Allocation counters_;
    Allocation first_unit_;
};

template <class Parts>
MatchPairs join_in_parts(Device& device, const PartitionedTuples& build, const PartitionedTuples& probe,
                         const MatchWish& wish, const PairJoinOptions& options) {
    TuplesJoin<Parts> join(device, build, probe, wish, options);
    if (wish.pairs) {
        return options.plan == OutputPlan::kOnePass ? join.write_directly(options.expected_rows, options.output)
                                                    : join.count_and_write();
    }
    MatchPairs pairs;
    pairs.build_width = pairs.probe_width = build.row_width;
    if (wish.build_marks != nullptr || wish.probe_marks != nullptr) {
        join.mark();
    } else {
        pairs.count = join.count();
    }
    return pairs;
}

int radix_bits_max(const PairJoinOptions& options) {
    return options.parts == TupleParts::kLarge ? LargeParts::kRadixBitsMax : SmallParts::kRadixBitsMax;
}

}  // namespace

void check_pair_join(const DeviceRelation& build, const DeviceRelation& probe, const PairJoinOptions& options) {
    check_side(build);
    check_side(probe);
    if (build.key.width != probe.key.width) refuse("keys of both sides of a join have equal widths");
    if (options.radix_bits > radix_bits_max(options)) {
        refuse("radix bits from 0 to " + std::to_string(radix_bits_max(options)));
    }
    if (options.child_kernels && options.parts != TupleParts::kSmall) refuse("child kernels for small parts alone");
    if (options.expected_rows > kRowsMax) refuse("a result of more rows than any memory holds");
}

int tuple_radix_bits(uint64_t build_rows, const PairJoinOptions& options) {
    if (options.radix_bits >= 0) return options.radix_bits;
    const uint32_t room = options.parts == TupleParts::kLarge ? LargeParts::kBuildTuples : SmallParts::kBuildTuples;
    const auto mean_max = static_cast<uint64_t>(room * kTuplePartitionFill);
    int bits = 0;
    while (bits < radix_bits_max(options) && build_rows >> bits > mean_max) ++bits;
    return bits;
}

uint32_t tuple_row_width(const DeviceRelation& build, const DeviceRelation& probe, const PairJoinOptions& options) {
    return options.wide_row_numbers || std::max(build.rows, probe.rows) > 1ULL << 32 ? 8 : 4;
}

MatchPairs join_tuples(Device& device, const PartitionedTuples& build, const PartitionedTuples& probe,
                       const MatchWish& wish, const PairJoinOptions& options) {
    const PhaseScope match(device, Phase::kMatch);
    if (build.radix_bits != probe.radix_bits || build.key_width != probe.key_width ||
        build.row_width != probe.row_width) {
        throw Error(ErrorCode::kInternal, "both sides of a join are partitioned alike");
    }
    device.check_cancelled();
    return options.parts == TupleParts::kLarge ? join_in_parts<LargeParts>(device, build, probe, wish, options)
                                               : join_in_parts<SmallParts>(device, build, probe, wish, options);
}

}}  // namespace spillway::cuda::pair_join
