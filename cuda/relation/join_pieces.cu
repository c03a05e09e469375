// SPDX-License-Identifier: Apache-2.0
#include "equi_join/equi_join_pieces.hpp"
#include "relation/join_pieces.hpp"
#include "relation/table_joiner.hpp"

namespace spillway::cuda { inline namespace relation {

struct JoinPieces::State {
    State(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& wanted)
        : join(wanted), joiner(device, build, probe, join), pieces(begin(device)) {
        // Rows without a key are in no partition: where the join keeps them they are read from the relations.
        const JoinKind& kind = join.kind;
        if (!kind.anti && !kind.keep_unmatched_build && !kind.keep_unmatched_probe) joiner.release();
    }
    HashJoinPieces begin(Device& device) {
        const EquiJoin& equi = joiner.prepare();
        return equi_join_pieces(device, joiner.relation(kBuildSide), joiner.relation(kProbeSide), equi);
    }

    const OwnedTableJoin join;
    TableJoiner joiner;
    HashJoinPieces pieces;
};

JoinPieces::JoinPieces(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join)
    : state_(std::make_unique<State>(device, build, probe, join)) {}

JoinPieces::~JoinPieces() = default;

uint64_t JoinPieces::total_rows() const {
    return state_->pieces.total_rows();
}

std::optional<DeviceTable> JoinPieces::next(uint64_t rows_max) {
    HashJoinPieces& pieces = state_->pieces;
    if (pieces.rows_left() == 0) return std::nullopt;
    DeviceTable table = state_->joiner.finish(pieces.next(rows_max));
    pieces.accept();
    return table;
}

}}  // namespace spillway::cuda::relation
