// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::test {

// The `allocation`-th operator new of this thread from now on throws std::bad_alloc, once; counted from 0.
class FailingNew {
  public:
    explicit FailingNew(int64_t allocation);
    ~FailingNew();
    FailingNew(const FailingNew&) = delete;
    FailingNew& operator=(const FailingNew&) = delete;

    bool failed() const;
};

}  // namespace spillway::test
