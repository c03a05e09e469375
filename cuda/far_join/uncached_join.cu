// SPDX-License-Identifier: Apache-2.0
#include "far_join/join_end.hpp"
#include "far_join/uncached_join.hpp"

namespace spillway::cuda {

namespace {

class StagedJoin final : public FarJoin {
  public:
    StagedJoin(Device& device, const OutOfCoreSpec& spec, Device* peer) : join_(device, spec, peer) {}

    void build(ChunkSource& source) override { join_.build(source); }
    const OutOfCoreReport& probe(ChunkSource& source, ResultSink* sink) override { return join_.probe(source, sink); }

  private:
    OutOfCoreJoin join_;
};

}  // namespace

std::unique_ptr<FarJoin> open_uncached_join(Device& device, const FarJoinSpec& spec) {
    check_inner(spec.join);
    OutOfCoreSpec uncached = spec.join;
    uncached.sizes.resident_partitions = 0;
    uncached.sizes.packed = false;
    uncached.sizes.filter_words = 0;
    return std::make_unique<StagedJoin>(device, uncached, spec.peer);
}

std::unique_ptr<FarJoin> open_triton_join(Device& device, const FarJoinSpec& spec) {
    return std::make_unique<StagedJoin>(device, spec.join, spec.peer);
}

}  // namespace spillway::cuda
