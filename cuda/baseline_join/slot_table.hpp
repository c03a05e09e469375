// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "baseline_join/baseline_join.hpp"
#include "device/device.hpp"
#include "stream/result_writer.hpp"
#include "tier/interleaved_range.hpp"

namespace spillway::cuda { inline namespace baseline_join {

// A table as kernels see it. Which slots are taken is told by a bit each, in device memory, and by nothing else: no key
// is reserved, and what a slot has that is not taken is never looked at, so that the table is not cleared.
//
// That is also how rows get into memory of the host. A slot is claimed by an atomic operation on its bit, and then
// written by plain stores of the one thread that has it; nobody reads slots before the kernel has ended, which orders
// all of its writes. Nothing ever is atomic on host memory: over PCIe the GPU has no such operations of its own
// (cudaDevAttrHostNativeAtomicSupported is 0), and a claim would cost a trip over the link where this costs none.
struct SlotTableView {
    uint32_t* slots = nullptr;
    uint32_t* taken = nullptr;  // [(slot_count + 31) / 32]
    uint64_t slot_count = 0;
    uint64_t first_key = 0;   // perfect
    uint32_t slot_words = 0;  // linear probing: a whole row, the mixed key first; perfect: its columns alone
    uint32_t row_words = 0;
    uint32_t perfect = 0;
};

// Its memory: device memory alone, or stripes of device and host memory in one range of addresses.
class SlotTable {
  public:
    enum class Hashing : uint8_t { kLinearProbing, kPerfect };
    enum class Place : uint8_t { kDevice, kSpread };

    SlotTable(Device& device, const BaselineSpec& spec, Hashing hashing, Place place);

    const SlotTableView& view() const { return view_; }
    uint64_t bytes() const { return view_.slot_count * view_.slot_words * sizeof(uint32_t); }

  private:
    void take_spread(Device& device, const BaselineSpec& spec);

    SlotTableView view_;
    Allocation taken_;
    Allocation local_;                           // kDevice
    std::unique_ptr<InterleavedMemory> memory_;  // kSpread, as is the range, which goes first
    InterleavedRange range_;
};

// Packed rows (RowLayout) that are inserted or looked up, and the table.
struct TablePass {
    SlotTableView table;
    const uint32_t* rows = nullptr;
    uint64_t row_count = 0;
    uint32_t row_words = 1;
    uint32_t key_words = 1;
};

// Reads each row once, claims a bit at random and writes a slot at random. *refusals |= TableRefusal, where a row had
// to be left out.
void insert_rows(Device& device, const TablePass& pass, uint64_t* refusals);
// The error for what was refused, if anything was.
void throw_refusal(uint64_t refusals);

// Each of these reads each row once, and of the table a bit and a slot at random, or more slots where walks are longer.
// totals[0] += result rows, totals[1 + c] += sum of column c; sums: of 4 and 8 bytes, at most kSumColumnsMax.
void sum_rows(Device& device, const TablePass& pass, const ResultWindow& columns, uint64_t* totals);
// Result rows of each group of 32 rows: group_rows[row / 32], and a 0 behind them.
void count_rows_of_groups(Device& device, const TablePass& pass, uint64_t* group_rows);
// first_of_group: their exclusive sum. Writes the rows of the window, and each result row of it once.
void write_rows(Device& device, const TablePass& pass, const uint64_t* first_of_group, const ResultWindow& window);

}}  // namespace spillway::cuda::baseline_join
