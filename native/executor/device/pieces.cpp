// SPDX-License-Identifier: Apache-2.0
#include "executor/device/pieces.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace spillway {

namespace {

// Pieces of fewer rows are not tried: what they need is less than what an allocation is rounded up to.
constexpr uint64_t kPieceRowsMin = 4096;

bool needs_gpu_memory(const Error& error) {
    if (error.code() != ErrorCode::kBudgetTooSmall && error.code() != ErrorCode::kOutOfMemory) return false;
    for (const auto& [name, text] : error.details()) {
        if (name == "tier") return text == "device";
    }
    return false;
}

}  // namespace

DeliveredPieces deliver_pieces(GpuPieces& join, const PiecesSpec& spec, KeptPinned& pinned, const DeviceTurn& turn,
                               BatchSink& sink, JobControl& control) {
    DeliveredPieces done;
    uint64_t rows_max = spec.rows_max;
    for (;;) {
        control.check();
        GpuTable piece;
        cuda::TableReport report;
        try {
            turn([&] { piece = join.next(pinned.device(), rows_max, report); });
        } catch (const Error& error) {
            const uint64_t tried = std::min(rows_max, join.rows() - done.rows);
            if (!needs_gpu_memory(error) || tried / 2 < kPieceRowsMin) rethrow_undelivered(error, done.pieces > 0);
            rows_max = tried / 2;
            continue;
        }
        if (!piece) break;
        done.elapsed_ms += report.elapsed_ms;
        const Delivered delivered = deliver_table(piece, spec.deliver, pinned, sink, control);
        done.rows += delivered.rows;
        done.sent_bytes += delivered.sent_bytes;
        ++done.pieces;
    }
    SPILLWAY_CHECK(done.rows == join.rows());
    return done;
}

}  // namespace spillway
