// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "baseline_join/baseline_join_policy.hpp"
#include "baseline_join/slot_table.hpp"
#include "device/launch.hpp"
#include "memory_model/baseline_memory.hpp"
#include "radix_partition/row_layout.hpp"
#include "row_index/total.cuh"
#include "stream/row_tiles.cuh"
#include "stream/write_result.cuh"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

uint64_t perfect_slots(const BaselineSpec& spec) {
    if (spec.key_range > kTableRowsMax) throw Error(ErrorCode::kInvalid, "more keys than any memory holds");
    return std::max<uint64_t>(1, spec.key_range);
}

// All device memory that the rest of the join does not need, then host memory.
StripeShares most_in_device(Device& device, const BaselineSpec& spec, uint64_t stripe_bytes, uint64_t stripes) {
    const uint64_t row_bytes = std::max(RowLayout::words_for(spec.join.key_bytes, spec.join.widths[0]),
                                        RowLayout::words_for(spec.join.key_bytes, spec.join.widths[1])) *
                               sizeof(uint32_t);
    const uint64_t kept = kTableReserveBytes + kTableReserveChunks * spec.join.sizes.chunk_rows * row_bytes;
    const uint64_t free_bytes = device.memory().free_bytes();
    const uint64_t fit = free_bytes > kept ? (free_bytes - kept) / stripe_bytes : 0;
    StripeShares shares;
    shares.device = static_cast<uint32_t>(std::min(fit, stripes));
    shares.host = static_cast<uint32_t>(stripes - shares.device);
    return shares;
}

}  // namespace

SlotTable::SlotTable(Device& device, const BaselineSpec& spec, Hashing hashing, Place place) {
    const RowLayout row = RowLayout::make(spec.join.key_bytes, spec.join.widths[0]);
    view_.row_words = row.row_words;
    view_.perfect = hashing == Hashing::kPerfect ? 1 : 0;
    view_.slot_words = view_.perfect != 0 ? row.row_words - row.key_words : row.row_words;
    view_.slot_count = view_.perfect != 0 ? perfect_slots(spec) : table_slots(spec.build_rows, spec.load_percent);
    view_.first_key = spec.first_key;
    const uint64_t words = (view_.slot_count + 31) / 32;
    taken_ = device.memory().allocate(words * sizeof(uint32_t), "bits of taken slots");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(taken_.as(), 0, words * sizeof(uint32_t), device.stream()));
    view_.taken = taken_.as<uint32_t>();
    if (bytes() == 0) return;  // an array of keys without columns: the bits say it all
    if (place == Place::kSpread) {
        take_spread(device, spec);
    } else {
        local_ = device.memory().allocate(bytes(), "a hash table");
        view_.slots = local_.as<uint32_t>();
    }
}

void SlotTable::take_spread(Device& device, const BaselineSpec& spec) {
    const uint64_t stripe_bytes = spec.stripe_bytes == 0 ? kStripeBytes : spec.stripe_bytes;
    memory_ = std::make_unique<InterleavedMemory>(device, stripe_bytes);
    StripeShares shares = spec.shares;
    if (shares.device == 0 && shares.peer == 0 && shares.host == 0) {
        shares = most_in_device(device, spec, stripe_bytes, (bytes() + stripe_bytes - 1) / stripe_bytes);
    }
    range_ = InterleavedRange(*memory_, shares, bytes());
    view_.slots = range_.as<uint32_t>();
}

namespace {

// These are the reasons why a kernel could not insert a row, a bit each.
enum TableRefusal : uint64_t { kOutOfRange = 1, kKeyTwice = 2, kWalkTooLong = 4 };

// Words of one row from anywhere to anywhere, in as few accesses as its alignment allows: over the link each access is
// a packet of its own.
__device__ inline void copy_words(const uint32_t* from, uint32_t* to, uint32_t words) {
    if (words % 4 == 0) {
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; w += 4) {
            if (w < words) *reinterpret_cast<uint4*>(to + w) = *reinterpret_cast<const uint4*>(from + w);
        }
    } else if (words % 2 == 0) {
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; w += 2) {
            if (w < words) *reinterpret_cast<uint2*>(to + w) = *reinterpret_cast<const uint2*>(from + w);
        }
    } else {
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; ++w) {
            if (w < words) to[w] = from[w];
        }
    }
}

// Where the walk for a mixed key begins: the key as a fraction of all, times the slots, so that there may be any number
// of them.
template <int kKeyWords>
__device__ inline uint64_t first_slot(const SlotTableView& table, uint64_t mixed_key) {
    return __umul64hi(kKeyWords == 1 ? mixed_key << 32 : mixed_key, table.slot_count);
}

// The place of a mixed key in an array; slot_count or more: it has none.
template <int kKeyWords>
__device__ inline uint64_t perfect_slot(const SlotTableView& table, uint64_t mixed_key) {
    using Key = typename MixedKey<kKeyWords>::Key;
    return static_cast<Key>(MixedKey<kKeyWords>::unmix(static_cast<Key>(mixed_key)) -
                            static_cast<Key>(table.first_key));
}

__device__ inline bool claim_slot(const SlotTableView& table, uint64_t slot) {
    const uint32_t bit = 1U << (slot % 32);
    return (atomicOr(&table.taken[slot / 32], bit) & bit) == 0;
}

// Claims the first slot from the key's own that is not taken; slot_count: the walk is too long. Bits are set and never
// cleared, so what was seen as taken is taken: it may be passed over, 32 slots at a time.
template <int kKeyWords>
__device__ inline uint64_t claim_linear(const SlotTableView& table, uint64_t mixed_key) {
    uint64_t slot = first_slot<kKeyWords>(table, mixed_key);
    for (uint64_t walked = 0; walked <= kSlotWalkMax;) {
        const uint64_t word = slot / 32;
        const uint32_t at = static_cast<uint32_t>(slot % 32);
        const uint32_t free = ~__ldcg(&table.taken[word]) & (~0U << at);
        const uint32_t next = free != 0 ? static_cast<uint32_t>(__ffs(static_cast<int>(free))) - 1 : 32;
        walked += next - at;
        slot = word * 32 + next;
        // Bits behind the last slot are never set.
        if (slot >= table.slot_count) {
            slot = 0;
            ++walked;  // so that a walk through a short table ends as well
        } else if (next < 32 && claim_slot(table, slot)) {
            return slot;
        }
    }
    return table.slot_count;
}

// Build rows with the key of a probe row; visit(build row) for each, where a row is copied to before: from a table over
// the link each slot is read once. An array has no keys in it: the row gets that of the probe row.
template <int kKeyWords, class Visit>
__device__ inline uint64_t for_partners(const SlotTableView& table, const uint32_t* probe_row, const Visit& visit) {
    __align__(16) uint32_t row[kRowWordsMax + 4];
    const uint64_t key = row_key<kKeyWords>(probe_row);
    if (table.perfect != 0) {
        const uint64_t slot = perfect_slot<kKeyWords>(table, key);
        if (slot >= table.slot_count || (__ldg(&table.taken[slot / 32]) >> (slot % 32) & 1) == 0) return 0;
        // The columns at a multiple of 16 bytes, as slots may be: the key, of one or two words, right before them.
        copy_words(table.slots + slot * table.slot_words, row + 4, table.slot_words);
        uint32_t* const build = row + 4 - kKeyWords;
        for (int w = 0; w < kKeyWords; ++w) build[w] = probe_row[w];
        visit(build);
        return 1;
    }
    uint64_t partners = 0;
    uint64_t slot = first_slot<kKeyWords>(table, key);
    while ((__ldg(&table.taken[slot / 32]) >> (slot % 32) & 1) != 0) {
        copy_words(table.slots + slot * table.slot_words, row, table.slot_words);
        if (row_key<kKeyWords>(row) == key) {
            ++partners;
            visit(row);
        }
        ++slot;
        if (slot == table.slot_count) slot = 0;
    }
    return partners;
}

// body(row, group, is there) for the lanes of all groups of 32 rows that this warp takes; whole warps stay together.
template <class Body>
__device__ inline void for_row_groups(uint64_t row_count, const Body& body) {
    const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarpThreads);
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarpThreads) + warp_index();
    const uint64_t groups = (row_count + kGroupRows - 1) / kGroupRows;
    for (uint64_t group = first; group < groups; group += warps) {
        const uint64_t row = group * kGroupRows + lane_index();
        body(row, group, row < row_count);
    }
}

// The place of a build row in the table; slot_count and a refusal: it has none.
template <int kKeyWords>
__device__ inline uint64_t claim(const SlotTableView& table, uint64_t key, uint64_t& refused) {
    if (table.perfect == 0) {
        const uint64_t slot = claim_linear<kKeyWords>(table, key);
        if (slot == table.slot_count) refused |= kWalkTooLong;
        return slot;
    }
    const uint64_t slot = perfect_slot<kKeyWords>(table, key);
    if (slot >= table.slot_count) {
        refused |= kOutOfRange;
        return table.slot_count;
    }
    if (claim_slot(table, slot)) return slot;
    refused |= kKeyTwice;
    return table.slot_count;
}

template <int kKeyWords>
__global__ void insert_kernel(TablePass pass, unsigned long long* refusals) {
    const SlotTableView& table = pass.table;
    uint64_t refused = 0;
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t, bool present) {
        if (!present) return;
        const uint32_t* const from = pass.rows + row * pass.row_words;
        const uint64_t slot = claim<kKeyWords>(table, row_key<kKeyWords>(from), refused);
        if (slot == table.slot_count) return;
        uint32_t* const to = table.slots + slot * table.slot_words;
        if (table.perfect == 0) {
            copy_words(from, to, table.slot_words);
            return;
        }
        // Behind a key of one or two words columns are not aligned as they are in slots.
        __align__(16) uint32_t columns[kRowWordsMax];
#pragma unroll
        for (uint32_t w = 0; w < kRowWordsMax; ++w) {
            if (w < table.slot_words) columns[w] = from[kKeyWords + w];
        }
        copy_words(columns, to, table.slot_words);
    });
    if (refused != 0) atomicOr(refusals, static_cast<unsigned long long>(refused));
}

template <int kKeyWords>
__global__ void sum_rows_kernel(TablePass pass, ResultWindow columns, uint64_t* totals) {
    uint64_t sums[kSumColumnsMax] = {};
    uint64_t rows = 0;
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t, bool present) {
        if (!present) return;
        const uint32_t* const probe = pass.rows + row * pass.row_words;
        rows += for_partners<kKeyWords>(pass.table, probe, [&](const uint32_t* build) {
#pragma unroll
            for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
                if (c >= static_cast<uint32_t>(columns.columns)) break;
                sums[c] += addend<kKeyWords>(columns.column[c], build, probe, true);
            }
        });
    });
    add_total(rows, totals);
#pragma unroll
    for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
        if (c < static_cast<uint32_t>(columns.columns)) add_total(sums[c], totals + 1 + c);
    }
}

template <int kKeyWords>
__global__ void count_rows_kernel(TablePass pass, uint64_t* group_rows) {
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t group, bool present) {
        uint64_t rows = 0;
        if (present) {
            rows = for_partners<kKeyWords>(pass.table, pass.rows + row * pass.row_words, [](const uint32_t*) {});
        }
        // Lanes come back from walks of different lengths.
        __syncwarp();
#pragma unroll
        for (uint32_t distance = 16; distance > 0; distance /= 2) {
            rows += __shfl_xor_sync(kFullWarp, rows, distance);
        }
        if (lane_index() == 0) group_rows[group] = rows;
    });
}

template <int kKeyWords>
__global__ void write_rows_kernel(TablePass pass, const uint64_t* first_of_group, ResultWindow window) {
    const uint64_t last = window.first + window.rows;
    for_row_groups(pass.row_count, [&](uint64_t row, uint64_t group, bool present) {
        const uint64_t first = first_of_group[group];
        // The same for the whole warp.
        if (first >= last || first_of_group[group + 1] <= window.first) return;
        const uint32_t* const probe = pass.rows + row * pass.row_words;
        uint64_t rows = 0;
        if (present) rows = for_partners<kKeyWords>(pass.table, probe, [](const uint32_t*) {});
        __syncwarp();
        uint64_t position = first + warp_inclusive_sum(rows) - rows;
        if (rows == 0 || position >= last || position + rows <= window.first) return;
        // The walk is the same as before, for nothing is inserted any more.
        for_partners<kKeyWords>(pass.table, probe, [&](const uint32_t* build) {
            if (position >= window.first && position < last) {
                write_result<kKeyWords>(window, position - window.first, build, probe, true);
            }
            ++position;
        });
    });
}

dim3 grid_of(Device& device, const TablePass& pass) {
    return grid_over(device, pass.row_count, kTableThreads, kTableBlocksPerMultiprocessor);
}

}  // namespace

void insert_rows(Device& device, const TablePass& pass, uint64_t* refusals) {
    launch(pass.key_words == 1 ? insert_kernel<1> : insert_kernel<2>, grid_of(device, pass), dim3(kTableThreads), 0,
           device.stream(), pass, reinterpret_cast<unsigned long long*>(refusals));
}

void throw_refusal(uint64_t refusals) {
    if (refusals == 0) return;
    const char* const why = (refusals & kOutOfRange) != 0 ? "a build key lies outside of the range that was named"
                            : (refusals & kKeyTwice) != 0 ? "perfect hashing joins build keys that come once each"
                                                          : "linear probing is not for keys in thousands of build rows";
    throw Error(ErrorCode::kInvalid, why);
}

void sum_rows(Device& device, const TablePass& pass, const ResultWindow& columns, uint64_t* totals) {
    if (columns.columns > static_cast<int32_t>(kSumColumnsMax)) {
        throw Error(ErrorCode::kInvalid, "a join gives at most " + std::to_string(kSumColumnsMax) + " sums");
    }
    launch(pass.key_words == 1 ? sum_rows_kernel<1> : sum_rows_kernel<2>, grid_of(device, pass), dim3(kTableThreads), 0,
           device.stream(), pass, columns, totals);
}

void count_rows_of_groups(Device& device, const TablePass& pass, uint64_t* group_rows) {
    const uint64_t groups = (pass.row_count + kGroupRows - 1) / kGroupRows;
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(group_rows + groups, 0, sizeof(uint64_t), device.stream()));
    launch(pass.key_words == 1 ? count_rows_kernel<1> : count_rows_kernel<2>, grid_of(device, pass),
           dim3(kTableThreads), 0, device.stream(), pass, group_rows);
}

void write_rows(Device& device, const TablePass& pass, const uint64_t* first_of_group, const ResultWindow& window) {
    launch(pass.key_words == 1 ? write_rows_kernel<1> : write_rows_kernel<2>, grid_of(device, pass),
           dim3(kTableThreads), 0, device.stream(), pass, first_of_group, window);
}

}}  // namespace spillway::cuda::baseline_join
