// SPDX-License-Identifier: Apache-2.0
#include "executor/device/value_bits.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "device/value_packing.hpp"

namespace spillway {

namespace {

// Of 8 bytes a block is 8 KiB: 16 of each of 12 columns are read in a fraction of a millisecond.
constexpr int64_t kSampledBlocks = 16;

}  // namespace

std::vector<double> sampled_value_bits(Source& source, const std::vector<int32_t>& columns, MemoryBudget& budget,
                                       JobControl& control) {
    constexpr int64_t kBlockRows = cuda::kPackedValues;
    std::vector<double> bits(columns.size());
    if (source.rows() == 0) return bits;
    SourceReader reader(source, columns, budget, control);
    double rows = 0;
    const int64_t last = std::max<int64_t>(source.rows() - kBlockRows, 0);
    for (int64_t i = 0; i < kSampledBlocks; ++i) {
        control.check();
        // The first and the last rows are among them: values may rise from one to the other.
        const int64_t first = last / (kSampledBlocks - 1) * i;
        const int64_t batch = batch_of(source, first);
        const int64_t row = first - source.first_row(batch);
        const int64_t count = std::min(kBlockRows, source.batch_rows(batch) - row);
        if (count <= 0) continue;
        const std::vector<ColumnView>& views = reader.read(batch, row, count);
        for (size_t c = 0; c < columns.size(); ++c) {
            const auto width = static_cast<uint32_t>(views[c].type->byte_width);
            SPILLWAY_CHECK(views[c].type->layout == Layout::kFixed && cuda::can_pack(width));
            bits[c] += bits_of_block(views[c].data, width, static_cast<uint64_t>(count)) * static_cast<double>(count);
        }
        rows += static_cast<double>(count);
    }
    for (size_t c = 0; c < columns.size(); ++c) {
        const auto width = static_cast<uint32_t>(source.columns()[static_cast<size_t>(columns[c])]->byte_width);
        const double header = 8.0 * sizeof(cuda::PackedBlock) * cuda::packed_planes(width) / cuda::kPackedValues;
        bits[c] = (rows > 0 ? bits[c] / rows : 0) + header;
    }
    return bits;
}

}  // namespace spillway
