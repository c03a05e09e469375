// SPDX-License-Identifier: Apache-2.0
// A hash table of keys and their places. kPartitioned leaves groups in the order of their partitions, more or less, and
// those of a partition share the top bits of their mixed keys: where slots follow these, what blocks look for and where
// they write lies close together, for one group-by as for the next, and comes from the L2 cache. Keys that are chosen
// so that their mixed ones lie together are seen by their walks, and slots then follow a hash of them.
// Bytes: the table cleared, keys read and a slot written each; then for each part keys and a slot read, and each value
// read once and written once. 2^24 groups with 4-byte keys, parts of four sums and of two: 0.4 GB to fill and 2.2 for
// both, 0.65 ms at 3.98 TB/s; on an H200 it takes 1.9 ms in all.
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/group_places.hpp"
#include "group_by/tables/operands.cuh"
#include "group_by/tables/slot_words.cuh"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr uint32_t kNoPlace = ~0U;
constexpr int kPlacedColumnsMax = 2 * kGroupAggregatesMax;

// One load of 8 or 16 bytes.
template <int kKeyWords>
struct alignas(8 * kKeyWords) PlaceEntry {
    typename MixedKey<kKeyWords>::Key mixed;
    uint32_t place;  // kNoPlace: nothing is here
};

template <int kKeyWords>
struct PlaceTable {
    using Key = typename MixedKey<kKeyWords>::Key;
    PlaceEntry<kKeyWords>* entries;
    uint64_t slots;
    bool is_ordered;

    __device__ uint64_t first(Key mixed) const {
        if (!is_ordered) return global_slot<kKeyWords>(mixed, slots);
        if constexpr (kKeyWords == 1) {
            return __umul64hi(static_cast<uint64_t>(mixed) << 32, slots);
        } else {
            return __umul64hi(mixed, slots);
        }
    }
    __device__ uint64_t next(uint64_t at) const { return at + 1 == slots ? 0 : at + 1; }
};

// failed: set to 1 when a key walks too far.
template <int kKeyWords>
__global__ void __launch_bounds__(kPlaceThreads)
    fill_places(const __grid_constant__ PlaceTable<kKeyWords> table, const typename MixedKey<kKeyWords>::Key* keys,
                uint64_t groups, unsigned long long* failed) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < groups; i += step) {
        const auto mixed = MixedKey<kKeyWords>::mix(keys[i]);
        uint64_t at = table.first(mixed);
        uint32_t walked = 0;
        while (atomicCAS(&table.entries[at].place, kNoPlace, static_cast<uint32_t>(i)) != kNoPlace) {
            at = table.next(at);
            if (!table.is_ordered || ++walked % 64 != 0) continue;
            if (walked >= kPlacesWalkMax) atomicExch(failed, 1ULL);
            if (__ldcg(failed) != 0) return;
        }
        table.entries[at].mixed = mixed;
    }
}

struct PlacedColumns {
    PlacedColumn column[kPlacedColumnsMax];
    int32_t columns = 0;
};

template <class Value>
__device__ inline void place_values(const PlacedColumn& column, uint64_t first, uint64_t groups,
                                    const uint32_t (&place)[kPlacedGroups]) {
    Value value[kPlacedGroups];
#pragma unroll
    for (int i = 0; i < kPlacedGroups; ++i) {
        const uint64_t group = first + i * kPlaceThreads;
        value[i] = group < groups ? static_cast<const Value*>(column.from)[group] : Value{0};
    }
#pragma unroll
    for (int i = 0; i < kPlacedGroups; ++i) {
        if (place[i] != kNoPlace) static_cast<Value*>(column.to)[place[i]] = value[i];
    }
}

template <int kKeyWords>
__global__ void __launch_bounds__(kPlaceThreads)
    place_groups(const __grid_constant__ PlaceTable<kKeyWords> table, const typename MixedKey<kKeyWords>::Key* keys,
                 uint64_t groups, const __grid_constant__ PlacedColumns placed) {
    constexpr uint64_t kBlockGroups = static_cast<uint64_t>(kPlaceThreads) * kPlacedGroups;
    const uint64_t begin = blockIdx.x * kBlockGroups + threadIdx.x;
    for (uint64_t first = begin; first < groups; first += gridDim.x * kBlockGroups) {
        uint32_t place[kPlacedGroups];
#pragma unroll
        for (int i = 0; i < kPlacedGroups; ++i) {
            const uint64_t group = first + i * kPlaceThreads;
            place[i] = kNoPlace;
            if (group >= groups) continue;
            const auto mixed = MixedKey<kKeyWords>::mix(keys[group]);
            uint64_t at = table.first(mixed);
            PlaceEntry<kKeyWords> entry = table.entries[at];
            while (entry.place != kNoPlace && entry.mixed != mixed) {
                at = table.next(at);
                entry = table.entries[at];
            }
            place[i] = entry.place;
        }
        for (int c = 0; c < placed.columns; ++c) {
            const PlacedColumn& column = placed.column[c];
            switch (column.width) {
                case 1:
                    place_values<uint8_t>(column, first, groups, place);
                    break;
                case 2:
                    place_values<uint16_t>(column, first, groups, place);
                    break;
                case 4:
                    place_values<uint32_t>(column, first, groups, place);
                    break;
                default:
                    place_values<uint64_t>(column, first, groups, place);
            }
        }
    }
}

static_assert(sizeof(PlacedColumns) <= 2048, "parameters of a kernel");

template <int kKeyWords>
void launch_fill(Device& device, const PlaceTable<kKeyWords>& table, const void* keys, uint64_t groups,
                 unsigned long long* failed) {
    using Key = typename MixedKey<kKeyWords>::Key;
    launch(fill_places<kKeyWords>, grid_over(device, groups, kPlaceThreads, 16), dim3(kPlaceThreads), 0,
           device.stream(), table, static_cast<const Key*>(keys), groups, failed);
}

template <int kKeyWords>
void launch_place(Device& device, const PlaceTable<kKeyWords>& table, const void* keys, uint64_t groups,
                  const PlacedColumns& columns) {
    using Key = typename MixedKey<kKeyWords>::Key;
    const uint64_t per_block = static_cast<uint64_t>(kPlaceThreads) * kPlacedGroups;
    launch(place_groups<kKeyWords>, grid_over(device, groups, per_block, 16), dim3(kPlaceThreads), 0, device.stream(),
           table, static_cast<const Key*>(keys), groups, columns);
}

}  // namespace

GroupPlaces::GroupPlaces(Device& device, const void* keys, uint32_t key_bytes, uint64_t groups)
    : key_bytes_(key_bytes), groups_(groups), slots_(groups * kPlacesPerGroup) {
    if (groups >= kNoPlace) throw Error(ErrorCode::kInvalid, "a group-by in parts of more than 2^32 groups");
    const PhaseScope materialize(device, Phase::kMaterialize);
    entries_ = device.memory().allocate(slots_ * 2 * key_bytes, "places of groups");
    is_ordered_ = fill(device, keys);
    if (!is_ordered_) fill(device, keys);
}

bool GroupPlaces::fill(Device& device, const void* keys) {
    const Allocation failed = device.memory().allocate(sizeof(unsigned long long), "places of groups");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(failed.as(), 0, failed.bytes(), device.stream()));
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(entries_.as(), 0xff, entries_.bytes(), device.stream()));
    count_moved(device, 2 * entries_.bytes() + groups_ * key_bytes_);
    if (key_bytes_ == 4) {
        launch_fill<1>(device, {entries_.as<PlaceEntry<1>>(), slots_, is_ordered_}, keys, groups_,
                       failed.as<unsigned long long>());
    } else {
        launch_fill<2>(device, {entries_.as<PlaceEntry<2>>(), slots_, is_ordered_}, keys, groups_,
                       failed.as<unsigned long long>());
    }
    return read_published<unsigned long long>(device, failed.as()) == 0;
}

void GroupPlaces::place(Device& device, const void* keys, const std::vector<PlacedColumn>& columns) const {
    const PhaseScope materialize(device, Phase::kMaterialize);
    for (size_t begin = 0; begin < columns.size(); begin += kPlacedColumnsMax) {
        PlacedColumns some;
        uint64_t bytes = groups_ * key_bytes_ + entries_.bytes();
        for (size_t c = begin; c < columns.size() && some.columns < kPlacedColumnsMax; ++c) {
            some.column[some.columns++] = columns[c];
            bytes += 2 * groups_ * columns[c].width;
        }
        count_moved(device, bytes);
        if (key_bytes_ == 4) {
            launch_place<1>(device, {entries_.as<PlaceEntry<1>>(), slots_, is_ordered_}, keys, groups_, some);
        } else {
            launch_place<2>(device, {entries_.as<PlaceEntry<2>>(), slots_, is_ordered_}, keys, groups_, some);
        }
    }
}

}}  // namespace spillway::cuda::grouping
