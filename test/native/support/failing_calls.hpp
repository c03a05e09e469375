// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace spillway::test {

// While one is alive, the system calls of these names fail as they do on some file systems or under some policies.
struct FailingCalls {
    int linkat = 0;  // error number; 0: as ever
    int renameat2 = 0;
    int unlink = 0;
    int pwritev = 0;
    int pwritev_times = 1;  // so often it fails, and then works again
    int fchmod = 0;
};

class WithFailingCalls {
  public:
    explicit WithFailingCalls(const FailingCalls& calls);
    ~WithFailingCalls();
    WithFailingCalls(const WithFailingCalls&) = delete;
    WithFailingCalls& operator=(const WithFailingCalls&) = delete;
};

}  // namespace spillway::test
