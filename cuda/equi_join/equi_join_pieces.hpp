// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "equi_join/equi_join.hpp"
#include "hash_join/join_pieces.hpp"

namespace spillway::cuda { inline namespace equi_joins {

// equi_join() for results in pieces. The relations stay, where the kind of join keeps rows without a key, until the
// last piece; else they may go. Throws kInvalid for algorithms other than kRadixHash: their tables and sorted rows are
// of whole relations, which what is left of a device's memory had better be used for.
HashJoinPieces equi_join_pieces(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                const EquiJoin& join);

}}  // namespace spillway::cuda::equi_joins
