// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "hash_join/hash_join.hpp"
#include "hash_join/join_columns.hpp"
#include "hash_join/join_memory.hpp"
#include "hash_join/join_pass.hpp"
#include "hash_join/launch_join.hpp"
#include "hash_join/lone_rows.hpp"
#include "hash_join/long_matches.hpp"
#include "hash_join/pieces_policy.hpp"
#include "materialize/dense_output.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

struct Counters {
    unsigned long long next_unit;
    unsigned long long matches;
    unsigned long long reserved;  // rows of the output
    unsigned long long long_matches;
    unsigned long long long_words;
    unsigned long long next_long_match;
};

class HashJoin {
  public:
    HashJoin(Device& device, const PartitionedRows& build, const PartitionedRows& probe, const JoinExtent& extent)
        : device_(device), build_(build), probe_(probe), extent_(extent) {
        if (build.radix_bits != probe.radix_bits || build.layout.key_words != probe.layout.key_words) {
            throw Error(ErrorCode::kInvalid, "both sides of a join are partitioned alike");
        }
        pass_.build = side_of(build);
        pass_.probe = side_of(probe);
        pass_.partitions = build.partitions();
        if (extent.part != nullptr) take_part(*extent.part);
        pass_.radix_bits = static_cast<uint32_t>(build.radix_bits);
        const BlockRoom room =
            block_room(device.properties(), build.layout.key_words, build.layout.row_words, build.radix_bits);
        pass_.build_capacity = room.rows;
        pass_.buckets = room.buckets;
        counters_ = device.memory().allocate(sizeof(Counters), "join counters");
        auto* const counters = counters_.as<Counters>();
        pass_.next_unit = &counters->next_unit;
        pass_.output.out.matches = &counters->matches;
        pass_.output.out.reserved_rows = &counters->reserved;
        pass_.long_matches.matches_taken = &counters->long_matches;
        pass_.long_matches.words_taken = &counters->long_words;
        pass_.long_matches.next_match = &counters->next_long_match;
        allocate_marks();
    }

    uint64_t count() {
        plan_units(0);
        run(true);
        return read_counters().matches;
    }

    JoinResult materialize(const std::vector<JoinOutputColumn>& output, uint64_t expected_rows, OutputPlan plan) {
        if (plan == OutputPlan::kCountFirst) expected_rows = count();
        plan_units(expected_rows);
        JoinColumns columns(build_.layout, probe_.layout, output);
        for (;;) {
            JoinResult result = allocate(columns, expected_rows);
            run(false);
            const Counters counters = read_counters();
            // What was written in vain, because there were more rows than room, counts too.
            count_moved(device_,
                        written_bytes(result, std::min<uint64_t>(counters.matches, pass_.output.out.capacity_rows)));
            if (counters.reserved <= pass_.output.out.capacity_rows) {
                result.rows = counters.matches;
                drop_long_matches();
                const PhaseScope materialize(device_, Phase::kMaterialize);
                close_holes(device_, pass_.output.out, build_.layout.key_words * 4, result.rows, counters.reserved);
                return result;
            }
            expected_rows = counters.matches;
            drop_long_matches();
        }
    }

  private:
    // The list has only what nothing else needs.
    void drop_long_matches() {
        long_memory_ = {};
        pass_.long_matches.matches_capacity = 0;
    }

    static JoinSide side_of(const PartitionedRows& rows) {
        JoinSide side;
        side.rows = rows.data.as<const uint32_t>();
        side.begin = rows.begin.as<const uint64_t>();
        side.end = rows.end.as<const uint64_t>();
        side.row_words = rows.layout.row_words;
        return side;
    }

    void take_part(const JoinPart& part) {
        pass_.partitions = part.ranges;
        pass_.build.begin = part.begin[0];
        pass_.build.end = part.end[0];
        pass_.probe.begin = part.begin[1];
        pass_.probe.end = part.end[1];
    }

    // pairs: that are expected; 0: nobody knows.
    void plan_units(uint64_t pairs) {
        const PhaseScope match(device_, Phase::kMatch);
        pairs_ = pairs;
        const uint64_t probe_rows = extent_.part != nullptr ? extent_.part->rows[1] : stored_rows(probe_);
        // A piece of a result takes all the memory that there is.
        lists_long_ = extent_.part == nullptr && extent_.kind.pairs() &&
                      wants_long_matches(stored_rows(build_), probe_rows, pairs, build_.layout.key_words, pass_);
        const auto multiprocessors = static_cast<uint64_t>(device_.properties().multiprocessors);
        pass_.probe_unit_rows = probe_unit_rows(probe_rows, pass_.partitions, multiprocessors, pairs);
        units_ = first_units(device_, pass_);
        pass_.first_unit = units_.as<const uint64_t>();
    }

    // Which rows have a match, where the kind of join asks.
    void allocate_marks() {
        const JoinKind& kind = extent_.kind;
        const auto allocate = [&](bool wanted, const PartitionedRows& rows, Allocation& marks) -> uint8_t* {
            if (wanted) marks = device_.memory().allocate(stored_rows(rows), "marks of rows with a match");
            return marks.as<uint8_t>();
        };
        pass_.build.marks = allocate(kind.marks_build_rows(), build_, marks_[0]);
        pass_.probe.marks = allocate(kind.marks_probe_rows(), probe_, marks_[1]);
        want_marks();
    }

    void want_marks() {
        if (marks_[0] || marks_[1]) pass_.output.wanted |= kMarksWanted;
    }

    JoinResult allocate(const JoinColumns& columns, uint64_t expected_rows) {
        MatchOutput& out = pass_.output.out;
        // Every warp may leave a chunk open, of the join kernel and of each that adds lone rows (at most four).
        // Together they shall not take more memory than the result.
        uint64_t warps = blocks() * kJoinWarps;
        const uint64_t side_rows = std::max(stored_rows(build_), stored_rows(probe_));
        if (lists_long_) warps += long_match_warps(device_);
        if (!extent_.kind.inner()) warps += 4 * lone_rows_warps(device_, side_rows);
        out.chunk_rows = kWarpThreads;
        // Pieces are as large as memory allows, and the number of their rows is known.
        const uint64_t open_share = extent_.part != nullptr ? 2 * kPieceSlackShare : 1;
        const uint32_t most = extent_.chunk_rows_max == 0 ? kOutputChunkRows : extent_.chunk_rows_max;
        while (out.chunk_rows < most && out.chunk_rows * warps * open_share < expected_rows) {
            out.chunk_rows *= 2;
        }
        const uint64_t chunks = (expected_rows + out.chunk_rows - 1) / out.chunk_rows + warps;
        out.capacity_rows = chunks * out.chunk_rows;
        holes_.reset();
        holes_ = device_.memory().allocate(chunks * sizeof(uint32_t), "holes of the result");
        out.holes = holes_.as<uint32_t>();
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(holes_.as(), 0, chunks * sizeof(uint32_t), device_.stream()));
        JoinResult result = columns.allocate(device_, out.capacity_rows);
        columns.describe(result, pass_.output);
        want_marks();
        for (int side = 0; side < kMatchSides; ++side) {
            const DeviceRelation* const relation = side == 0 ? extent_.build : extent_.probe;
            if (relation != nullptr) columns.find_sources(side, *relation, sources_);
        }
        if (lists_long_) {
            long_memory_ = allocate_long_matches(device_, stored_rows(build_), pairs_, build_.layout.key_words, pass_);
        }
        return result;
    }

    // Rows and what is between partitions.
    static uint64_t stored_rows(const PartitionedRows& rows) { return rows.data.bytes() / rows.layout.row_bytes(); }
    uint64_t blocks() const { return join_blocks(device_, stored_rows(build_) + stored_rows(probe_) + pairs_); }

    void run(bool count_only) {
        const PhaseScope match(device_, Phase::kMatch);
        const cudaStream_t stream = device_.stream();
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(counters_.as(), 0, sizeof(Counters), stream));
        for (const Allocation& marks : marks_) {
            if (marks) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(marks.as(), 0, marks.bytes(), stream));
        }
        const JoinKind& kind = extent_.kind;
        if (kind.emit == JoinEmit::kPairs) {
            run_kernel(count_only ? MatchUse::kCount : MatchUse::kWrite);
            if (kind.keep_unmatched_build) add_lone_rows({0, false, count_only}, true);
            if (kind.keep_unmatched_probe) add_lone_rows({1, false, count_only}, true);
        } else {
            run_kernel(MatchUse::kMark);
            add_lone_rows({kind.emit == JoinEmit::kBuildOnce ? 0 : 1, !kind.anti, count_only}, kind.anti);
        }
    }

    // Adds up the bytes of the result's columns, which all have the same capacity.
    uint64_t written_bytes(const JoinResult& result, uint64_t rows) const {
        uint64_t row_bytes = 0;
        for (const Allocation& column : result.columns) row_bytes += column.bytes() / pass_.output.out.capacity_rows;
        return rows * row_bytes;
    }

    // Rows of both sides once: partitions that take several units read some of them again.
    uint64_t read_bytes() const {
        const JoinPart* const part = extent_.part;
        if (part == nullptr) return build_.data.bytes() + probe_.data.bytes();
        return part->rows[0] * build_.layout.row_bytes() + part->rows[1] * probe_.layout.row_bytes();
    }

    void run_kernel(MatchUse use) {
        count_moved(device_, read_bytes());
        const bool lists = use == MatchUse::kWrite && pass_.long_matches.matches_capacity > 0;
        launch_join(device_, kernel_for(lists ? MatchUse::kList : use), blocks(), build_.layout.key_words, pass_);
        if (lists) launch_long_matches(device_, build_.layout.key_words, pass_);
    }
    JoinKernel kernel_for(MatchUse use) const {
        const uint32_t words = probe_.layout.row_words;
        const bool narrow = build_.layout.key_words == 1;
        if (use == MatchUse::kList) return narrow ? join_list_kernel_4(words) : join_list_kernel_8(words);
        return narrow ? join_kernel_4(use, words) : join_kernel_8(use, words);
    }

    void add_lone_rows(const LoneRows& what, bool with_keyless) {
        const PartitionedRows& rows = what.side == 0 ? build_ : probe_;
        count_moved(device_, rows.data.bytes() + 3 * stored_rows(rows));  // rows; marks cleared, written and read
        launch_lone_rows(device_, pass_, what, build_.layout.key_words, stored_rows(rows));
        const DeviceRelation* const relation = what.side == 0 ? extent_.build : extent_.probe;
        if (with_keyless && relation != nullptr) {
            if (relation->key_valid != nullptr) count_moved(device_, relation->rows / 8);
            launch_keyless_rows(device_, pass_.output.out, *relation, what.count_only ? nullptr : sources_, what);
        }
    }

    // Waits for the kernels.
    Counters read_counters() {
        Counters counters{};
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(&counters, counters_.as(), sizeof counters, cudaMemcpyDeviceToHost, device_.stream()));
        device_.synchronize();
        return counters;
    }

    Device& device_;
    const PartitionedRows& build_;
    const PartitionedRows& probe_;
    const JoinExtent& extent_;
    JoinPass pass_;
    uint64_t pairs_ = 0;
    Allocation counters_;
    Allocation units_;
    Allocation holes_;
    bool lists_long_ = false;  // rows with many matches are written by a kernel of their own
    LongMatchMemory long_memory_;
    Allocation marks_[kMatchSides];
    const void* sources_[kOutputColumnsMax] = {};
};

}  // namespace

int join_radix_bits(Device& device, uint64_t build_rows, uint32_t key_words, uint32_t build_row_words) {
    int bits = 0;
    while (bits < radix_bits_max()) {
        const double fits = block_room(device.properties(), key_words, build_row_words, bits).rows * kPartitionFill;
        if (static_cast<double>(build_rows) / std::exp2(bits) <= fits) break;
        ++bits;
    }
    return bits;
}

uint64_t count_matches(Device& device, const PartitionedRows& build, const PartitionedRows& probe,
                       const JoinExtent& extent) {
    return HashJoin(device, build, probe, extent).count();
}

JoinResult join_partitions(Device& device, const PartitionedRows& build, const PartitionedRows& probe,
                           const std::vector<JoinOutputColumn>& output, uint64_t expected_rows, OutputPlan plan,
                           const JoinExtent& extent) {
    return HashJoin(device, build, probe, extent).materialize(output, expected_rows, plan);
}

}}  // namespace spillway::cuda::hash_join
