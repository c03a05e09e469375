// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "device/host_clock.hpp"
#include "stream/stream_operator.hpp"

// Group-bys of relations that are larger than GPU memory, with groups that may be too many for it as well. Chunks are
// aggregated as they come where that makes them shorter; what they leave, partial rows of a key and accumulators, is
// partitioned and stays in pages of device memory, is aggregated again when pages run out, and is spilled only when
// that frees too few of them.
namespace spillway::cuda { inline namespace staged_group_by {

struct GroupByState;

// Device memory for pages, chunks, results and columns is taken when the group-by begins; group-bys of parts take their
// own for a while (staged_group_by_memory() counts it). Without a sink groups are only counted.
class StagedGroupBy final : public StreamOperator {
  public:
    // peer, disk: as of StagedJoin.
    StagedGroupBy(Device& device, const StagedGroupBySpec& spec, Device* peer = nullptr, SpillDisk* disk = nullptr);
    ~StagedGroupBy() override;

    // GPU memory that it takes in all. Throws kInvalid for a specification that cannot work.
    static uint64_t device_bytes(const StagedGroupBySpec& spec);
    int inputs() const override { return 1; }
    // Where it has nothing but counts, and sums and means of integers.
    std::optional<std::vector<SummedColumn>> sums_for_rows() const override;
    void add_sums(uint64_t rows, const std::vector<ExactSum>& sums) override;

  private:
    void begin_input(int input, ChunkOwner& owner, ResultSink* sink) override;
    void read(const Chunk& chunk) override;
    void end_input() override;
    void finish();

    std::unique_ptr<GroupByState> state_;
    HostClock clock_;
    uint64_t summed_rows_ = 0;  // of add_sums()
};

}}  // namespace spillway::cuda::staged_group_by
