// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "materialize/match_output.cuh"

// Matches of rows whose columns were left where they are: every value is gathered by row number (GFUR). The key is one
// column of many there, and MatchOutput::key is not used.
namespace spillway::cuda { inline namespace materialize {

struct ColumnRow {
    const void* const* columns;  // where the columns of MatchOutput::column[] come from; nullptr: the row's number
    uint64_t row;
};

// Values of one side's columns to `place`; all lanes that call have a row.
class ColumnSideWriter {
  public:
    __device__ ColumnSideWriter(const MatchOutput& out, int side) : out_(out), side_(side) {}

    __device__ void write(uint64_t place, const ColumnRow& row) const {
        const uint8_t(&end)[kFieldWidths] = out_.end[side_];
        const int begin = out_.first_column(side_);
        write_fields<uint32_t>(begin, end[0], place, row);
        if (end[0] == end[kFieldWidths - 1]) return;
        write_fields<uint2>(end[0], end[1], place, row);
        write_fields<uint4>(end[1], end[2], place, row);
        write_fields<unsigned short>(end[2], end[3], place, row);
        write_fields<unsigned char>(end[3], end[4], place, row);
    }

  private:
    template <class Value>
    __device__ void write_fields(int begin, int end, uint64_t place, const ColumnRow& row) const {
        // Each column is a gather of its own, whose latency other warps hide; several at once spill registers.
#pragma unroll 1
        for (int c = begin; c < end; ++c) {
            __stcs(static_cast<Value*>(out_.column[c].data) + place, value_of<Value>(row.columns[c], row.row));
        }
    }
    template <class Value>
    __device__ static Value value_of(const void* from, uint64_t row) {
        if (from != nullptr) return __ldg(static_cast<const Value*>(from) + row);
        if constexpr (sizeof(Value) == 4) {
            return static_cast<Value>(row);
        } else if constexpr (sizeof(Value) == 8) {
            return make_uint2(static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32));
        } else {
            return Value{};  // row numbers have 4 or 8 bytes
        }
    }

    const MatchOutput& out_;
    const int side_;
};

// One per warp.
class ColumnMatchWriter {
  public:
    __device__ explicit ColumnMatchWriter(const MatchOutput& out) : places_(out), build_(out, 0), probe_(out, 1) {}

    // Lanes below `count` have a match of the given rows; all lanes of the warp call.
    __device__ void write(uint32_t count, const ColumnRow& build_row, const ColumnRow& probe_row) {
        const uint32_t lanes = count >= kWarpThreads ? kFullWarp : (1U << count) - 1;
        places_.give(lanes, [&](uint64_t place) {
            build_.write(place, build_row);
            probe_.write(place, probe_row);
        });
    }
    __device__ void finish() { places_.finish(); }

  private:
    OutputPlaces places_;
    ColumnSideWriter build_;
    ColumnSideWriter probe_;
};

// The columns of a side that has no row.
__device__ inline void write_zeros(const MatchOutput& out, int side, uint64_t place) {
    for (int c = out.first_column(side); c < out.last_column(side); ++c) {
        const MatchColumn& column = out.column[c];
        switch (column.width) {
            case 1:
                static_cast<uint8_t*>(column.data)[place] = 0;
                break;
            case 2:
                static_cast<uint16_t*>(column.data)[place] = 0;
                break;
            case 4:
                static_cast<uint32_t*>(column.data)[place] = 0;
                break;
            case 8:
                static_cast<uint64_t*>(column.data)[place] = 0;
                break;
            default:
                static_cast<uint4*>(column.data)[place] = make_uint4(0, 0, 0, 0);
        }
    }
}

}}  // namespace spillway::cuda::materialize
