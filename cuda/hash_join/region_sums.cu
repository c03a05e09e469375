// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/phase_times.hpp"
#include "hash_join/join_memory.hpp"
#include "hash_join/join_pass.hpp"
#include "hash_join/launch_join.hpp"
#include "hash_join/perfect_join.hpp"
#include "hash_join/region_sums.hpp"

namespace spillway::cuda { inline namespace hash_join {

namespace {

constexpr uint64_t kNextUnit = kSumTotals;
constexpr uint64_t kRefusals = kNextUnit + 1;
constexpr uint64_t kWords = kRefusals + 1;

void check_refusals(uint64_t refusals) {
    if ((refusals & kKeyRepeats) != 0) refuse("perfect hashing: a key of the build side comes twice");
    if (refusals != 0) refuse("perfect hashing: the keys of the build side are not dense");
}

JoinSide side_of(const RegionRows& rows, const RowLayout& layout) {
    JoinSide side;
    side.rows = rows.rows;
    side.begin = rows.begin;
    side.end = rows.end;
    side.row_words = layout.row_words;
    return side;
}

}  // namespace

RegionSums::RegionSums(Device& device, const RowLayout& layout, bool keys, const RegionTables& tables)
    : device_(device),
      layout_(layout),
      tables_(tables),
      totals_(device.memory().allocate(kWords * sizeof(uint64_t), "sums of a join")) {
    if (layout.row_words != 2 * layout.key_words) {
        throw Error(ErrorCode::kInvalid, "sums of regions are of rows with one payload of the key's width");
    }
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(totals_.as(), 0, kWords * sizeof(uint64_t), device.stream()));
    pass_.sums.totals = totals_.as<unsigned long long>();
    pass_.sums.keys = keys;
    pass_.next_unit = totals_.as<unsigned long long>() + kNextUnit;
}

void RegionSums::add(const RegionRows& build, const RegionRows& probe, uint64_t regions, int radix_bits,
                     uint32_t multiprocessors) {
    if (regions == 0) return;
    const auto all = static_cast<uint64_t>(device_.properties().multiprocessors);
    const uint64_t taken = multiprocessors == 0 ? all : multiprocessors;
    pass_.build = side_of(build, layout_);
    pass_.probe = side_of(probe, layout_);
    pass_.partitions = regions;
    pass_.radix_bits = static_cast<uint32_t>(radix_bits);
    const BlockRoom room = block_room(device_.properties(), layout_.key_words, layout_.row_words, radix_bits);
    pass_.build_capacity = tables_.perfect ? kPerfectBuildRows : room.rows;
    pass_.buckets = room.buckets;
    if (tables_.buckets > 0) pass_.chain_buckets = tables_.buckets;
    pass_.probe_unit_rows = probe_unit_rows(probe.count, regions, taken, 0);
    const Allocation units = first_units(device_, pass_);
    pass_.first_unit = units.as<const uint64_t>();
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(pass_.next_unit, 0, sizeof(uint64_t), device_.stream()));
    count_moved(device_, (build.count + probe.count) * layout_.row_bytes());
    const uint64_t blocks = std::min(join_blocks(device_, build.count + probe.count), taken);
    if (tables_.perfect) return launch_perfect(blocks);
    launch_join(device_, join_kernel_sum(layout_.key_words), blocks, layout_.key_words, pass_);
}

void RegionSums::launch_perfect(uint64_t blocks) const {
    PerfectPass pass;
    pass.join = pass_;
    pass.slots = perfect_slots(device_.properties(), layout_.key_words);
    pass.refusals = reinterpret_cast<uint32_t*>(totals_.as<unsigned long long>() + kRefusals);
    launch_perfect_sums(device_, blocks, layout_.key_words, pass);
}

RegionSums::Totals RegionSums::read() {
    uint64_t words[kWords] = {};
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(words, totals_.as(), sizeof words, cudaMemcpyDeviceToHost, device_.stream()));
    device_.synchronize();
    check_refusals(words[kRefusals]);
    return {words[kMatchTotal], words[kKeyTotal], words[kBuildTotal], words[kProbeTotal]};
}

}}  // namespace spillway::cuda::hash_join
