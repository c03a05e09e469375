// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "device/host_clock.hpp"
#include "stream/stream_operator.hpp"

// Joins of relations that are larger than GPU memory, in host memory or a peer's: the Triton join (Lutz, Breß, Zeuch,
// Rabl and Markl, SIGMOD 2022) by way of copy engines, with the residency of a hybrid hash join (docs/internals.md).
namespace spillway::cuda { inline namespace staged_join {

struct JoinState;

// The build side, then the probe side; partition_rows() tells the true sizes in between.
class StagedJoin final : public StreamOperator {
  public:
    // peer: a device whose memory takes spilled rows before the host's (StreamSizes::peer_bytes). Access to it must be
    // enabled. disk: takes those that find no room in either, until the join goes; threads of the join use it.
    StagedJoin(Device& device, const StagedJoinSpec& spec, Device* peer = nullptr, SpillDisk* disk = nullptr);
    ~StagedJoin() override;

    // GPU memory that it takes in all. Throws kInvalid for a specification that cannot work.
    static uint64_t device_bytes(const StagedJoinSpec& spec);
    const std::vector<uint64_t>& partition_rows() const;  // of the build side, after it was read

  private:
    // sink: a join that gives build rows without a key needs it with the build side already, if one comes.
    void begin_input(int input, ChunkOwner& owner, ResultSink* sink) override;
    void read(const Chunk& chunk) override;
    void end_input() override;

    void begin_build(ChunkOwner& owner);
    void end_build();
    void begin_probe(ChunkOwner& owner);
    void end_probe();
    void finish();

    std::unique_ptr<JoinState> state_;
    int input_ = 0;
    HostClock clock_;  // of the input that is read
    uint64_t kept_rows_ = 0;
    ResultSink* summed_ = nullptr;  // that takes sums of the rows
};

}}  // namespace spillway::cuda::staged_join
