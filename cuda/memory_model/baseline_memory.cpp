// SPDX-License-Identifier: Apache-2.0
#include "memory_model/baseline_memory.hpp"

#include <algorithm>

#include "api/error.hpp"
#include "baseline_join/baseline_join_policy.hpp"
#include "memory_model/staged_memory.hpp"
#include "radix_partition/radix_policy.hpp"
#include "stream/stream_policy.hpp"
#include "tier/tier_policy.hpp"

namespace spillway::cuda { inline namespace memory_model {

namespace {

// Scratch of prefix sums, totals, what rounding up takes.
constexpr uint64_t kTableSlackBytes = 16ULL << 20;

// Chunks on their way, and packed: two of them, the one that is looked up and the next one. Beside the table.
uint64_t streamed_bytes(const StagedJoinSpec& join, const StagedJoinMemory& memory) {
    const StreamSizes& sizes = join.sizes;
    const uint64_t row_bytes = std::max(memory.row_bytes[0], memory.row_bytes[1]);
    uint64_t bytes = kStreamedChunks * std::max(memory.chunk_bytes[0], memory.chunk_bytes[1]);
    bytes += 2 * (sizes.chunk_rows + kRegionAlignRows) * row_bytes;
    if (join.result == JoinResultKind::kRows) {
        // Places of result rows, and the scratch of their prefix sum, which takes less than as much.
        bytes += 2 * (sizes.chunk_rows / kGroupRows + 2) * sizeof(uint64_t);
        bytes += sizes.result_slots * memory.result_bytes;
    }
    return bytes + kTableSlackBytes;
}

void set_stripes(const BaselineJoinSpec& spec, BaselineMemory& memory) {
    const uint64_t parts = spec.shares.device + uint64_t{spec.shares.host};
    if (parts == 0) throw Error(ErrorCode::kInvalid, "stripes of a table lie in some memory");
    memory.stripe_bytes = kStripeBytes;
    memory.stripes = (memory.table_bytes + kStripeBytes - 1) / kStripeBytes;
    // As StripePattern deals them: the GPU never gets more than its share.
    memory.device_stripes =
        memory.stripes / parts * spec.shares.device + memory.stripes % parts * spec.shares.device / parts;
}

}  // namespace

BaselineMemory baseline_join_memory(const BaselineJoinSpec& spec) {
    StagedJoinSpec join = spec.join;
    BaselineMemory memory;
    if (spec.algorithm == BaselineJoin::kCpuPartitioned) {
        const StagedJoinMemory staged = staged_join_memory(join);
        memory.device_bytes = join.sizes.chunk_slots * staged.slot_bytes + indexed_join_bytes(join, staged);
        return memory;
    }
    join.sizes.radix_bits = 0;
    const StagedJoinMemory staged = staged_join_memory(join);
    const uint64_t slots = table_slots(spec.build_rows, kTableLoadPercent);
    memory.table_bytes = slots * staged.row_bytes[0];
    memory.device_bytes = streamed_bytes(join, staged) + (slots + 31) / 32 * sizeof(uint32_t);
    if (spec.algorithm == BaselineJoin::kNpjFar) {
        set_stripes(spec, memory);
        memory.device_bytes += memory.device_stripes * memory.stripe_bytes;
    } else {
        memory.device_bytes += memory.table_bytes;
    }
    return memory;
}

uint64_t table_slots(uint64_t build_rows, uint32_t load_percent) {
    if (load_percent == 0 || load_percent > kTableLoadMax) {
        throw Error(ErrorCode::kInvalid, "of the slots of a table 1 to 90 % are taken");
    }
    if (build_rows > kTableRowsMax) throw Error(ErrorCode::kInvalid, "more build rows than any memory holds");
    // One slot more, and more than that by the least load, is empty: walks end.
    return std::max(kSlotsMin, build_rows * 100 / load_percent + 1);
}

}}  // namespace spillway::cuda::memory_model
