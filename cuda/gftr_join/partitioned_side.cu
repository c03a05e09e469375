// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "gftr_join/gftr_policy.hpp"
#include "gftr_join/partition_keys.cuh"
#include "gftr_join/partitioned_side.hpp"
#include "materialize/gather_rows.hpp"
#include "primitive/row_numbers.hpp"
#include "sort_merge_join/sort_keys.hpp"

namespace spillway::cuda { inline namespace gftr_joins {

namespace {

template <bool kUnmix>
void start_mix(Device& device, const void* from, uint32_t width, uint64_t rows, void* to) {
    count_moved(device, 2 * rows * width);
    const dim3 grid = grid_over(device, rows, kGftrThreads, kGftrBlocksPerMultiprocessor);
    if (width == 4) {
        launch(mix_keys_kernel<uint32_t, kUnmix>, grid, dim3(kGftrThreads), 0, device.stream(),
               static_cast<const uint32_t*>(from), rows, static_cast<uint32_t*>(to));
    } else {
        launch(mix_keys_kernel<uint64_t, kUnmix>, grid, dim3(kGftrThreads), 0, device.stream(),
               static_cast<const uint64_t*>(from), rows, static_cast<uint64_t*>(to));
    }
}

void find_bounds(Device& device, uint64_t rows, PartitionedTuples& tuples) {
    const uint64_t partitions = tuples.partitions();
    tuples.begin = device.memory().allocate((partitions + 1) * sizeof(uint64_t), "partition offsets");
    tuples.sizes = device.memory().allocate(partitions * sizeof(uint64_t), "partition sizes");
    const dim3 grid = grid_of_threads(partitions + 1, kGftrThreads);
    const auto bits = static_cast<uint32_t>(tuples.radix_bits);
    if (tuples.key_width == 4) {
        launch(find_bounds_kernel<uint32_t>, grid, dim3(kGftrThreads), 0, device.stream(),
               tuples.keys.as<const uint32_t>(), rows, bits, tuples.begin.as<uint64_t>(), tuples.sizes.as<uint64_t>());
    } else {
        launch(find_bounds_kernel<uint64_t>, grid, dim3(kGftrThreads), 0, device.stream(),
               tuples.keys.as<const uint64_t>(), rows, bits, tuples.begin.as<uint64_t>(), tuples.sizes.as<uint64_t>());
    }
}

}  // namespace

PartitionedSide::PartitionedSide(Device& device, const DeviceRelation& input, uint32_t row_width, bool keeps_keyless)
    : device_(device), input_(input), row_width_(row_width), relation_(input), keyed_rows_(input.rows) {
    if (input.key_valid == nullptr) return;
    const PhaseScope transform(device, Phase::kTransform);
    keyed_ = list_rows(device, {input.key_valid, input.rows, true}, row_width);
    keyed_rows_ = keyed_.count;
    if (keeps_keyless) keyless_ = list_rows(device, {input.key_valid, input.rows, false}, row_width);
    relation_.rows = keyed_rows_ + keyless_.count;
    relation_.key_valid = nullptr;
    if (keyless_.count > 0) describe_keyless();
}

Allocation PartitionedSide::allocate(uint64_t rows, uint32_t width) {
    return device_.memory().allocate(rows * width, "partitioned relation");
}

void PartitionedSide::describe_keyless() {
    valid_ = allocate((relation_.rows + 31) / 32, sizeof(uint32_t));
    mark_first_rows(device_, relation_.rows, keyed_rows_, valid_.as<uint32_t>());
    relation_.key_valid = valid_.as<const uint32_t>();
}

void PartitionedSide::mix_keys() {
    const uint32_t width = input_.key.width;
    mixed_ = allocate(keyed_rows_, width);
    const void* from = input_.key.data;
    if (input_.key_valid != nullptr) {
        gather_rows(device_, input_.key, keyed_.numbers(), mixed_.as());
        from = mixed_.as();
    }
    start_mix<false>(device_, from, width, keyed_rows_, mixed_.as());
}

PartitionedTuples PartitionedSide::partition(int column, int radix_bits) {
    const PhaseScope transform(device_, Phase::kTransform);
    radix_bits_ = radix_bits;
    mix_keys();
    PartitionedTuples tuples;
    tuples.key_width = input_.key.width;
    tuples.row_width = row_width_;
    tuples.radix_bits = radix_bits;
    tuples.relation_rows = keyed_rows_;
    // Room for the keys of all rows, since they become the key column.
    tuples.keys = allocate(relation_.rows, input_.key.width);
    partition_with(column, tuples.keys.as());
    find_bounds(device_, keyed_rows_, tuples);
    return tuples;
}

void PartitionedSide::partition_with(int column, void* keys_to) {
    const uint32_t key_width = input_.key.width;
    const KeysToSort keys = {mixed_.as(), key_width, keyed_rows_};
    // A sort by one bit does no harm where there is but one partition.
    const int top = static_cast<int>(8 * key_width);
    const KeyBits bits = {top - std::max(radix_bits_, 1), top};
    column_.reset();
    held_ = column;
    if (column == kNoColumn) return radix_sort(device_, keys, bits, nullptr, 0, {keys_to, nullptr});
    const DeviceColumn& from = input_.columns[column];
    column_ = allocate(relation_.rows, from.width);
    Allocation keyed;
    const void* values = from.data;
    if (input_.key_valid != nullptr || from.data == nullptr) {
        keyed = allocate(keyed_rows_, from.width);
        values = keyed.as();
        if (input_.key_valid != nullptr) {
            gather_rows(device_, from, keyed_.numbers(), keyed.as());
        } else {
            number_rows(device_, keyed_rows_, from.width, keyed.as());
        }
    }
    radix_sort(device_, keys, bits, values, from.width, {keys_to, column_.as()});
    gather_rows(device_, from, keyless_.numbers(), column_.as<uint8_t>() + keyed_rows_ * from.width);
}

DeviceColumn PartitionedSide::column(int column) {
    if (held_ != column) {
        const PhaseScope transform(device_, Phase::kTransform);
        device_.check_cancelled();
        const Allocation again =
            allocate(keyed_rows_, input_.key.width);  // the same keys once more, which nobody needs
        partition_with(column, again.as());
    }
    return {column_.as(), input_.columns[column].width};
}

DeviceColumn PartitionedSide::key() {
    const DeviceColumn column = {keys_.as(), input_.key.width};
    if (std::exchange(is_unmixed_, true)) return column;
    start_mix<true>(device_, keys_.as(), column.width, keyed_rows_, keys_.as());
    if (keyless_.count == 0) return column;
    // Nobody needs these keys; what is there shall at least always be the same.
    count_moved(device_, keyless_.count * column.width);
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(keys_.as<uint8_t>() + keyed_rows_ * column.width, 0,
                                        keyless_.count * column.width, device_.stream()));
    return column;
}

}}  // namespace spillway::cuda::gftr_joins
