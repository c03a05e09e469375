// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace spillway::test {

// While one is alive, the system calls of these names fail as they do on some file systems or under some policies.
// And what other threads do meanwhile, such as to abort the job, can be timed by them.
struct FailingCalls {
    int linkat = 0;  // error number; 0: as ever
    int renameat2 = 0;
    int unlink = 0;
    int pwritev = 0;
    int pwritev_times = 1;  // so often it fails, and then works again
    int fchmod = 0;
    std::atomic<bool>* pwritten = nullptr;  // set by each pwritev that works
};

class WithFailingCalls {
  public:
    explicit WithFailingCalls(const FailingCalls& calls);
    ~WithFailingCalls();
    WithFailingCalls(const WithFailingCalls&) = delete;
    WithFailingCalls& operator=(const WithFailingCalls&) = delete;
};

}  // namespace spillway::test
