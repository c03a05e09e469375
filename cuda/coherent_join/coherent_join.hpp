// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "device/host_clock.hpp"
#include "stream/stream_operator.hpp"

// The Triton join proper (Lutz, Breß, Zeuch, Rabl and Markl, SIGMOD 2022, sections 4 and 5): kernels read both
// relations straight from far memory and write their partitions straight to pages of near and far memory, and later
// kernels read them from there. No copy engine takes part, so that it is as fast as kernels reach far memory: for GPUs
// behind NVLink, NVLink-C2C and machines with pageable access; over PCIe staged_join/ moves fewer bytes.
//
// Bytes per row of t bytes that far memory sends and receives, f being the share of pages in GPU memory:
//                   first pass           join
//   from there      t                    (1 - f) t
//   to there        (1 - f) t            results
// A build partition larger than a group comes in parts, its probe rows as often. GPU memory moves in addition f t twice
// for cached rows, 2 t for rows of both sides that are partitioned once more and joined, or (8 to 10) t for build rows
// that are gathered and indexed, and 2 t for rows on their way through second-level buffers (kHierarchical).
namespace spillway::cuda { inline namespace coherent_join {

// The build side, then the probe side. Takes all pages when it begins. Chunks are of memory that kernels read, of any
// size: the fewer, the better. Rows without a key find no partner. Of the report, spilled rows are those on pages of
// other memory than the GPU's, h2d_bytes what kernels read of chunks and such pages, d2h_bytes what they write to such
// pages, and results.
class CoherentJoin final : public StreamOperator {
  public:
    // peer: a device whose memory takes pages before the host's does, or more of the same device. Access to it is
    // enabled here.
    CoherentJoin(Device& device, const CoherentJoinSpec& spec, Device* peer = nullptr);
    ~CoherentJoin() override;

    // After the probe side: with a second pass "partition" on one stream, "wait" and "join" on the other, which has
    // "large partitions" and "third pass", too, where there are any. Without "gather"; "wait", "index" and "probe", and
    // "lone rows" where the kind of join has those.
    StageTimes stages() const override { return stages_; }
    // Pages of the GPU among all.
    uint64_t near_pages() const;
    uint64_t pages() const;

  private:
    struct State;

    void begin_input(int input, ChunkOwner& owner, ResultSink* sink) override;
    void read(const Chunk& chunk) override;
    void end_input() override;
    void join();

    std::unique_ptr<State> state_;
    int input_ = 0;
    ChunkOwner* owner_ = nullptr;
    ResultSink* sink_ = nullptr;
    HostClock clock_;
    StageTimes stages_;
};

}}  // namespace spillway::cuda::coherent_join
