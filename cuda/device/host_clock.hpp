// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace spillway::cuda { inline namespace device {

// Time on the host since it was made.
class HostClock {
  public:
    double passed_ms() const {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
    }

  private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}}  // namespace spillway::cuda::device
