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
constexpr uint32_t kPackedRowsMin = 8;

}  // namespace

SpillScratch::SpillScratch(const PartitionSpec& spec, MemoryBudget& budget) {
    // Rows that are not packed are written from their pages.
    if (!spec.spill || !spec.pack_spilled) return;
    const uint64_t run_bytes = std::max(spec.spill_run_bytes, spec.page_bytes);
    reservation = budget.reserve(spec.spill_write_bytes + 2 * run_bytes, "buffers for spilled rows");
}

void SpillWriter::encode(SpillRun& run, SpillScratch& scratch) {
    const uint32_t row_bytes = rows_.layout().row_bytes;
    SpilledRun& spilled = run.spilled;
    for (const Page& page : run.pages) {
        spilled.rows += page.rows;
        run.content_bytes += page.content_bytes;
    }
    spilled.capacity_bytes = spilled.rows * row_bytes;
    const bool var = rows_.layout().has_var;
    if (var) gather_heaps(run);
    spilled.extent.bytes = spilled.capacity_bytes;
    // Byte strings are not packed, nor are rows of which a run holds few: each of their words has a base of its own. A
    // single row larger than a run would need more memory than is reserved for packing.
    const bool packs = rows_.spec().pack_spilled && !var && spilled.rows >= kPackedRowsMin;
    if (packs && futile_.load(std::memory_order_relaxed) < kFutileRunsMax) {
        run.packed = encode_packed(run, scratch);
    }
}

// Where the byte strings of the page begin, but at a whole word, so that the rows of a run that is read back behind
// another are aligned.
uint32_t SpillWriter::heap_begin(const Page& page) const {
    const uint32_t heap_bytes = page.content_bytes - page.rows * rows_.layout().row_bytes;
    return (page.capacity_bytes - heap_bytes) & ~7u;
}

// In the file the rows of all pages come first, then their heaps, without the gaps in between. VarRefs are changed in
// the pages, which are freed after the write, to the distances there: by the same for all of a page.
void SpillWriter::gather_heaps(SpillRun& run) {
    const RowLayout& layout = rows_.layout();
    uint32_t rows_at = 0;
    uint32_t heap_at = run.spilled.capacity_bytes;
    for (Page& page : run.pages) {
        const uint32_t heap = heap_begin(page);
        const uint32_t further = (heap_at - rows_at) - heap;  // modulo 2^32 where it is nearer
        const uint8_t* const end = page.data + static_cast<uint64_t>(page.rows) * layout.row_bytes;
        for (uint8_t* row = page.data; further != 0 && row < end; row += layout.row_bytes) {
            for (const uint32_t offset : layout.var_offsets) {
                VarRef ref;
                std::memcpy(&ref, row + offset, sizeof ref);
                if (ref.length == 0) continue;
                ref.distance += further;
                std::memcpy(row + offset, &ref, sizeof ref);
            }
        }
        rows_at += page.rows * layout.row_bytes;
        heap_at += page.capacity_bytes - heap;
    }
    run.spilled.capacity_bytes = heap_at;
}

void SpillWriter::add_pieces(const SpillRun& run, std::vector<SpillPiece>& pieces) const {
    for (const Page& page : run.pages) {
        pieces.push_back({page.data, static_cast<uint64_t>(page.rows) * rows_.layout().row_bytes});
    }
    if (!rows_.layout().has_var) return;
    for (const Page& page : run.pages) {
        const uint32_t heap = heap_begin(page);
        pieces.push_back({page.data + heap, page.capacity_bytes - heap});
    }
}

bool SpillWriter::encode_packed(SpillRun& run, SpillScratch& scratch) {
    const RowLayout& layout = rows_.layout();
    SpilledRun& spilled = run.spilled;
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
        spilled.extent.encoding |= kSpillUnmixed;
    }
    const size_t begin = scratch.encoded.size();
    run.encoded_at = begin;
    scratch.encoded.resize(begin + packed_bytes_max(spilled.rows, layout.row_bytes));
    const uint64_t packed =
        pack_rows(scratch.rows.data(), spilled.rows, layout.row_bytes, scratch.encoded.data() + begin);
    scratch.encoded.resize(begin + packed);
    if (packed == 0) {
        spilled.extent.encoding = 0;
        futile_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    futile_.store(0, std::memory_order_relaxed);
    spilled.extent.encoding |= kSpillPacked;
    spilled.extent.bytes = static_cast<uint32_t>(packed);
    return true;
}

// One write for all: packed runs from the scratch memory, others straight from their pages.
void SpillWriter::write(std::vector<SpillRun>& runs, SpillScratch& scratch) {
    scratch.encoded.clear();
    for (SpillRun& run : runs) encode(run, scratch);
    scratch.pieces.clear();
    for (const SpillRun& run : runs) {
        if (run.packed) {
            scratch.pieces.push_back({scratch.encoded.data() + run.encoded_at, run.spilled.extent.bytes});
        } else {
            add_pieces(run, scratch.pieces);
        }
    }
    if (scratch.writer < 0) scratch.writer = writers_.fetch_add(1, std::memory_order_relaxed);
    const SpillFile::Position position =
        rows_.spill_file().write(scratch.pieces, static_cast<uint64_t>(scratch.writer));
    int64_t offset = position.offset;
    for (SpillRun& run : runs) {
        run.spilled.extent.offset = offset;
        run.spilled.extent.shard = position.shard;
        offset += run.spilled.extent.bytes;
    }
}

}  // namespace spillway
