// SPDX-License-Identifier: Apache-2.0
#include "far_join/coherent_far_join.hpp"

namespace spillway::cuda {

namespace {

CoherentSpec coherent_spec(const FarJoinSpec& spec) {
    CoherentSpec coherent;
    coherent.join = spec.join;
    coherent.rows[0] = spec.build_rows;
    coherent.rows[1] = spec.probe_rows;
    coherent.options = spec.coherent;
    coherent.options.shares = spec.shares;
    return coherent;
}

class CoherentFarJoin final : public FarJoin {
  public:
    CoherentFarJoin(Device& device, const FarJoinSpec& spec) : join_(device, coherent_spec(spec), spec.peer) {}

    void build(ChunkSource& source) override { join_.build(source); }
    const OutOfCoreReport& probe(ChunkSource& source, ResultSink* sink) override { return join_.probe(source, sink); }
    StageTimes stages() const override { return join_.stages(); }

  private:
    CoherentJoin join_;
};

}  // namespace

std::unique_ptr<FarJoin> open_coherent_join(Device& device, const FarJoinSpec& spec) {
    return std::make_unique<CoherentFarJoin>(device, spec);
}

}  // namespace spillway::cuda
