// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/group_spec.hpp"

// Aggregates as kernels get them. Each becomes one accumulator or two of a group's slot, made of 32-bit words whose
// identity is 0, so that a table is cleared by zeros and tables are merged by the same operations that rows are added
// with. min is the max of the complement, first the min of the row number, mean a sum and a count.
namespace spillway::cuda { inline namespace grouping {

constexpr int kAccumulatorsMax = 32;
constexpr int kStagedMax = 8;
constexpr uint8_t kNoBit = 0xff;

enum class AccumulatorOp : uint8_t {
    kMax32,      // of order words: integers that compare as the values do
    kMax64,      // of order words of 64 bits
    kAdd,        // of two or three words, with carries: shared memory has atomics of 32 bits only
    kAddDouble,  // two words
    kOr
};

enum class FieldPlace : uint8_t {
    kStaged,    // in shared memory, with the tile
    kGathered,  // in global memory, at the row's number
    kTileRow    // the row's number, counted from the tile's first
};

struct TileField {
    const unsigned char* column = nullptr;  // kGathered
    uint32_t base_bytes = 0;                // kStaged: of the first row in the tile
    uint32_t stride_bytes = 0;
    uint8_t width = 4;
    FieldPlace place = FieldPlace::kStaged;
};

struct Accumulator {
    TileField value;
    uint64_t flip = 0;  // order word = value ^ flip, of floats: order_bits(value) ^ flip
    AccumulatorOp op = AccumulatorOp::kAdd;
    bool is_signed = false;
    bool is_float = false;
    bool counts = false;         // adds 1 and has no value
    uint8_t words = 1;           // how many the slot has for it
    uint8_t word = 0;            // the first of them
    uint8_t valid_bit = kNoBit;  // of the row's mask: the row has a value
};

// What a slot is made of, and where its parts come from.
struct SlotPlan {
    TileField key;
    TileField row_number;
    TileField mask;  // validity of keys and values, a bit each
    bool has_mask = false;
    bool keys_are_mixed = false;
    uint8_t key_bit = kNoBit;
    uint8_t words = 0;
    uint8_t accumulators = 0;
    Accumulator accumulator[kAccumulatorsMax];
};

enum class OutputKind : uint8_t {
    kOrder32,
    kOrder64,
    kInteger,
    kDouble,
    kMeanInteger,
    kMeanDouble,
    kGather  // of the row whose number was found
};

struct GroupOutput {
    void* values = nullptr;
    uint8_t* present = nullptr;
    const unsigned char* column = nullptr;   // kGather
    const uint32_t* column_valid = nullptr;  // kGather
    uint64_t flip = 0;
    OutputKind kind = OutputKind::kInteger;
    bool is_signed = false;
    bool is_float = false;
    uint8_t width = 8;
    uint8_t words = 0;
    uint8_t word = 0;
    uint8_t count_word = 0;      // means
    uint8_t flags_word = 0;      // where `present` is wanted: the word of the slot with its bit
    uint8_t valid_bit = kNoBit;  // where `present` is wanted: its bit in that word
};

// Where finished groups go.
struct GroupSink {
    void* keys = nullptr;
    uint64_t capacity = 0;                   // groups; those behind it are counted and not written
    unsigned long long* reserved = nullptr;  // groups so far
    uint32_t* overflows = nullptr;           // bits of aggregates whose sum does not fit
    int32_t outputs = 0;
    GroupOutput output[kGroupAggregatesMax];
};

}}  // namespace spillway::cuda::grouping
