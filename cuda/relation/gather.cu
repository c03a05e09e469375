// SPDX-License-Identifier: Apache-2.0
#include <cub/device/device_scan.cuh>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "relation/gather.cuh"
#include "relation/gather.hpp"
#include "relation/relation_grid.hpp"

namespace spillway::cuda { inline namespace relation {

namespace {

// A value of a fixed width has at most this many bytes, so that those of 32 values are counted in 32 bits.
constexpr uint32_t kWidthMax = 1U << 26;

GatherSource source_of(const TableColumn& column, const void* rows, uint32_t row_width, uint8_t mask) {
    if (row_width != 4 && row_width != 8) throw Error(ErrorCode::kInvalid, "row numbers have 4 or 8 bytes");
    if (column.kind == ColumnKind::kFixed && (column.width == 0 || column.width > kWidthMax)) {
        throw Error(ErrorCode::kInvalid, "values of a fixed width have 1 to 2^26 bytes");
    }
    return {column.values.as<const uint8_t>(),
            column.offsets.as<const uint64_t>(),
            column.validity.as<const uint32_t>(),
            rows,
            row_width,
            mask};
}

class Gather {
  public:
    // from_rows: of the first source, whose values count for both.
    Gather(Device& device, const GatherFrom& from, uint64_t from_rows)
        : device_(device), from_(from), from_rows_(from_rows) {}

    TableColumn run(ColumnKind kind) {
        const PhaseScope materialize(device_, Phase::kMaterialize);
        TableColumn out;
        out.kind = kind;
        out.width = from_.width;
        if (kind == ColumnKind::kBytes) {
            gather_bytes(out);
        } else {
            gather_fixed(out);
        }
        const bool has_nulls = from_.source[0].valid != nullptr || from_.source[1].valid != nullptr;
        if (has_nulls || from_.present != nullptr) {
            out.validity = allocate(bitmap_words(from_.count) * sizeof(uint32_t));
            count_moved(device_, row_bytes() + from_.count / 8);
            if (has_nulls) count_moved(device_, random_bytes(sizeof(uint32_t), from_rows_ / 8));
            start(gather_validity, from_.count, from_, out.validity.as<uint32_t>());
        }
        return out;
    }

  private:
    Allocation allocate(uint64_t bytes) { return device_.memory().allocate(bytes, "gathered column"); }
    template <class... P, class... A>
    void start(void (*kernel)(P...), uint64_t items, A&&... arguments) {
        launch(kernel, relation_grid(device_, items), dim3(kRelationThreads), 0, device_.stream(), arguments...);
    }

    template <class Value>
    void gather_as(const TableColumn& out) {
        start(gather_values<Value>, from_.count, from_, out.values.as<Value>());
    }
    void gather_fixed(TableColumn& out) {
        out.values = allocate(from_.count * from_.width);
        count_moved(device_, row_bytes() + out.values.bytes() + random_bytes(from_.width, from_rows_ * from_.width));
        switch (from_.width) {
            case 1:
                return gather_as<uint8_t>(out);
            case 2:
                return gather_as<uint16_t>(out);
            case 4:
                return gather_as<uint32_t>(out);
            case 8:
                return gather_as<uint2>(out);
            case 16:
                return gather_as<uint4>(out);
            default:
                break;
        }
        if (from_.width % 4 == 0) {
            start(gather_units<uint32_t>, from_.count, from_, out.values.as<uint32_t>());
        } else {
            start(gather_units<uint8_t>, from_.count, from_, out.values.as<uint8_t>());
        }
    }

    void gather_bytes(TableColumn& out) {
        // Lengths: two neighbouring offsets at random, a length out, and the prefix sum over those.
        count_moved(device_, row_bytes() + random_bytes(sizeof(uint64_t), from_rows_ * sizeof(uint64_t)) +
                                 from_.count * 5 * sizeof(uint64_t));
        const cudaStream_t stream = device_.stream();
        out.offsets = allocate((from_.count + 1) * sizeof(uint64_t));
        auto* const offsets = out.offsets.as<uint64_t>();
        start(gather_lengths, from_.count + 1, from_, offsets);
        const auto items = static_cast<int64_t>(from_.count + 1);
        size_t scratch_bytes = 0;
        SPILLWAY_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, scratch_bytes, offsets, offsets, items, stream));
        const Allocation scratch = device_.memory().allocate(scratch_bytes, "prefix sum");
        SPILLWAY_CUDA_CHECK(
            cub::DeviceScan::ExclusiveSum(scratch.as(), scratch_bytes, offsets, offsets, items, stream));
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(&out.bytes, offsets + from_.count, sizeof out.bytes, cudaMemcpyDeviceToHost, stream));
        device_.synchronize();
        if (out.bytes == 0) return;
        // Whole words, see device_table.hpp; what stands behind the last byte is at least always the same.
        const uint64_t words = (out.bytes + 3) / 4;
        // Places in the result, where strings begin in the source, and their bytes: in truth the sectors around them.
        count_moved(device_, row_bytes() + from_.count * sizeof(uint64_t) +
                                 random_bytes(sizeof(uint64_t), from_rows_ * sizeof(uint64_t)) + 2 * out.bytes);
        out.values = allocate(words * 4);
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(out.values.as<uint32_t>() + (words - 1), 0, 4, stream));
        const uint64_t tiles = (out.bytes + kCopyTileBytes - 1) / kCopyTileBytes;
        const Allocation first = device_.memory().allocate(tiles * sizeof(uint64_t), "tiles of a gathered column");
        start(find_copy_tiles, tiles, offsets, from_.count, tiles, first.as<uint64_t>());
        start(copy_bytes, tiles * 32, from_, offsets, first.as<const uint64_t>(), tiles, out.bytes,
              out.values.as<uint8_t>());
    }

    // Row numbers, and which source has the row, in order.
    uint64_t row_bytes() const {
        return from_.count * (from_.source[0].row_width + (from_.present == nullptr ? 0 : 1));
    }
    uint64_t random_bytes(uint64_t width, uint64_t array_bytes) const {
        return sector_bytes(device_, from_.count, width, array_bytes);
    }

    Device& device_;
    const GatherFrom& from_;
    const uint64_t from_rows_;
};

}  // namespace

TableColumn gather(Device& device, const TableColumn& from, uint64_t from_rows, const void* rows, uint32_t row_width,
                   uint64_t count, const uint8_t* present, uint8_t mask) {
    if (from_rows == 0 && present == nullptr && count > 0) {
        throw Error(ErrorCode::kInvalid, "rows of a table that has none");
    }
    GatherFrom what;
    what.source[0] = source_of(from, rows, row_width, mask);
    what.present = present;
    what.count = count;
    what.width = from.width;
    return Gather(device, what, from_rows).run(from.kind);
}

TableColumn gather_either(Device& device, const GatherSide& first, const GatherSide& second, uint64_t count,
                          const uint8_t* present) {
    if (first.column.kind != second.column.kind || first.column.width != second.column.width) {
        throw Error(ErrorCode::kInvalid, "one column out of two of different kinds or widths");
    }
    if (present == nullptr && count > 0)
        throw Error(ErrorCode::kInvalid, "one column out of two without a word on which");
    GatherFrom what;
    what.source[0] = source_of(first.column, first.rows, first.row_width, first.mask);
    what.source[1] = source_of(second.column, second.rows, second.row_width, second.mask);
    what.present = present;
    what.count = count;
    what.width = first.column.width;
    return Gather(device, what, first.from_rows).run(first.column.kind);
}

}}  // namespace spillway::cuda::relation
