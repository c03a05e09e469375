// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "executor/device/deliver.hpp"
#include "executor/device_job.hpp"

namespace spillway {

struct PiecesSpec {
    DeliverSpec deliver;
    uint64_t rows_max = 0;  // of a piece
};

struct DeliveredPieces {
    uint64_t rows = 0;
    uint64_t pieces = 0;
    uint64_t sent_bytes = 0;  // over the link
    double elapsed_ms = 0;    // of the joins, on the GPU
};

// Sends the rows of a join to a sink piece by piece: one is joined, its rows are copied and handed over at the pace of
// the sink, it goes, the next is joined. Where GPU memory does not suffice for a piece, which strings of uneven length
// and other queries may cause, pieces become smaller. Nothing is joined while rows are copied: a piece takes a
// millisecond per gigabyte to join and some twenty to leave the GPU, and a second piece would halve the first.
DeliveredPieces deliver_pieces(GpuPieces& join, const PiecesSpec& spec, KeptPinned& pinned, const DeviceTurn& turn,
                               BatchSink& sink, JobControl& control);

}  // namespace spillway
