// SPDX-License-Identifier: Apache-2.0
#include "cpu/radix_partition/spill_writer.hpp"

#include <algorithm>
#include <cstring>

#include "base/mix_kernels.hpp"
#include "memory/page_packing.hpp"

namespace spillway {

namespace {

// Keys that do not pack (random 64-bit ones) are not tried for ever: unmixing and looking at them costs as much as the
// write. After this many runs in a row the rest of the set goes as it is.
constexpr int kFutileRunsMax = 8;

}  // namespace

SpillScratch::SpillScratch(const PartitionSpec& spec, MemoryBudget& budget) {
    // Rows that are not packed are written from their pages.
    if (!spec.spill || !spec.pack_spilled) return;
    const uint64_t run_bytes = std::max(spec.spill_run_bytes, spec.page_bytes);
    reservation = budget.reserve(spec.spill_write_bytes + 2 * run_bytes, "buffers for spilled rows");
}

void SpillWriter::encode(SpillRun& run, SpillScratch& scratch) {
    const uint32_t row_bytes = rows_.layout().row_bytes;
    Page& spilled = run.spilled;
    for (const Page& page : run.pages) {
        spilled.rows += page.rows;
        spilled.content_bytes += page.content_bytes;
    }
    const bool var = rows_.layout().has_var;
    spilled.capacity_bytes = var ? run.pages[0].capacity_bytes : spilled.rows * row_bytes;
    spilled.spill.bytes = spilled.capacity_bytes;
    // With byte strings in the heap a page goes as it is.
    if (rows_.spec().pack_spilled && !var && futile_.load(std::memory_order_relaxed) < kFutileRunsMax) {
        run.packed = encode_packed(run, scratch);
    }
}

bool SpillWriter::encode_packed(SpillRun& run, SpillScratch& scratch) {
    const RowLayout& layout = rows_.layout();
    Page& spilled = run.spilled;
    scratch.rows.resize(spilled.capacity_bytes);
    uint8_t* at = scratch.rows.data();
    for (const Page& page : run.pages) {
        const uint64_t bytes = static_cast<uint64_t>(page.rows) * layout.row_bytes;
        std::memcpy(at, page.data, bytes);
        at += bytes;
    }
    if (layout.mode == KeyMode::kWord) {
        // Mixed keys use all 64 bits; the keys themselves are often dense and pack to a third.
        unmix_first_words(scratch.rows.data(), spilled.rows, layout.row_bytes);
        spilled.spill.encoding |= kSpillUnmixed;
    }
    const size_t begin = scratch.encoded.size();
    run.encoded_at = begin;
    scratch.encoded.resize(begin + packed_bytes_max(spilled.rows, layout.row_bytes));
    const uint64_t packed =
        pack_rows(scratch.rows.data(), spilled.rows, layout.row_bytes, scratch.encoded.data() + begin);
    scratch.encoded.resize(begin + packed);
    if (packed == 0) {
        spilled.spill.encoding = 0;
        futile_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    futile_.store(0, std::memory_order_relaxed);
    spilled.spill.encoding |= kSpillPacked;
    spilled.spill.bytes = static_cast<uint32_t>(packed);
    return true;
}

// One write for all: packed runs from the scratch memory, others straight from their pages.
void SpillWriter::write(std::vector<SpillRun>& runs, SpillScratch& scratch) {
    scratch.encoded.clear();
    for (SpillRun& run : runs) encode(run, scratch);
    const bool var = rows_.layout().has_var;
    const uint32_t row_bytes = rows_.layout().row_bytes;
    scratch.pieces.clear();
    for (const SpillRun& run : runs) {
        if (run.packed) {
            scratch.pieces.push_back({scratch.encoded.data() + run.encoded_at, run.spilled.spill.bytes});
            continue;
        }
        for (const Page& page : run.pages) {
            const uint64_t bytes = var ? page.capacity_bytes : static_cast<uint64_t>(page.rows) * row_bytes;
            scratch.pieces.push_back({page.data, bytes});
        }
    }
    if (scratch.writer < 0) scratch.writer = writers_.fetch_add(1, std::memory_order_relaxed);
    const SpillFile::Position position =
        rows_.spill_file().write(scratch.pieces, static_cast<uint64_t>(scratch.writer));
    int64_t offset = position.offset;
    for (SpillRun& run : runs) {
        run.spilled.spill.offset = offset;
        run.spilled.spill.shard = position.shard;
        offset += run.spilled.spill.bytes;
    }
}

}  // namespace spillway
