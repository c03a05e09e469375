// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "equi_join/equi_join.hpp"
#include "relation/device_table.hpp"
#include "relation/key_columns.hpp"

namespace spillway::cuda { inline namespace relation {

// Payload columns travel with the rows of the join as far as it takes them (GFTR), others by row number (GFUR): all but
// long strings and widths that are no power of two travel through the radix hash join. NULLs travel as a field of bits.
DeviceTable join_tables(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join);
uint64_t count_join(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join);

// join_tables() for results that do not fit the device: the sides are partitioned once, all rows counted, then made
// piece by piece. Of the radix hash join alone.
class JoinPieces {
  public:
    // The tables stay until the last piece: columns that do not travel in the rows are gathered from them. Waits for
    // the device. Throws as join_tables, and kInvalid for other algorithms.
    JoinPieces(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join);
    ~JoinPieces();
    JoinPieces(const JoinPieces&) = delete;
    JoinPieces& operator=(const JoinPieces&) = delete;

    uint64_t total_rows() const;
    // The next rows, at most rows_max (hash_join/pieces_policy.hpp has the least that counts); none when all have been
    // made. After an error, also of memory, the same rows come with the next call. Waits for the device.
    std::optional<DeviceTable> next(uint64_t rows_max);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}}  // namespace spillway::cuda::relation
