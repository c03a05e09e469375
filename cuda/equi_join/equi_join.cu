// SPDX-License-Identifier: Apache-2.0
#include "equi_join/equi_join.hpp"
#include "hash_join/hash_join.hpp"
#include "no_partitioning_join/no_partitioning_join.hpp"

namespace spillway::cuda {

namespace {

class RadixHashJoin {
  public:
    RadixHashJoin(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const EquiJoin& join)
        : device_(device), join_(join), extent_{join.kind, &build, &probe} {
        const int bits = join.radix_bits >= 0
                             ? join.radix_bits
                             : join_radix_bits(device, build.rows, build.key.width / 4, row_words(build));
        build_ = radix_partition(device, build, bits);
        probe_ = radix_partition(device, probe, bits);
    }

    JoinResult materialize() const {
        return join_partitions(device_, build_, probe_, join_.output, join_.expected_rows, join_.plan, extent_);
    }
    uint64_t count() const { return count_matches(device_, build_, probe_, extent_); }

  private:
    static uint32_t row_words(const DeviceRelation& relation) {
        std::vector<uint32_t> widths;
        for (const DeviceColumn& column : relation.columns) widths.push_back(column.width);
        return RowLayout::words_for(relation.key.width, widths);
    }

    Device& device_;
    const EquiJoin& join_;
    const JoinExtent extent_;
    PartitionedRows build_;
    PartitionedRows probe_;
};

NpjOptions npj_options(const EquiJoin& join) {
    if (!join.kind.inner()) {
        throw Error(ErrorCode::kInvalid, "no-partitioning joins are inner joins; partition the relations instead");
    }
    NpjOptions options;
    options.scheme =
        join.algorithm == JoinAlgorithm::kPerfectHash ? HashingScheme::kPerfect : HashingScheme::kLinearProbing;
    options.first_key = join.first_key;
    options.key_range = join.key_range;
    options.expected_rows = join.expected_rows;
    options.plan = join.plan;
    return options;
}

// Counting needs keys alone.
DeviceRelation keys_of(const DeviceRelation& relation) {
    DeviceRelation keys;
    keys.rows = relation.rows;
    keys.key = relation.key;
    keys.key_valid = relation.key_valid;
    return keys;
}

}  // namespace

JoinResult equi_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const EquiJoin& join) {
    if (join.algorithm == JoinAlgorithm::kRadixHash) return RadixHashJoin(device, build, probe, join).materialize();
    return no_partitioning_join(device, build, probe, join.output, npj_options(join));
}

uint64_t equi_join_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                         const EquiJoin& join) {
    const DeviceRelation build_keys = keys_of(build);
    const DeviceRelation probe_keys = keys_of(probe);
    if (join.algorithm == JoinAlgorithm::kRadixHash) {
        return RadixHashJoin(device, build_keys, probe_keys, join).count();
    }
    return no_partitioning_count(device, build_keys, probe_keys, npj_options(join));
}

}  // namespace spillway::cuda
