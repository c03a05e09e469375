// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/stream_spec.hpp"
#include "device/device.hpp"
#include "row_index/row_index.hpp"
#include "stream/result_writer.hpp"
#include "stream/row_pieces.hpp"
#include "stream/row_sums.hpp"

namespace spillway::cuda { inline namespace row_index {

// Which result rows a probe row with so many partners gives.
struct ProbeRule {
    bool pairs = true;            // one for each partner
    bool keep_unmatched = false;  // with pairs: one where it has no partner
    bool once = false;            // without pairs: one where it has a partner
    bool anti = false;            // with once: one where it has no partner instead

    __host__ __device__ uint64_t rows(uint64_t partners) const {
        if (pairs) return partners == 0 && keep_unmatched ? 1 : partners;
        return once && (partners > 0) != anti ? 1 : 0;
    }
};

// Looks the rows of a batch up. Reads each row once, a sector of bucket offsets for each, and the rows of its bucket.
struct ProbePass {
    PieceTiles tiles;
    const uint32_t* rows = nullptr;
    uint32_t row_words = 1;
    uint32_t more_at = 0;  // where words of the key begin that follow the first two; index.more_words of them
    IndexView index;
    ProbeRule rule;
    uint8_t* build_marks = nullptr;  // a byte per place of the pool: set to 1 where the row has a partner
    uint8_t* probe_marks = nullptr;  // a byte per row of the batch, the same
};

// totals[0] += result rows, totals[1 + c] += sum of column c; sums: of 4 and 8 bytes, at most kSumColumnsMax.
void sum_matches(Device& device, const ProbePass& pass, const ResultWindow& columns, uint64_t* totals);

// Where a part of a value is that pairs add up (stream/row_sums.hpp).
struct AddedPart {
    uint8_t side = 0;      // OutputSide, not kPresence
    uint8_t offset = 0;    // in the row of that side, or in the key, in bytes
    uint8_t width = 4;     // 1, 2 or 4
    int8_t validity = -1;  // byte of that row that is 0 for NULL
    bool is_signed = false;
    bool counts = false;
};
struct AddedParts {
    uint32_t count = 0;
    AddedPart part[kSumPartsMax];
};

// totals[0] += pairs; totals[1 + 2 * i] and totals[2 + 2 * i] += the low 32 bits of the sums of part i, which carry
// nothing, and the others, which have a sign.
void sum_parts_of_matches(Device& device, const ProbePass& pass, const AddedParts& parts, uint64_t* totals);

// Result rows of each group of 32 rows: group_rows[tile * kTileRows / 32 + group].
void count_matches_of_groups(Device& device, const ProbePass& pass, uint64_t* group_rows);
// first_of_group: their exclusive sum. Writes the rows of the window. many_partners: few probe rows may have all of
// them.
void write_matches(Device& device, const ProbePass& pass, const uint64_t* first_of_group, const ResultWindow& window,
                   bool many_partners);

}}  // namespace spillway::cuda::row_index
