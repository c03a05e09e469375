// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "relation/join_tables.hpp"
#include "relation/table_joiner.hpp"

namespace spillway::cuda { inline namespace relation {

DeviceTable join_tables(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join) {
    if (!join.output.empty()) {
        TableJoiner joiner(device, build, probe, join);
        const EquiJoin& equi = joiner.prepare();
        JoinResult rows = equi_join(device, joiner.relation(kBuildSide), joiner.relation(kProbeSide), equi);
        joiner.release();
        return joiner.finish(std::move(rows));
    }
    DeviceTable out;
    out.rows = count_join(device, build, probe, join);
    return out;
}

uint64_t count_join(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join) {
    const JoinKeys keys = join_keys(device, build, join.build_keys, probe, join.probe_keys, join.nulls_equal);
    return equi_join_count(device, relation_of(build, keys.build), relation_of(probe, keys.probe), equi_join_of(join));
}

}}  // namespace spillway::cuda::relation
