// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/tables/operands.cuh"
#include "primitive/warp.cuh"

// What a run of rows adds to an accumulator, for each of its operations. Zeros add nothing, as in a slot.
namespace spillway::cuda { inline namespace grouping {

template <class Value>
struct PlainState {
    using State = Value;
    __device__ static State none() { return 0; }
    __device__ static State shuffle_up(State state, int distance) { return __shfl_up_sync(kFullWarp, state, distance); }
};

struct MaxOfRun : PlainState<unsigned long long> {
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        const uint64_t number = a.is_signed ? sign_extended(bits, a.value.width) : bits;
        if (a.op == AccumulatorOp::kMax32) return order_word(a, static_cast<uint32_t>(number));
        return order_word(a, static_cast<unsigned long long>(number));
    }
    __device__ static State combined(State x, State y) { return x < y ? y : x; }
    __device__ static Operand operand(State state) { return Operand::of(state); }
};

struct OrOfRun : PlainState<uint32_t> {
    __device__ static State of(const Accumulator& /*a*/, uint64_t bits) { return static_cast<uint32_t>(bits); }
    __device__ static State combined(State x, State y) { return x | y; }
    __device__ static Operand operand(State state) { return Operand::of(state); }
};

// This is a sum or a count, which takes two words.
struct SumOfRun : PlainState<unsigned long long> {
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        if (a.counts) return 1;
        return a.is_signed ? sign_extended(bits, a.value.width) : bits;
    }
    __device__ static State combined(State x, State y) { return x + y; }
    __device__ static Operand operand(State state) { return Operand::of(state); }
};

struct DoubleSumOfRun : PlainState<double> {
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        if (a.value.width == 8) return __longlong_as_double(static_cast<long long>(bits));
        return static_cast<double>(__uint_as_float(static_cast<uint32_t>(bits)));
    }
    __device__ static State combined(State x, State y) { return x + y; }
    __device__ static Operand operand(State state) {
        return Operand::of(static_cast<unsigned long long>(__double_as_longlong(state)));
    }
};

struct WideSum {
    unsigned long long low;
    uint32_t high;
};

// This is a sum of 8-byte integers, which takes three words so that its overflow shows in the third.
struct WideSumOfRun {
    using State = WideSum;
    __device__ static State none() { return {0, 0}; }
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        const uint64_t number = a.is_signed ? sign_extended(bits, a.value.width) : bits;
        return {number, a.is_signed && number >> 63 != 0 ? ~0U : 0};
    }
    __device__ static State combined(const State& x, const State& y) {
        const unsigned long long low = x.low + y.low;
        return {low, x.high + y.high + (low < x.low ? 1 : 0)};
    }
    __device__ static Operand operand(const State& state) { return Operand::of(state.low, state.high); }
    __device__ static State shuffle_up(const State& state, int distance) {
        return {__shfl_up_sync(kFullWarp, state.low, distance), __shfl_up_sync(kFullWarp, state.high, distance)};
    }
};

}}  // namespace spillway::cuda::grouping
