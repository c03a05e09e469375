// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace spillway::cuda {

// The highest priority that there is: a kernel of few blocks would else wait until the last block of a large one that
// was launched before it has begun.
class UrgentStream {
  public:
    UrgentStream();
    ~UrgentStream();  // does not wait
    UrgentStream(const UrgentStream&) = delete;
    UrgentStream& operator=(const UrgentStream&) = delete;

    cudaStream_t get() const { return stream_; }

  private:
    cudaStream_t stream_ = nullptr;
};

}  // namespace spillway::cuda
