// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "relation/null_bits.hpp"
#include "relation/relation_grid.cuh"

namespace spillway::cuda { inline namespace relation {

namespace {

template <class Word>
struct Bitmaps {
    Word* bitmap[kNullColumnsMax];
    int count = 0;
};

// In order: a bit per row and column read, 1, 2 or 4 bytes per row written. 2^27 rows of 4 columns: 0.2 GB, 0.06 ms on
// an H200.
template <class Field>
__global__ void __launch_bounds__(kRelationThreads)
    pack_bits(const __grid_constant__ Bitmaps<const uint32_t> from, uint64_t rows, Field* __restrict__ fields) {
    for_rows(rows, [&](uint64_t row) {
        uint32_t bits = 0;
        for (int c = 0; c < from.count; ++c) bits |= (__ldg(&from.bitmap[c][row / 32]) >> (row % 32) & 1) << c;
        fields[row] = static_cast<Field>(bits);
    });
}

// The other way round: a word of each bitmap by a vote of the warp, written by a lane of its own.
template <class Field>
__global__ void __launch_bounds__(kRelationThreads)
    unpack_bits(const Field* __restrict__ fields, uint64_t rows, const __grid_constant__ Bitmaps<uint32_t> to) {
    for_warp_rows(rows, [&](uint64_t first) {
        const uint64_t row = first + lane_index();
        const uint32_t bits = row < rows ? __ldg(&fields[row]) : 0;
        uint32_t word = 0;
        for (int c = 0; c < to.count; ++c) {
            const uint32_t vote = __ballot_sync(kFullWarp, (bits >> c & 1) != 0);
            if (lane_index() == static_cast<uint32_t>(c)) word = vote;
        }
        if (lane_index() < static_cast<uint32_t>(to.count)) to.bitmap[lane_index()][first / 32] = word;
    });
}

// A byte per row read, a bit written.
__global__ void __launch_bounds__(kRelationThreads)
    presence_bits(const uint8_t* __restrict__ presence, uint32_t wanted, uint64_t rows, uint32_t* __restrict__ out) {
    for_warp_rows(rows, [&](uint64_t first) {
        const uint64_t row = first + lane_index();
        const bool is_there = row < rows && (__ldg(&presence[row]) & wanted) == wanted;
        const uint32_t word = __ballot_sync(kFullWarp, is_there);
        if (lane_index() == 0) out[first / 32] = word;
    });
}

void check_columns(size_t columns) {
    if (columns > static_cast<size_t>(kNullColumnsMax)) {
        throw Error(ErrorCode::kInvalid, "more columns than a field of NULLs has bits");
    }
}

}  // namespace

Allocation pack_null_bits(Device& device, const std::vector<const uint32_t*>& bitmaps, uint64_t rows) {
    check_columns(bitmaps.size());
    Bitmaps<const uint32_t> from{};
    for (const uint32_t* bitmap : bitmaps) from.bitmap[from.count++] = bitmap;
    const uint32_t width = null_field_width(bitmaps.size());
    count_moved(device, rows * width + bitmaps.size() * rows / 8);
    Allocation fields = device.memory().allocate(rows * width, "NULLs of the columns of a join");
    const dim3 grid = relation_grid(device, rows);
    const auto pack = [&](auto kernel, auto* to) {
        launch(kernel, grid, dim3(kRelationThreads), 0, device.stream(), from, rows, to);
    };
    if (width == 1) {
        pack(pack_bits<uint8_t>, fields.as<uint8_t>());
    } else if (width == 2) {
        pack(pack_bits<uint16_t>, fields.as<uint16_t>());
    } else {
        pack(pack_bits<uint32_t>, fields.as<uint32_t>());
    }
    return fields;
}

std::vector<Allocation> unpack_null_bits(Device& device, const void* fields, size_t columns, uint64_t rows) {
    check_columns(columns);
    std::vector<Allocation> bitmaps(columns);
    Bitmaps<uint32_t> to{};
    for (Allocation& bitmap : bitmaps) {
        bitmap = device.memory().allocate(bitmap_words(rows) * sizeof(uint32_t), "NULLs of a result");
        to.bitmap[to.count++] = bitmap.as<uint32_t>();
    }
    const uint32_t width = null_field_width(columns);
    count_moved(device, rows * width + columns * rows / 8);
    const dim3 grid = relation_grid(device, rows);
    const auto unpack = [&](auto kernel, auto* from) {
        launch(kernel, grid, dim3(kRelationThreads), 0, device.stream(), from, rows, to);
    };
    if (width == 1) {
        unpack(unpack_bits<uint8_t>, static_cast<const uint8_t*>(fields));
    } else if (width == 2) {
        unpack(unpack_bits<uint16_t>, static_cast<const uint16_t*>(fields));
    } else {
        unpack(unpack_bits<uint32_t>, static_cast<const uint32_t*>(fields));
    }
    return bitmaps;
}

Allocation presence_bitmap(Device& device, const uint8_t* presence, uint8_t wanted, uint64_t rows) {
    Allocation bitmap = device.memory().allocate(bitmap_words(rows) * sizeof(uint32_t), "NULLs of a result");
    count_moved(device, rows + rows / 8);
    launch(presence_bits, relation_grid(device, rows), dim3(kRelationThreads), 0, device.stream(), presence, wanted,
           rows, bitmap.as<uint32_t>());
    return bitmap;
}

}}  // namespace spillway::cuda::relation
