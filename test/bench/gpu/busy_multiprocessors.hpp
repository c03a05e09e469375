// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace spillway::gpu_bench {

// Keeps multiprocessors from whatever runs meanwhile, so that it is timed on the others: a block on each of them has
// all of its shared memory and waits. Whoever waits for the whole device meanwhile, or frees its memory, waits until
// the blocks give up, and the sample is then refused.
class BusyMultiprocessors {
  public:
    // Returns when they are busy; of 0 it does nothing. Throws where not so many can be had.
    BusyMultiprocessors(cuda::Device& device, uint32_t multiprocessors);
    // Ends them, too; so also when what was to be timed has failed.
    ~BusyMultiprocessors();
    BusyMultiprocessors(const BusyMultiprocessors&) = delete;
    BusyMultiprocessors& operator=(const BusyMultiprocessors&) = delete;

    // Throws if they have given up before.
    void end();

  private:
    void signal_end() noexcept;
    void release() noexcept;

    const uint32_t blocks_;
    cuda::Stream stream_;
    cuda::Stream other_;          // tells the blocks to end
    uint32_t* end_ = nullptr;     // of the device: whether to
    uint32_t* states_ = nullptr;  // pinned: of each block what it does
};

}  // namespace spillway::gpu_bench
