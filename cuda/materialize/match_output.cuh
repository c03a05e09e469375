// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "primitive/mix.cuh"
#include "primitive/warp.cuh"

// How kernels that find matches write them: column by column, a warp at a time, 32 rows to consecutive places, so that
// every store covers whole sectors. A warp reserves chunks of rows with one atomic each; the rest of its last chunk is
// a hole, which dense_output.hpp closes.
namespace spillway::cuda {

constexpr int kOutputColumnsMax = 56;
constexpr int kMatchSides = 2;   // build, probe
constexpr int kFieldWidths = 5;  // 4, 8, 16, 2 and 1 bytes, in this order

struct MatchColumn {
    void* data = nullptr;
    uint32_t width = 4;
    uint32_t offset = 0;  // in the row of its side, in bytes
};

struct MatchOutput {
    uint32_t chunk_rows = 0;
    uint64_t capacity_rows = 0;                   // multiple of chunk_rows; matches beyond it are counted, not written
    unsigned long long* reserved_rows = nullptr;  // [1] whole chunks
    unsigned long long* matches = nullptr;        // [1]
    uint32_t* holes = nullptr;                    // [capacity_rows / chunk_rows] unused rows at each chunk's end
    void* key = nullptr;                          // column of the keys; nullptr: not wanted
    // The others by side, then by width: a warp that writes a column should not have to ask which kind it is.
    uint8_t end[kMatchSides][kFieldWidths] = {};  // of each kind, in column[]
    MatchColumn column[kOutputColumnsMax];
};

// A row of a side whose columns were left where they are; a side whose rows are packed has the row's address instead
// (const uint32_t*, the mixed key first). There the key is one column of many, and MatchOutput::key is not used.
struct ColumnRow {
    const void* const* columns;  // where the columns of MatchOutput::column[] come from; nullptr: the row's number
    uint64_t row;
};

// One per warp.
template <int kKeyWords>
class MatchWriter {
  public:
    __device__ explicit MatchWriter(const MatchOutput& out) : out_(out) {}

    // Lanes below `count` have a match of the given rows; all lanes of the warp call.
    template <class Row>
    __device__ void write(uint32_t count, Row build_row, Row probe_row) {
        for (uint32_t done = 0; done < count;) {
            if (left_ == 0) reserve();
            const uint32_t now = min(count - done, left_);
            const uint32_t place = lane_index() - done;
            if (place < now && place_ < out_.capacity_rows) write_row(place_ + place, build_row, probe_row);
            place_ += now;
            left_ -= now;
            done += now;
        }
        count_ += count;
    }

    __device__ void finish() {
        if (lane_index() != 0) return;
        if (count_ > 0) atomicAdd(out_.matches, static_cast<unsigned long long>(count_));
        if (left_ > 0 && place_ < out_.capacity_rows) out_.holes[place_ / out_.chunk_rows] = left_;
    }

  private:
    __device__ void reserve() {
        unsigned long long first = 0;
        if (lane_index() == 0) first = atomicAdd(out_.reserved_rows, static_cast<unsigned long long>(out_.chunk_rows));
        place_ = __shfl_sync(kFullWarp, first, 0);
        left_ = out_.chunk_rows;
    }

    template <class Row>
    __device__ void write_row(uint64_t place, Row build_row, Row probe_row) const {
        if constexpr (std::is_pointer_v<Row>) {
            if (out_.key != nullptr) write_key(out_.key, place, probe_row);
        }
        write_side(0, 0, place, build_row);
        write_side(1, out_.end[0][kFieldWidths - 1], place, probe_row);
    }
    template <class Row>
    __device__ void write_side(int side, int begin, uint64_t place, Row row) const {
        const uint8_t(&end)[kFieldWidths] = out_.end[side];
        write_fields<uint32_t>(begin, end[0], place, row);
        if (end[0] == end[kFieldWidths - 1]) return;
        write_fields<uint2>(end[0], end[1], place, row);
        write_fields<uint4>(end[1], end[2], place, row);
        write_fields<unsigned short>(end[2], end[3], place, row);
        write_fields<unsigned char>(end[3], end[4], place, row);
    }
    template <class Value, class Row>
    __device__ void write_fields(int begin, int end, uint64_t place, Row row) const {
        if constexpr (std::is_pointer_v<Row>) {
            for (int c = begin; c < end; ++c) write_value<Value>(c, place, row);
        } else {
            // Each column is a gather of its own, whose latency other warps hide; several at once spill registers.
#pragma unroll 1
            for (int c = begin; c < end; ++c) write_value<Value>(c, place, row);
        }
    }
    template <class Value, class Row>
    __device__ void write_value(int c, uint64_t place, Row row) const {
        __stcs(static_cast<Value*>(out_.column[c].data) + place, value_of<Value>(c, row));
    }
    template <class Value>
    __device__ Value value_of(int c, const uint32_t* row) const {
        return field<Value>(reinterpret_cast<const unsigned char*>(row) + out_.column[c].offset);
    }
    template <class Value>
    __device__ Value value_of(int c, const ColumnRow& row) const {
        const void* const from = row.columns[c];
        if (from != nullptr) return __ldg(static_cast<const Value*>(from) + row.row);
        if constexpr (sizeof(Value) == 4) {
            return static_cast<Value>(row.row);
        } else if constexpr (sizeof(Value) == 8) {
            return make_uint2(static_cast<uint32_t>(row.row), static_cast<uint32_t>(row.row >> 32));
        } else {
            return Value{};  // row numbers have 4 or 8 bytes
        }
    }
    // Fields are aligned to four bytes at most, results to their width.
    template <class Value>
    __device__ static Value field(const unsigned char* from) {
        const auto* const words = reinterpret_cast<const uint32_t*>(from);
        if constexpr (sizeof(Value) == 8) {
            return make_uint2(words[0], words[1]);
        } else if constexpr (sizeof(Value) == 16) {
            return make_uint4(words[0], words[1], words[2], words[3]);
        } else {
            return *reinterpret_cast<const Value*>(from);
        }
    }
    __device__ static void write_key(void* data, uint64_t place, const uint32_t* row) {
        if constexpr (kKeyWords == 1) {
            __stcs(static_cast<uint32_t*>(data) + place, unmix32(row[0]));
        } else {
            const uint64_t key = unmix64(row[0] | static_cast<uint64_t>(row[1]) << 32);
            __stcs(static_cast<uint2*>(data) + place,
                   make_uint2(static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)));
        }
    }

    const MatchOutput& out_;
    uint64_t place_ = 0;  // next row of the chunk
    uint32_t left_ = 0;   // ... and how many there are
    uint64_t count_ = 0;
};

}  // namespace spillway::cuda
