// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/job_control.hpp"
#include "device/gpu_out_of_core.hpp"
#include "memory/spill_file.hpp"

namespace spillway {

// The spill files of a job, as the storage of an operation out of core: what the CPU engine's spilled rows are kept in.
class SpillDisk final : public GpuSpillDisk {
  public:
    // Throws as SpillFile.
    SpillDisk(std::shared_ptr<SpillSpace> space, JobControl& control);

    uint64_t write(const void* data, uint64_t bytes) override;
    void read(uint64_t at, uint64_t offset, void* data, uint64_t bytes) override;

  private:
    SpillFile file_;
    std::atomic<uint64_t> writes_{0};
};

}  // namespace spillway
