// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device/phase_times.hpp"
#include "materialize/gather_rows.hpp"
#include "primitive/row_numbers.hpp"
#include "sort_merge_join/sort_keys.hpp"
#include "sort_merge_join/sort_relations.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

namespace {

void check_relation(const DeviceRelation& relation) {
    if (relation.key.width != 4 && relation.key.width != 8) refuse("keys have 4 or 8 bytes");
    if (relation.rows > 0 && relation.key.data == nullptr) refuse("a relation without a key column");
    check_column(relation.key);
    for (const DeviceColumn& column : relation.columns) {
        check_column(column);
        if (column.data != nullptr || relation.rows == 0) continue;
        if (column.width != 4 && column.width != 8) refuse("row numbers have 4 or 8 bytes");
        if (column.width == 4 && relation.rows > 1ULL << 32) refuse("row numbers of 4 bytes for more than 2^32 rows");
    }
}

KeyBits all_bits_of(const DeviceColumn& key) {
    return {0, static_cast<int>(8 * key.width)};
}

// Puts one side into the order of its keys.
class SideSorter {
  public:
    SideSorter(Device& device, const DeviceRelation& input, const SortMergeOptions& options)
        : device_(device), input_(input), options_(options) {
        side_.row_width = options.wide_row_numbers ? 8 : row_number_width(input.rows);
        if (options.scheme == SortMergeScheme::kMergeSort && side_.row_width != 4) {
            refuse("merge-sort joins take at most 2^32 rows per side; sort by radix instead");
        }
        side_.relation = input;
        find_keyed_rows();
    }

    KeysToSort keys() const {
        const void* const data = input_.key_valid == nullptr ? input_.key.data : keyed_keys_.as();
        return {data, input_.key.width, side_.keyed_rows};
    }

    SortedSide sort_row_numbers(const KeyBits& bits) {
        side_.keys = allocate(side_.keyed_rows, input_.key.width);
        side_.rows = sorted_numbers(bits, side_.row_width, side_.keys.as());
        return std::move(side_);
    }

    // wanted: which columns the result has.
    SortedSide sort_columns(const KeyBits& bits, const std::vector<bool>& wanted, bool keep_keyless) {
        if (keep_keyless && input_.key_valid != nullptr) {
            keyless_ = list_rows(device_, {input_.key_valid, input_.rows, false}, side_.row_width);
        }
        side_.relation.rows = side_.keyed_rows + keyless_.count;
        side_.keys = allocate(side_.relation.rows, input_.key.width);
        side_.relation.key.data = side_.keys.as();
        describe_keyless();
        Allocation again;  // later sorts give the same keys once more
        bool is_first = true;
        const auto keys_to = [&] {
            if (std::exchange(is_first, false)) return side_.keys.as();
            if (!again) again = allocate(side_.keyed_rows, input_.key.width);
            return again.as();
        };
        Allocation order;
        for (size_t c = 0; c < wanted.size(); ++c) {
            if (!wanted[c]) continue;
            device_.check_cancelled();
            const DeviceColumn& from = input_.columns[c];
            Allocation to = allocate(side_.relation.rows, from.width);
            if (from.width == 16) {
                if (!order) order = sorted_numbers(bits, side_.row_width, keys_to());
                gather_rows(device_, from, {order.as(), side_.row_width, side_.keyed_rows, input_.rows}, to.as());
            } else {
                sort_column(bits, from, keys_to(), to.as());
            }
            gather_rows(device_, from, keyless_.numbers(), to.as<uint8_t>() + side_.keyed_rows * from.width);
            side_.relation.columns[c].data = to.as();
            side_.columns.push_back(std::move(to));
        }
        if (is_first) sorted_numbers(bits, side_.row_width, keys_to());
        return std::move(side_);
    }

  private:
    Allocation allocate(uint64_t rows, uint32_t width) {
        return device_.memory().allocate(rows * width, "sorted relation");
    }

    // Keys of rows that have one stand together before they are sorted: no key is free to mean that there is none.
    void find_keyed_rows() {
        side_.keyed_rows = input_.rows;
        if (input_.key_valid == nullptr) return;
        keyed_ = list_rows(device_, {input_.key_valid, input_.rows, true}, side_.row_width);
        side_.keyed_rows = keyed_.count;
        keyed_keys_ = allocate(keyed_.count, input_.key.width);
        gather_rows(device_, input_.key, keyed_.numbers(), keyed_keys_.as());
    }

    // The input's row numbers in the order of their keys.
    Allocation sorted_numbers(const KeyBits& bits, uint32_t width, void* keys_to) {
        Allocation sorted = allocate(side_.keyed_rows, width);
        sort_numbers(bits, width, keys_to, sorted.as());
        return sorted;
    }
    void sort_numbers(const KeyBits& bits, uint32_t width, void* keys_to, void* to) {
        Allocation numbers;
        const void* from = keyed_.rows.as();
        if (input_.key_valid == nullptr || keyed_.width != width) {
            numbers = allocate(side_.keyed_rows, width);
            from = numbers.as();
            fill_numbers(width, numbers.as());
        }
        if (options_.scheme == SortMergeScheme::kMergeSort) {
            merge_sort(device_, keys(), static_cast<const uint32_t*>(from), {keys_to, to});
        } else {
            radix_sort(device_, keys(), bits, from, width, {keys_to, to});
        }
    }
    void fill_numbers(uint32_t width, void* to) {
        if (input_.key_valid != nullptr) return gather_rows(device_, {nullptr, width}, keyed_.numbers(), to);
        number_rows(device_, side_.keyed_rows, width, to);
    }

    void sort_column(const KeyBits& bits, const DeviceColumn& from, void* keys_to, void* to) {
        if (from.data == nullptr) return sort_numbers(bits, from.width, keys_to, to);
        Allocation keyed;
        const void* values = from.data;
        if (input_.key_valid != nullptr) {
            keyed = allocate(side_.keyed_rows, from.width);
            gather_rows(device_, from, keyed_.numbers(), keyed.as());
            values = keyed.as();
        }
        radix_sort(device_, keys(), bits, values, from.width, {keys_to, to});
    }

    // Which rows of the copy have a key: the first ones.
    void describe_keyless() {
        side_.relation.key_valid = nullptr;
        if (keyless_.count == 0) return;
        const uint64_t rows = side_.relation.rows;
        count_moved(device_, (rows - side_.keyed_rows) * input_.key.width);
        Allocation valid = allocate((rows + 31) / 32, sizeof(uint32_t));
        mark_first_rows(device_, rows, side_.keyed_rows, valid.as<uint32_t>());
        side_.relation.key_valid = valid.as<const uint32_t>();
        side_.columns.push_back(std::move(valid));
        // Nobody needs these keys; what is there shall at least always be the same.
        const uint64_t keyed_bytes = side_.keyed_rows * input_.key.width;
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(side_.keys.as<uint8_t>() + keyed_bytes, 0, side_.keys.bytes() - keyed_bytes,
                                            device_.stream()));
    }

    Device& device_;
    const DeviceRelation& input_;
    const SortMergeOptions& options_;
    SortedSide side_;
    RowList keyed_;  // where some have none
    RowList keyless_;
    Allocation keyed_keys_;
};

std::vector<bool> wanted_columns(const DeviceRelation& relation, const std::vector<JoinOutputColumn>& output,
                                 OutputSide side) {
    std::vector<bool> wanted(relation.columns.size());
    for (const JoinOutputColumn& column : output) {
        if (column.side != side) continue;
        if (column.column >= wanted.size()) refuse("no such column in the relation");
        wanted[column.column] = true;
    }
    return wanted;
}

}  // namespace

SortedRelations sort_relations(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                               const JoinKind& kind, const std::vector<JoinOutputColumn>& output,
                               const SortMergeOptions& options) {
    const PhaseScope transform(device, Phase::kTransform);
    check_relation(build);
    check_relation(probe);
    if (build.key.width != probe.key.width) refuse("keys of both sides of a join have equal widths");
    const std::vector<bool> of_build = wanted_columns(build, output, OutputSide::kBuild);
    const std::vector<bool> of_probe = wanted_columns(probe, output, OutputSide::kProbe);
    SortedRelations sorted;
    SideSorter build_sorter(device, build, options);
    SideSorter probe_sorter(device, probe, options);
    const KeyBits bits =
        options.all_key_bits ? all_bits_of(build.key) : key_bits(device, build_sorter.keys(), probe_sorter.keys());
    if (options.scheme != SortMergeScheme::kColumns) {
        sorted.build = build_sorter.sort_row_numbers(bits);
        device.check_cancelled();
        sorted.probe = probe_sorter.sort_row_numbers(bits);
        return sorted;
    }
    const bool keeps_build = kind.emit == JoinEmit::kBuildOnce ? kind.anti : kind.keep_unmatched_build;
    const bool keeps_probe = kind.emit == JoinEmit::kProbeOnce ? kind.anti : kind.keep_unmatched_probe;
    sorted.build = build_sorter.sort_columns(bits, of_build, keeps_build);
    sorted.probe = probe_sorter.sort_columns(bits, of_probe, keeps_probe);
    return sorted;
}

SortedSide sort_relation(Device& device, const DeviceRelation& relation, const SortMergeOptions& options) {
    const PhaseScope transform(device, Phase::kTransform);
    check_relation(relation);
    if (options.scheme == SortMergeScheme::kColumns) refuse("columns are sorted for what they are joined with");
    SideSorter sorter(device, relation, options);
    return sorter.sort_row_numbers(all_bits_of(relation.key));
}

}}  // namespace spillway::cuda::sort_merge_joins
