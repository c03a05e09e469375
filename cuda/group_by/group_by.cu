// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "device/launch.hpp"
#include "device/published.hpp"
#include "group_by/columns/column_groups.hpp"
#include "group_by/dense/dense_policy.hpp"
#include "group_by/dense/numbered_group_by.hpp"
#include "group_by/group_by.hpp"
#include "group_by/group_parts.hpp"
#include "group_by/packed/packed_groups.hpp"
#include "group_by/plan/aggregate_parts.hpp"
#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/moved_bytes.hpp"
#include "group_by/sorted/sort_pairs.hpp"
#include "group_by/sorted/sorted_columns.hpp"
#include "group_by/tables/aggregate_pass.cuh"
#include "group_by/tables/aggregate_tiles.cuh"
#include "group_by/tables/estimate_groups.hpp"
#include "group_by/tables/global_table.hpp"
#include "group_by/tables/group_units.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

static_assert(sizeof(AggregatePass) <= 4096, "parameters of a kernel");

// What the kernels of an attempt tell the host.
struct GroupCounters {
    unsigned long long reserved = 0;  // groups
    uint32_t failed = 0;              // no place was left for one
    uint32_t overflows = 0;           // a bit per aggregate

    // Zeroed, with the pass pointing to them.
    static Allocation make(Device& device, AggregatePass& pass) {
        Allocation memory = device.memory().allocate(sizeof(GroupCounters), "counters of a group-by");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, sizeof(GroupCounters), device.stream()));
        auto* const counters = memory.as<GroupCounters>();
        pass.sink.reserved = &counters->reserved;
        pass.sink.overflows = &counters->overflows;
        pass.global.failed = &counters->failed;
        return memory;
    }
    // Waits for the device.
    static GroupCounters read(Device& device, const Allocation& memory) {
        return read_published<GroupCounters>(device, memory.as());
    }
};

// Static shared memory of the kernel and what the runtime keeps, at most.
constexpr uint64_t kReservedSharedBytes = 3072;

class GroupBy {
  public:
    GroupBy(Device& device, const GroupByRequest& request)
        : device_(device),
          request_(request),
          plan_(GroupPlan::make(device, request)),
          multiprocessors_(static_cast<uint64_t>(device.properties().multiprocessors)) {}

    GroupByResult run() {
        if (request_.rows == 0) return allocate(0);
        if (sorts_columns(request_.algorithm)) return group_by_sorted_columns(device_, request_, plan_, &group_by);
        bool is_estimated = request_.expected_groups == 0 || request_.knows_groups;
        uint64_t groups = request_.expected_groups;
        if (groups == 0) groups = estimate_groups(device_, request_);
        GroupByAlgorithm algorithm = request_.algorithm;
        for (;;) {
            device_.check_cancelled();
            groups = std::min(groups, request_.rows);
            pass_ = AggregatePass{};
            if (algorithm == GroupByAlgorithm::kHash && !plan_hash(groups)) algorithm = way_out();
            // Tables notice at once that groups are too many. Partitions are made first.
            if (!is_estimated && is_partitioned(algorithm)) {
                groups = std::min(check_groups(device_, request_, groups), request_.rows);
            }
            std::optional<GroupByResult> result = attempt(algorithm, groups);
            if (result.has_value()) {
                note_algorithm(device_, static_cast<int>(algorithm));
                return std::move(*result);
            }
            // There were more groups than anybody expected: they are counted, and then more and more allowed for.
            const bool stays = algorithm == GroupByAlgorithm::kHashGlobal || algorithm == GroupByAlgorithm::kSorted;
            if (!stays) algorithm = way_out();
            ++failures_;
            groups = is_estimated ? groups * 8 : estimate_groups(device_, request_);
            is_estimated = true;
        }
    }

  private:
    static bool is_partitioned(GroupByAlgorithm algorithm) {
        return algorithm == GroupByAlgorithm::kPartitioned || algorithm == GroupByAlgorithm::kPartitionedGather;
    }

    // What takes more groups than the algorithm that was asked for. Who named a group-by by hashing gets one.
    GroupByAlgorithm way_out() const {
        const bool hashes = request_.algorithm == GroupByAlgorithm::kHash && request_.is_named;
        return hashes ? GroupByAlgorithm::kHashGlobal : GroupByAlgorithm::kPartitioned;
    }

    // kHash: after plan_hash(). Sets `algorithm` to what ran.
    std::optional<GroupByResult> attempt(GroupByAlgorithm& algorithm, uint64_t groups) {
        if (algorithm == GroupByAlgorithm::kHashGlobal) return attempt_numbers(groups);
        for (uint64_t capacity = capacity_for(groups);;) {
            rows_ = {};
            sorted_ = {};
            // Later attempts may have nothing better to try.
            pass_.elsewhere_max = failures_ < 2 ? kElsewhereRowsMax : 0;
            GroupByResult result = allocate(capacity);
            pass_.sink = sink_of(plan_, result, capacity);
            counters_ = GroupCounters::make(device_, pass_);
            const PhaseScope match(device_, Phase::kMatch);
            if (algorithm == GroupByAlgorithm::kSorted && request_.rows <= 1ULL << 32) {
                run_sorted(groups);
            } else if (algorithm == GroupByAlgorithm::kHash) {
                run_hash(groups);
            } else {
                run_partitioned(groups);
                if (algorithm != GroupByAlgorithm::kPartitionedGather) algorithm = GroupByAlgorithm::kPartitioned;
            }
            emit_groups(device_, plan_.key_words, pass_.global, pass_.sink);
            const GroupCounters counters = GroupCounters::read(device_, counters_);
            if (counters.failed != 0) return std::nullopt;
            count_group_bytes(device_, algorithm, request_, plan_, rows_, pass_.slices, pass_.global.slots,
                              counters.reserved);
            if (counters.reserved <= capacity) {
                result.groups = counters.reserved;
                result.sum_overflows = overflow_flags(plan_, counters.overflows);
                return result;
            }
            capacity = counters.reserved;
        }
    }

    std::optional<GroupByResult> attempt_numbers(uint64_t groups) {
        const uint64_t slots = std::min(global_slots(groups), kNumberedSlotsMax);
        std::optional<GroupByResult> result =
            group_by_numbers(device_, request_, plan_, {slots, global_walk_max(slots)});
        if (!result.has_value() && slots == kNumberedSlotsMax) {
            throw Error(ErrorCode::kInvalid, "more groups than a table of 2^32 slots in GPU memory takes");
        }
        return result;
    }

    uint64_t capacity_for(uint64_t groups) const {
        const auto expected = static_cast<uint64_t>(static_cast<double>(groups) * kOutputMargin);
        return std::min(request_.rows, expected + kOutputGroupsMin);
    }

    GroupByResult allocate(uint64_t groups) {
        return allocate_groups(device_.memory(), plan_, request_.key.width, groups);
    }

    // Slots, in whole buckets, that fit beside the tiles with so many blocks per multiprocessor.
    uint32_t slots_for(uint64_t blocks) const {
        const DeviceProperties& properties = device_.properties();
        const uint64_t shared =
            std::min(properties.shared_bytes_per_block_optin, properties.shared_bytes_per_multiprocessor / blocks);
        const uint64_t taken = kReservedSharedBytes + 2ULL * pass_.source.tile_bytes;
        const uint64_t slot_bytes = plan_.slot_bytes();
        const uint64_t slots = shared > taken ? (shared - taken) / slot_bytes : 0;
        if (slots < 8) throw Error(ErrorCode::kInvalid, "too many aggregates for a block's shared memory");
        return whole_buckets(slots - 4);
    }
    static uint64_t fill_of(uint32_t slots) {
        return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(slots) * kTableFill));
    }

    void launch_aggregation(uint64_t blocks) {
        const uint32_t tiles_from = (pass_.table_bytes(static_cast<int>(plan_.key_words)) + 127) & ~127U;
        const size_t shared_bytes = tiles_from + 2ULL * pass_.source.tile_bytes;
        pass_.plan = plan_.slots;
        const auto kernel = plan_.key_words == 1 ? aggregate_tiles_kernel<1> : aggregate_tiles_kernel<2>;
        launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kGroupThreads), shared_bytes, device_.stream(), pass_);
    }

    // table_bytes() depends on the words of the plan, which the pass gets here.
    void set_table(uint32_t slots) {
        pass_.plan = plan_.slots;
        pass_.slots = slots;
    }

    // Slots of the table in GPU memory, at most: more than a group per row takes.
    uint64_t most_slots() const { return 2 * request_.rows + 1024; }
    // After a failure there are more and more.
    uint64_t global_slots(uint64_t groups) const {
        uint64_t slots = 2 * groups + kGlobalSlotsMin;
        for (int i = 0; i < failures_ && slots < most_slots(); ++i) slots *= 16;
        return std::min(slots, most_slots());
    }
    uint32_t global_walk_max(uint64_t slots) const { return slots == most_slots() ? ~0U : kGlobalWalkMax; }

    void make_global(uint64_t groups) {
        const uint64_t slots = global_slots(groups);
        pass_.global.walk_max = global_walk_max(slots);
        global_.make(device_, request_.key.width, plan_.slots.words, slots, pass_.global);
    }

    // Sets the new pass up, but for what run_hash() does. false: more groups than kHash is for.
    bool plan_hash(uint64_t groups) {
        pass_.rows = request_.rows;
        if (has_column_groups(plan_, request_) && plan_column_groups(groups)) return true;
        hash_blocks_ = kGroupBlocksPerMultiprocessor;
        pass_.source = place_columns(plan_, request_, kStagedBytesMax);
        uint32_t slots = slots_for(hash_blocks_);
        // One block with large tiles, else one with a large table.
        for (const uint32_t staged_bytes : {kStagedBytesMaxAlone, kStagedBytesMax}) {
            if (groups <= fill_of(slots)) break;
            pass_.source = place_columns(plan_, request_, staged_bytes);
            slots = slots_for(hash_blocks_ = 1);
        }
        const uint64_t slices = (groups + fill_of(slots) - 1) / fill_of(slots);
        if (slices > kSlicesMax || slices > multiprocessors_) return false;
        pass_.slices = static_cast<uint32_t>(slices);
        set_table(slots);
        return true;
    }

    bool plan_column_groups(uint64_t groups) {
        const ColumnGroupsTable table = ColumnGroupsTable::make(device_.properties(), plan_, groups);
        if (!table.is_worth_it || table.slices > multiprocessors_) return false;
        hash_blocks_ = 0;
        place_unstaged(plan_, request_);
        pass_.slices = static_cast<uint32_t>(table.slices);
        set_table(table.slots);
        pass_.pairs = table.pairs;
        return true;
    }

    void run_hash(uint64_t groups) {
        make_global(groups);
        if (hash_blocks_ == 0) return launch_column_groups(device_, plan_, pass_);
        const uint64_t tiles = (request_.rows + pass_.source.tile_rows - 1) / pass_.source.tile_rows;
        const uint64_t teams = std::min(hash_blocks_ * multiprocessors_ / pass_.slices, tiles);
        launch_aggregation(teams * pass_.slices);
    }

    // Radix bits with which a partition's groups fit a table.
    static int bits_for(uint64_t groups, uint32_t slots) {
        int bits = 0;
        while (bits < radix_bits_max() && groups >> bits > fill_of(slots)) ++bits;
        return bits;
    }

    void run_partitioned(uint64_t groups) {
        if (has_packed_groups(plan_, request_)) return run_packed_groups(groups);
        const DeviceRelation relation = relation_to_pack(plan_, request_);
        std::vector<uint32_t> widths;
        for (const DeviceColumn& column : relation.columns) widths.push_back(column.width);
        const RowLayout layout = RowLayout::make(relation.key.width, widths);
        const auto place = [&](const void* rows, uint32_t staged_bytes) {
            pass_.source = place_packed(plan_, relation, layout.offsets, rows, layout.row_bytes(), staged_bytes);
        };
        place(nullptr, kStagedBytesMax);
        // One pass has so many bits anyway, unless rows are few; groups may ask for more.
        int bits = 0;
        while (bits < kGroupRadixBits && request_.rows >> (bits + 1) >= kGroupPartitionRowsMin) ++bits;
        uint64_t blocks = 1;
        uint32_t slots = slots_for(1);
        bits = std::max(bits, bits_for(groups, slots));
        const int bits_of_two = std::max(bits, bits_for(groups, slots_for(2)));
        // With few partitions every multiprocessor has one; with more two blocks, if that takes no further pass.
        if (1ULL << bits > 4 * multiprocessors_ && radix_passes(bits_of_two) == radix_passes(bits)) {
            bits = bits_of_two;
            blocks = 2;
            slots = slots_for(2);
        }
        uint32_t staged_bytes = kStagedBytesMax;
        if (blocks == 1) {
            place(nullptr, kStagedBytesMaxAlone);
            const uint32_t rest = slots_for(1);
            if (groups >> bits <= fill_of(rest)) {
                staged_bytes = kStagedBytesMaxAlone;
                slots = rest;
            }
        }
        const auto each = static_cast<double>((groups >> bits) + 1) * kSlotsPerGroup;
        set_table(std::min(slots, std::max(kTableSlotsMin, whole_buckets(static_cast<uint64_t>(std::min(each, 1e6))))));
        rows_ = radix_partition(device_, relation, bits);
        place(rows_.data.as(), staged_bytes);
        list_units(bits, groups, pass_.source.tile_rows);
        launch_units(blocks);
    }

    void run_packed_groups(uint64_t groups) {
        const PackedGroupsShape shape = PackedGroupsShape::make(device_.properties(), plan_, request_.rows, groups);
        const DeviceRelation relation = relation_to_pack(plan_, request_);
        rows_ = radix_partition(device_, relation, shape.bits);
        const RowLayout& layout = rows_.layout;
        pass_.source =
            place_packed(plan_, relation, layout.offsets, rows_.data.as(), layout.row_bytes(), kStagedBytesMax);
        set_table(shape.slots);
        pass_.pairs = shape.pairs(groups);
        list_units(shape.bits, groups, pass_.source.tile_rows);
        set_units();
        launch_packed_groups(device_, plan_, pass_, rows_.data.as(), shape.blocks);
    }

    void list_units(int bits, uint64_t groups, uint32_t tile_rows) {
        pass_.radix_bits = static_cast<uint32_t>(bits);
        const UnitSizes sizes = UnitSizes::make(request_.rows, multiprocessors_, tile_rows);
        units_ = units_of_partitions(device_, rows_, request_.rows, sizes, tile_rows);
        make_global(std::min(sizes.merged_groups(request_.rows, groups >> bits), request_.rows));
    }

    void run_sorted(uint64_t groups) {
        sorted_ = sort_keys(device_, request_.key, request_.rows, request_.all_key_bits);
        uint32_t slots = 0;
        uint64_t tile_rows = 0;
        uint64_t fill = 0;
        const auto place = [&](uint32_t staged_bytes) {
            pass_.source = place_sorted(plan_, sorted_.keys.as(), sorted_.row_numbers.as(), staged_bytes);
            slots = slots_for(kGroupBlocksPerMultiprocessor);
            tile_rows = pass_.source.tile_rows;
            fill = static_cast<uint64_t>(static_cast<double>(slots) * kSortedUnitFill);
        };
        // A unit has a tile at least, whose groups a table takes: those of a mean tile, and after a failure a group per
        // row, as where frequent keys leave hardly any rows to the others.
        const double groups_per_row =
            failures_ > 0 ? 1 : static_cast<double>(groups) / static_cast<double>(request_.rows);
        uint32_t staged_bytes = kStagedBytesMax;
        for (place(staged_bytes); static_cast<double>(tile_rows) * groups_per_row > static_cast<double>(fill);) {
            place(staged_bytes /= 2);
        }
        set_table(slots);
        const uint64_t unit_rows = std::max<uint64_t>(fill / tile_rows, 1) * tile_rows;
        units_ = units_of_sorted_rows(device_, request_.rows, unit_rows, static_cast<uint32_t>(tile_rows));
        make_global(2 * (request_.rows / unit_rows + 1));
        launch_units(kGroupBlocksPerMultiprocessor);
    }

    void set_units() {
        pass_.units = units_.units.as<const GroupUnit>();
        pass_.unit_count = units_.numbers.as<const unsigned long long>();
        pass_.next_unit = units_.numbers.as<unsigned long long>() + 1;
    }
    void launch_units(uint64_t blocks) {
        set_units();
        const uint64_t tiles = (request_.rows + pass_.source.tile_rows - 1) / pass_.source.tile_rows;
        launch_aggregation(std::min(blocks * multiprocessors_, tiles));
    }

    Device& device_;
    const GroupByRequest& request_;
    GroupPlan plan_;
    const uint64_t multiprocessors_;
    AggregatePass pass_;
    uint64_t hash_blocks_ = 0;  // kHash: per multiprocessor, of aggregate_tiles_kernel; 0: of column_groups_kernel
    int failures_ = 0;
    Allocation counters_;
    GlobalTable global_;
    PartitionedRows rows_;
    SortedRows sorted_;
    GroupUnits units_;
};

}  // namespace

GroupByResult group_by(Device& device, const GroupByRequest& request) {
    const std::vector<std::vector<size_t>> parts = aggregate_parts(request);
    if (parts.size() <= 1) return GroupBy(device, request).run();
    return group_in_parts(device, request, parts, &group_by);
}

}}  // namespace spillway::cuda::grouping
