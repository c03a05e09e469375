// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "primitive/prefix_sum.hpp"
#include "relation/byte_words.cuh"
#include "relation/gather.hpp"
#include "relation/relation_grid.cuh"
#include "relation/relation_policy.hpp"

// What the kernels move per value: the row number in order (4 or 8 bytes), a random sector of 32 bytes
// of the column (42 G/s in an H200's memory: 3.2 ms for 2^27 values), one more for each of validity bits and offsets,
// the value out in order, and a byte of presence where rows can be missing.
namespace spillway::cuda { inline namespace relation {

namespace {

struct GatherSource {
    const uint8_t* values = nullptr;
    const uint64_t* offsets = nullptr;
    const uint32_t* valid = nullptr;
    const void* rows = nullptr;  // nullptr: each row, in its order
    uint32_t row_width = 4;
    uint32_t mask = 0;  // of `present`
};

// Each value from the first source whose bit is present, or from none. Without `present`: from the first.
struct GatherFrom {
    GatherSource source[2];
    const uint8_t* present = nullptr;
    uint64_t count = 0;
    uint32_t width = 0;      // kFixed, and fields
    bool in_fields = false;  // strings of the first source
};

struct PickedRow {
    int source;  // -1: none
    uint64_t row;
};

__device__ inline PickedRow pick_row(const GatherFrom& from, uint64_t i) {
    int source = 0;
    if (from.present != nullptr) {
        const uint32_t present = __ldg(&from.present[i]);
        source = (present & from.source[0].mask) != 0 ? 0 : (present & from.source[1].mask) != 0 ? 1 : -1;
    }
    if (source < 0) return {-1, 0};
    const GatherSource& of = from.source[source];
    if (of.rows == nullptr) return {source, i};
    if (of.row_width == 4) return {source, __ldg(&static_cast<const uint32_t*>(of.rows)[i])};
    return {source, __ldg(&static_cast<const unsigned long long*>(of.rows)[i])};
}

template <class Value>
__global__ void __launch_bounds__(kRelationThreads)
    gather_values(const __grid_constant__ GatherFrom from, Value* __restrict__ out) {
    for_rows(from.count, [&](uint64_t i) {
        const PickedRow picked = pick_row(from, i);
        Value value{};
        if (picked.source >= 0) {
            value = __ldg(&reinterpret_cast<const Value*>(from.source[picked.source].values)[picked.row]);
        }
        __stcs(&out[i], value);
    });
}

// Values of any other width, in units of 1 or 4 bytes: a warp copies 32 values, whose bytes lie one behind the other in
// the output, unit by unit. width * 32 fits 32 bits.
template <class Unit>
__global__ void __launch_bounds__(kRelationThreads)
    gather_units(const __grid_constant__ GatherFrom from, Unit* __restrict__ out) {
    const auto units = static_cast<uint32_t>(from.width / sizeof(Unit));
    for_warp_rows(from.count, [&](uint64_t first) {
        unsigned long long address = 0;
        if (first + lane_index() < from.count) {
            const PickedRow picked = pick_row(from, first + lane_index());
            if (picked.source >= 0) {
                const uint8_t* const values = from.source[picked.source].values;
                address = reinterpret_cast<unsigned long long>(values + picked.row * from.width);
            }
        }
        // Every lane takes as many steps: 32 values are a multiple of 32 units.
        for (uint32_t unit = lane_index(); unit < units * kWarpThreads; unit += kWarpThreads) {
            const uint32_t value = unit / units;
            const unsigned long long at = __shfl_sync(kFullWarp, address, static_cast<int>(value));
            if (first + value >= from.count) continue;
            const auto* const source = reinterpret_cast<const Unit*>(at);
            out[first * units + unit] = source == nullptr ? Unit{0} : __ldg(&source[unit - value * units]);
        }
    });
}

// Bytes: a row number, a random sector of bits, a bit out.
__global__ void __launch_bounds__(kRelationThreads)
    gather_validity(const __grid_constant__ GatherFrom from, uint32_t* __restrict__ out) {
    for_warp_rows(from.count, [&](uint64_t first) {
        bool valid = false;
        if (first + lane_index() < from.count) {
            const PickedRow picked = pick_row(from, first + lane_index());
            valid = picked.source >= 0 && is_set(from.source[picked.source].valid, picked.row);
        }
        const uint32_t word = __ballot_sync(kFullWarp, valid);
        if (lane_index() == 0) out[first / 32] = word;
    });
}

// The length of every value, NULLs without any, and a 0 behind the last. Bytes: a row number, a random sector of
// offsets, 8 out.
__global__ void __launch_bounds__(kRelationThreads)
    gather_lengths(const __grid_constant__ GatherFrom from, uint64_t* __restrict__ lengths) {
    for_rows(from.count + 1, [&](uint64_t i) {
        uint64_t bytes = 0;
        if (i < from.count) {
            const PickedRow picked = pick_row(from, i);
            if (picked.source >= 0 && is_set(from.source[picked.source].valid, picked.row)) {
                const uint64_t* const offsets = from.source[picked.source].offsets + picked.row;
                bytes = __ldg(&offsets[1]) - __ldg(&offsets[0]);
            }
        }
        lengths[i] = bytes;
    });
}

// The same of strings in fields. Bytes: a field, 8 out.
__global__ void __launch_bounds__(kRelationThreads)
    field_lengths(const uint8_t* __restrict__ fields, uint32_t width, uint64_t count, uint64_t* __restrict__ lengths) {
    for_rows(count + 1, [&](uint64_t i) { lengths[i] = i < count ? __ldg(&fields[(i + 1) * width - 1]) : 0; });
}

// Bytes: a search in the offsets and 8 out per tile. The value that the first byte of each tile belongs to.
__global__ void __launch_bounds__(kRelationThreads)
    find_copy_tiles(const uint64_t* __restrict__ offsets, uint64_t values, uint64_t tiles,
                    uint64_t* __restrict__ first) {
    for_rows(tiles, [&](uint64_t tile) { first[tile] = last_not_above(offsets, values, tile * kCopyTileBytes); });
}

// Where 32 neighbouring values begin in the output, where the next one does, and where they come from.
struct ValueGroup {
    uint64_t begin[kWarpThreads + 1];
    const uint8_t* source[kWarpThreads];  // of those that have bytes
};

// By a warp; afterwards every lane sees the group. Values that begin at `end` or later belong to another tile, whose
// warp looks for their source.
__device__ inline void load_group(const GatherFrom& from, const uint64_t* offsets, uint64_t first, uint64_t end,
                                  ValueGroup& group) {
    const uint32_t lane = lane_index();
    const uint64_t value = first + lane;
    group.begin[lane] = __ldg(&offsets[min(value, from.count)]);
    if (lane == 0) group.begin[kWarpThreads] = __ldg(&offsets[min(first + kWarpThreads, from.count)]);
    __syncwarp();
    if (group.begin[lane] < end && group.begin[lane + 1] > group.begin[lane]) {
        const PickedRow picked = pick_row(from, value);  // a value with bytes has a row
        const GatherSource& of = from.source[picked.source];
        const uint64_t begin = from.in_fields ? picked.row * from.width : __ldg(&of.offsets[picked.row]);
        group.source[lane] = of.values + begin;
    }
    __syncwarp();
}

// Bytes [begin, end) of the output, all of the group's values, in aligned words of 4 bytes: a lane's word is mostly
// inside of one value, else and at the ends of the range it is put together from bytes.
__device__ inline void copy_group(const ValueGroup& group, uint64_t begin, uint64_t end, uint8_t* out) {
    for (uint64_t word = begin / 4 * 4 + lane_index() * 4; word < end; word += kWarpThreads * 4) {
        const uint64_t from = max(word, begin);
        const uint64_t to = min(word + 4, end);
        uint64_t value = last_not_above(group.begin, kWarpThreads, from);
        if (to - from == 4 && group.begin[value + 1] >= to) {
            *reinterpret_cast<uint32_t*>(out + word) = load_word(group.source[value] + (word - group.begin[value]));
            continue;
        }
        for (uint64_t at = from; at < to; ++at) {
            while (group.begin[value + 1] <= at) ++value;
            out[at] = __ldg(&group.source[value][at - group.begin[value]]);
        }
    }
}

// Bytes: an offset of the result, a row number and a random sector of offsets per value; its bytes read and written, in
// truth the sectors around them. A warp per tile of the output, whatever values it holds: one huge value is spread over
// as many warps as it has tiles, and 32 short ones share a warp's loads.
__global__ void __launch_bounds__(kRelationThreads)
    copy_bytes(const __grid_constant__ GatherFrom from, const uint64_t* __restrict__ offsets,
               const uint64_t* __restrict__ first_value, uint64_t tiles, uint64_t bytes, uint8_t* __restrict__ out) {
    __shared__ ValueGroup groups[kRelationThreads / kWarpThreads];
    ValueGroup& group = groups[warp_index()];
    for_warp_rows(tiles * kWarpThreads, [&](uint64_t thread) {
        const uint64_t tile = thread / kWarpThreads;
        uint64_t at = tile * kCopyTileBytes;
        const uint64_t end = min(at + kCopyTileBytes, bytes);
        uint64_t first = __ldg(&first_value[tile]);
        while (at < end) {
            load_group(from, offsets, first, end, group);
            const uint64_t group_end = min(end, group.begin[kWarpThreads]);
            copy_group(group, at, group_end, out);
            __syncwarp();
            // Millions of empty values in a row are jumped over: every group has at least the byte at its beginning.
            const bool is_sparse = group_end - at < kWarpThreads;
            at = group_end;
            first += kWarpThreads;
            if (at < end && is_sparse) first += warp_last_not_above(offsets + first, from.count - first, at);
        }
    });
}

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
        out.offsets = allocate((from_.count + 1) * sizeof(uint64_t));
        auto* const offsets = out.offsets.as<uint64_t>();
        // Lengths, written, summed and read again.
        count_moved(device_, from_.count * 5 * sizeof(uint64_t));
        const GatherSource& source = from_.source[0];
        if (from_.in_fields) {
            count_moved(device_, from_.count * from_.width);
            start(field_lengths, from_.count + 1, source.values, from_.width, from_.count, offsets);
        } else {
            // Two neighbouring offsets at random.
            count_moved(device_, row_bytes() + random_bytes(sizeof(uint64_t), from_rows_ * sizeof(uint64_t)));
            start(gather_lengths, from_.count + 1, from_, offsets);
        }
        exclusive_sum(device_, offsets, from_.count + 1);
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(&out.bytes, offsets + from_.count, sizeof out.bytes, cudaMemcpyDeviceToHost,
                                            device_.stream()));
        device_.synchronize();
        if (out.bytes > 0) copy_values(out, offsets);
    }

    void copy_values(TableColumn& out, const uint64_t* offsets) {
        // Whole words, see device_table.hpp; what stands behind the last byte is at least always the same.
        const uint64_t words = (out.bytes + 3) / 4;
        // Places in the result, where strings begin in the source, and their bytes: in truth the sectors around them.
        count_moved(device_, from_.count * sizeof(uint64_t) + 2 * out.bytes);
        if (!from_.in_fields) {
            count_moved(device_, row_bytes() + random_bytes(sizeof(uint64_t), from_rows_ * sizeof(uint64_t)));
        }
        out.values = allocate(words * 4);
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(out.values.as<uint32_t>() + (words - 1), 0, 4, device_.stream()));
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

TableColumn gather_texts(Device& device, const Allocation& fields, uint32_t width, uint64_t count) {
    GatherFrom what;
    what.source[0].values = fields.as<const uint8_t>();
    what.in_fields = true;
    what.count = count;
    what.width = width;
    return Gather(device, what, count).run(ColumnKind::kBytes);
}

}}  // namespace spillway::cuda::relation
