// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "relation/byte_words.cuh"
#include "relation/extremes.hpp"
#include "relation/relation_grid.cuh"

namespace spillway::cuda { inline namespace relation {

namespace {

struct ComparedColumn {
    const uint8_t* values = nullptr;
    const uint64_t* offsets = nullptr;  // nullptr: values of `width` bytes
    const uint32_t* validity = nullptr;
    uint32_t width = 0;
    bool is_decimal = false;
    bool is_max = false;

    __device__ ByteSpan span(uint64_t row) const {
        if (offsets == nullptr) return {values + row * width, width};
        return {values + offsets[row], offsets[row + 1] - offsets[row]};
    }
};

// The first bytes decide: words are compared with their bytes turned around. Zeros behind the end of a string are not
// greater than anything that another has there, and where all words are equal the shorter one comes first.
__device__ inline bool bytes_are_less(ByteSpan a, ByteSpan b) {
    ByteWords a_words(a);
    ByteWords b_words(b);
    while (a_words.more() && b_words.more()) {
        const uint32_t x = __byte_perm(a_words.next(), 0, 0x0123);
        const uint32_t y = __byte_perm(b_words.next(), 0, 0x0123);
        if (x != y) return x < y;
    }
    return a.bytes < b.bytes;
}

// Two's complement, the lowest word first; values lie at multiples of 8 bytes.
__device__ inline bool decimal_is_less(ByteSpan a, ByteSpan b) {
    const auto* const x = reinterpret_cast<const uint64_t*>(a.data);
    const auto* const y = reinterpret_cast<const uint64_t*>(b.data);
    const auto words = static_cast<int>(a.bytes / 8);
    for (int i = words - 1; i >= 0; --i) {
        if (x[i] == y[i]) continue;
        return i == words - 1 ? static_cast<int64_t>(x[i]) < static_cast<int64_t>(y[i]) : x[i] < y[i];
    }
    return false;
}

__device__ inline bool is_better(const ComparedColumn& column, uint64_t row, uint64_t than) {
    const ByteSpan a = column.span(column.is_max ? than : row);
    const ByteSpan b = column.span(column.is_max ? row : than);
    return column.is_decimal ? decimal_is_less(a, b) : bytes_are_less(a, b);
}

// Each row against the best one of its group so far, which it replaces if that has not changed meanwhile. Of n rows of
// a group in any order some ln(n) are better than all before them, so that a hot group has few atomic operations.
// Bytes: the values once, the group of each row, a random access to a group and one to its value for each row; bound by
// the rate of random accesses, or by bandwidth where the L2 cache holds groups and best values.
template <class Row>
__global__ void find_extremes_kernel(const __grid_constant__ ComparedColumn column, uint64_t rows,
                                     const uint32_t* group_of, Row* best) {
    for_rows(rows, [&](uint64_t row) {
        if (!is_set(column.validity, row)) return;
        Row* const place = &best[group_of[row]];
        Row than = __ldcg(place);
        while (static_cast<uint64_t>(than) != row && is_better(column, row, than)) {
            const Row there = atomicCAS(place, than, static_cast<Row>(row));
            if (there == than) return;
            than = there;
        }
    });
}

}  // namespace

bool compares_rows(const TableAggregate& aggregate, const TableColumn& column) {
    if (aggregate.kind != TableAggregateKind::kMin && aggregate.kind != TableAggregateKind::kMax) return false;
    if (aggregate.value_kind == TableValueKind::kBytes) return true;
    return aggregate.value_kind == TableValueKind::kDecimal && (column.width == 16 || column.width == 32);
}

void find_extremes(Device& device, const TableColumn& column, uint64_t rows, const TableAggregate& aggregate,
                   const uint32_t* group_of, void* best, uint32_t row_width, uint64_t groups) {
    ComparedColumn compared;
    compared.values = column.values.as<const uint8_t>();
    if (column.kind == ColumnKind::kBytes) compared.offsets = column.offsets.as<const uint64_t>();
    compared.validity = column.validity.as<const uint32_t>();
    compared.width = column.width;
    compared.is_decimal = aggregate.value_kind == TableValueKind::kDecimal;
    compared.is_max = aggregate.kind == TableAggregateKind::kMax;
    // The best rows of groups and their values are looked at by every row. That strings of the best are read again is
    // left out, where they begin is not.
    const bool is_bytes = column.kind == ColumnKind::kBytes;
    const uint64_t value_bytes = is_bytes ? column.bytes + rows * sizeof(uint64_t) : rows * column.width;
    const uint64_t compared_width = is_bytes ? sizeof(uint64_t) : column.width;
    count_moved(device, value_bytes + rows * sizeof(uint32_t) + (column.validity ? rows / 8 : 0) +
                            sector_bytes(device, rows, row_width, groups * row_width) +
                            sector_bytes(device, rows, compared_width,
                                         std::min(groups, rows) * std::max<uint64_t>(compared_width, kSectorBytes)));
    const dim3 grid = relation_grid(device, rows);
    if (row_width == 4) {
        launch(find_extremes_kernel<unsigned int>, grid, dim3(kRelationThreads), 0, device.stream(), compared, rows,
               group_of, static_cast<unsigned int*>(best));
    } else {
        launch(find_extremes_kernel<unsigned long long>, grid, dim3(kRelationThreads), 0, device.stream(), compared,
               rows, group_of, static_cast<unsigned long long*>(best));
    }
}

}}  // namespace spillway::cuda::relation
