// SPDX-License-Identifier: Apache-2.0
#include "executor/device/value_samples.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "device/value_packing.hpp"

namespace spillway {

namespace {

// Of 8 bytes a block is 8 KiB: 16 of each of 12 columns are read in a fraction of a millisecond.
constexpr int64_t kSampledBlocks = 16;

template <class Value>
double magnitude_of(const uint8_t* values, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; ++i) {
        Value value;
        std::memcpy(&value, values + i * static_cast<int64_t>(sizeof value), sizeof value);
        most = std::max(most, std::fabs(static_cast<double>(value)));
    }
    return most;
}

double magnitude_of(const ColumnView& view, int64_t count) {
    const bool is_unsigned = view.type->order == Order::kUnsigned;
    switch (view.type->byte_width) {
        case 1:
            return is_unsigned ? magnitude_of<uint8_t>(view.data, count) : magnitude_of<int8_t>(view.data, count);
        case 2:
            return is_unsigned ? magnitude_of<uint16_t>(view.data, count) : magnitude_of<int16_t>(view.data, count);
        case 4:
            return is_unsigned ? magnitude_of<uint32_t>(view.data, count) : magnitude_of<int32_t>(view.data, count);
        case 8:
            return is_unsigned ? magnitude_of<uint64_t>(view.data, count) : magnitude_of<int64_t>(view.data, count);
        default:
            return magnitude_of<__int128>(view.data, count);
    }
}

}  // namespace

std::vector<ValueSample> sample_values(Source& source, const std::vector<int32_t>& columns, MemoryBudget& budget,
                                       JobControl& control) {
    constexpr int64_t kBlockRows = cuda::kPackedValues;
    std::vector<ValueSample> samples(columns.size());
    if (source.rows() == 0) return samples;
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
            const uint32_t bits = bits_of_block(views[c].data, width, static_cast<uint64_t>(count));
            samples[c].bits += bits * static_cast<double>(count);
            samples[c].magnitude = std::max(samples[c].magnitude, magnitude_of(views[c], count));
        }
        rows += static_cast<double>(count);
    }
    for (size_t c = 0; c < columns.size(); ++c) {
        const auto width = static_cast<uint32_t>(source.columns()[static_cast<size_t>(columns[c])]->byte_width);
        const double header = 8.0 * sizeof(cuda::PackedBlock) * cuda::packed_planes(width) / cuda::kPackedValues;
        samples[c].bits = (rows > 0 ? samples[c].bits / rows : 0) + header;
    }
    return samples;
}

}  // namespace spillway
