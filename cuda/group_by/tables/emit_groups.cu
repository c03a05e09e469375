// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "group_by/tables/emit_groups.hpp"
#include "group_by/tables/emit_table.cuh"

namespace spillway::cuda { inline namespace grouping {

void emit_groups(Device& device, uint32_t key_words, const GlobalGroups& groups, const GroupSink& sink) {
    const PhaseScope materialize(device, Phase::kMaterialize);
    const uint64_t per_block = static_cast<uint64_t>(kEmitThreads) * kEmitSlotsPerThread;
    const uint64_t most = 8ULL * static_cast<uint64_t>(device.properties().multiprocessors);
    const uint64_t blocks = std::min((groups.slots + per_block) / per_block, most);
    const auto kernel = key_words == 1 ? emit_table_kernel<1> : emit_table_kernel<2>;
    launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kEmitThreads), 0, device.stream(), groups, sink);
}

}}  // namespace spillway::cuda::grouping
