// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/nearest_mean.cuh"
#include "relation/relation_grid.cuh"
#include "relation/wide_aggregates.hpp"

namespace spillway::cuda { inline namespace relation {

namespace {

constexpr uint64_t kWideSumRowsMax = 1ULL << 32;  // so many limbs fit 64 bits
constexpr uint32_t kWideLimbsMax = 4;
constexpr int32_t kScaleMax = 76;  // of nearest_decimal_mean

struct LimbColumns {
    uint32_t* limb[kWideLimbsMax] = {};
};

// Bytes: values and limbs once each.
__global__ void split_limbs_of_8(const uint2* values, uint64_t rows, const __grid_constant__ LimbColumns to) {
    for_rows(rows, [&](uint64_t row) {
        const uint2 value = values[row];
        to.limb[0][row] = value.x;
        to.limb[1][row] = value.y;
    });
}
// Bytes: the same.
__global__ void split_limbs_of_16(const uint4* values, uint64_t rows, const __grid_constant__ LimbColumns to) {
    for_rows(rows, [&](uint64_t row) {
        const uint4 value = values[row];
        to.limb[0][row] = value.x;
        to.limb[1][row] = value.y;
        to.limb[2][row] = value.z;
        to.limb[3][row] = value.w;
    });
}

// What a group-by found of each limb, put together.
struct LimbSums {
    const void* sums[kWideLimbsMax] = {};  // uint64_t[groups]
    uint32_t limbs = 0;
};

// Two's complement in 192 bits.
struct WideSum {
    uint64_t word[3];

    __device__ void add(int at, uint64_t value, uint64_t extension) {
        uint64_t carry = 0;
        for (int i = at; i < 3; ++i) {
            const uint64_t own = i == at ? value : extension;
            const uint64_t sum = word[i] + own;
            const uint64_t with_carry = sum + carry;
            carry = (sum < own ? 1 : 0) + (with_carry < sum ? 1 : 0);
            word[i] = with_carry;
        }
    }
    __device__ bool is_negative() const { return word[2] >> 63 != 0; }
    __device__ WideSum magnitude() const {
        if (!is_negative()) return *this;
        WideSum positive = {{~word[0], ~word[1], ~word[2]}};
        positive.add(0, 1, 0);
        return positive;
    }
};

// The sum of limb i is worth 2^(32 i) and begins in the middle of a word where i is odd.
__device__ inline WideSum sum_of(const LimbSums& sums, uint64_t group) {
    WideSum total = {{0, 0, 0}};
    for (uint32_t limb = 0; limb < sums.limbs; ++limb) {
        const uint64_t sum = static_cast<const uint64_t*>(sums.sums[limb])[group];
        const bool is_negative = limb + 1 == sums.limbs && sum >> 63 != 0;
        const uint64_t extension = is_negative ? ~0ULL : 0;
        const int at = static_cast<int>(limb / 2);
        if (limb % 2 == 0) {
            total.add(at, sum, extension);
        } else {
            total.add(at, sum << 32, 0);
            total.add(at + 1, sum >> 32 | extension << 32, extension);
        }
    }
    return total;
}

// 10^38, the first number of 39 digits.
constexpr uint64_t kLimitHigh = 0x4b3b4ca85a86c47aULL;
constexpr uint64_t kLimitLow = 0x098a224000000000ULL;
static_assert((static_cast<unsigned __int128>(kLimitHigh) << 64 | kLimitLow) ==
                  static_cast<unsigned __int128>(10'000'000'000'000'000'000ULL) * 10'000'000'000'000'000'000ULL,
              "10^19 * 10^19");

// Bytes: the sums of limbs and 16 bytes per group.
__global__ void join_limbs(const __grid_constant__ LimbSums sums, uint64_t groups, ulonglong2* to,
                           uint32_t* overflows) {
    for_rows(groups, [&](uint64_t group) {
        const WideSum sum = sum_of(sums, group);
        const WideSum size = sum.magnitude();
        const bool fits = size.word[2] == 0 &&
                          (size.word[1] < kLimitHigh || (size.word[1] == kLimitHigh && size.word[0] < kLimitLow));
        if (!fits) atomicExch(overflows, 1U);
        to[group] = make_ulonglong2(sum.word[0], sum.word[1]);
    });
}

// Bytes: the sums of limbs, the count and the mean of each group.
__global__ void join_means(const __grid_constant__ LimbSums sums, const uint64_t* counts, int32_t scale,
                           uint64_t groups, double* to) {
    for_rows(groups,
             [&](uint64_t group) { to[group] = nearest_decimal_mean(sum_of(sums, group).word, counts[group], scale); });
}

// Enqueued on the device's stream. Throws kInvalid for other widths and for more than kWideSumRowsMax rows.
Limbs split_limbs(Device& device, const TableColumn& column, uint64_t rows) {
    if (rows > kWideSumRowsMax) {
        throw Error(ErrorCode::kInvalid, "sums in 128 bits of more than 2^32 rows run on the CPU engine");
    }
    Limbs limbs;
    if (column.width == 4) {
        limbs.columns.push_back({column.values.as(), 4});
        return limbs;
    }
    if (column.width != 8 && column.width != 16) {
        throw Error(ErrorCode::kInvalid,
                    "sums of values of " + std::to_string(column.width) + " bytes run on the CPU engine");
    }
    const uint32_t count = column.width / 4;
    // Columns begin at multiples of 16 bytes.
    const uint64_t column_bytes = (rows * 4 + 15) / 16 * 16;
    limbs.memory = device.memory().allocate(column_bytes * count, "limbs of decimals");
    LimbColumns to;
    for (uint32_t limb = 0; limb < count; ++limb) {
        to.limb[limb] = reinterpret_cast<uint32_t*>(limbs.memory.as<uint8_t>() + limb * column_bytes);
        limbs.columns.push_back({to.limb[limb], 4});
    }
    count_moved(device, 2 * rows * column.width);
    const dim3 grid = relation_grid(device, rows);
    if (column.width == 8) {
        launch(split_limbs_of_8, grid, dim3(kRelationThreads), 0, device.stream(), column.values.as<const uint2>(),
               rows, to);
    } else {
        launch(split_limbs_of_16, grid, dim3(kRelationThreads), 0, device.stream(), column.values.as<const uint4>(),
               rows, to);
    }
    return limbs;
}

// Sums of 16 bytes. Waits for the device. Throws kOverflow, with the text, where one has more than 38 decimal digits.
Allocation wide_sums(Device& device, const LimbSums& sums, uint64_t groups, const char* too_large) {
    const cudaStream_t stream = device.stream();
    Allocation out = device.memory().allocate(groups * 16, "sums of decimals");
    const Allocation overflows = device.memory().allocate(sizeof(uint32_t), "sums that overflow");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(overflows.as(), 0, overflows.bytes(), stream));
    count_moved(device, groups * (sums.limbs * sizeof(uint64_t) + 16));
    launch(join_limbs, relation_grid(device, groups), dim3(kRelationThreads), 0, stream, sums, groups,
           out.as<ulonglong2>(), overflows.as<uint32_t>());
    uint32_t has_overflow = 0;
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&has_overflow, overflows.as(), sizeof has_overflow, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    if (has_overflow != 0) throw Error(ErrorCode::kOverflow, too_large);
    return out;
}

// Doubles: the nearest ones to the sum by the count by 10^scale. counts: uint64_t[groups]; scale: -76 to 76. Enqueued
// on the device's stream. Throws kInvalid.
Allocation wide_means(Device& device, const LimbSums& sums, const void* counts, int32_t scale, uint64_t groups) {
    if (scale < -kScaleMax || scale > kScaleMax) {
        throw Error(ErrorCode::kInvalid, "means of decimals with more than 76 digits of scale run on the CPU engine");
    }
    Allocation out = device.memory().allocate(groups * sizeof(double), "means of decimals");
    count_moved(device, groups * (sums.limbs + 2) * sizeof(uint64_t));
    launch(join_means, relation_grid(device, groups), dim3(kRelationThreads), 0, device.stream(), sums,
           static_cast<const uint64_t*>(counts), scale, groups, out.as<double>());
    return out;
}

}  // namespace

bool WideAggregates::takes(const TableAggregate& aggregate) {
    const bool is_sum = aggregate.kind == TableAggregateKind::kSum;
    if (aggregate.value_kind == TableValueKind::kDecimal) return is_sum || aggregate.kind == TableAggregateKind::kMean;
    if (aggregate.value_kind != TableValueKind::kSigned) return false;
    // Decimals of 4 and 8 bytes are integers whose sums have 16, and whose means have a scale.
    return is_sum ? aggregate.result_width == 16
                  : aggregate.kind == TableAggregateKind::kMean && aggregate.decimal_scale != 0;
}

GroupAggregate WideAggregates::add(size_t number, const TableAggregate& aggregate, const TableColumn& column,
                                   const GroupAggregate& count) {
    const bool is_mean = aggregate.kind == TableAggregateKind::kMean;
    if (aggregate.result_width != (is_mean ? 8 : 16)) {
        throw Error(ErrorCode::kInvalid, "a sum or mean of decimals with a result of " +
                                             std::to_string(aggregate.result_width) + " bytes runs on the CPU engine");
    }
    const std::vector<DeviceColumn>& columns = limbs_of(aggregate.column, column).columns;
    Parts parts;
    parts.number = number;
    GroupAggregate lowest;
    for (size_t limb = 0; limb < columns.size(); ++limb) {
        GroupAggregate sum;
        sum.kind = GroupAggregateKind::kSum;
        sum.value_kind = limb + 1 == columns.size() ? ValueKind::kSigned : ValueKind::kUnsigned;
        sum.values = columns[limb];
        sum.valid = column.validity.as<const uint32_t>();
        if (limb == 0) lowest = sum;
        parts.sums.push_back(limb == 0 ? number : push(sum));
    }
    if (is_mean) parts.count = push(count);
    parts_.push_back(parts);
    return lowest;
}

Allocation WideAggregates::values(size_t number, const TableAggregate& aggregate, const GroupByResult& result) {
    const Parts& parts = *find(number);
    LimbSums sums;
    for (const size_t sum : parts.sums) sums.sums[sums.limbs++] = result.values[sum].as<const void>();
    if (aggregate.kind == TableAggregateKind::kMean) {
        return wide_means(device_, sums, result.values[parts.count].as<const void>(), aggregate.decimal_scale,
                          result.groups);
    }
    const std::string text =
        "the sum of column " + std::to_string(aggregate.column) + " has more than 38 decimal digits for one group";
    return wide_sums(device_, sums, result.groups, text.c_str());
}

const WideAggregates::Parts* WideAggregates::find(size_t number) const {
    for (const Parts& parts : parts_) {
        if (parts.number == number) return &parts;
    }
    return nullptr;
}

const Limbs& WideAggregates::limbs_of(uint32_t number, const TableColumn& column) {
    for (const ColumnLimbs& known : limbs_) {
        if (known.column == number) return known.limbs;
    }
    limbs_.push_back({number, split_limbs(device_, column, rows_)});
    return limbs_.back().limbs;
}

size_t WideAggregates::push(const GroupAggregate& aggregate) {
    more_.push_back(aggregate);
    return aggregates_ + more_.size() - 1;
}

}}  // namespace spillway::cuda::relation
