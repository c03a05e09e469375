// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "device/device.hpp"
#include "gpu_test.hpp"

// An operation whose allocations of GPU memory (or pinned memory) fail, one in each run.
namespace spillway::gpu_test {

// Makes an allocation fail, and takes that back however the run ends.
class InjectedFault {
  public:
    InjectedFault(cuda::BlockPool& memory, uint64_t allocation) : memory_(memory) { memory.fail_after(allocation); }
    InjectedFault(const InjectedFault&) = delete;
    InjectedFault& operator=(const InjectedFault&) = delete;
    ~InjectedFault() { memory_.fail_after(0); }

  private:
    cuda::BlockPool& memory_;
};

constexpr char kProbe[] = "what a run has left of a fault";

// How many allocations there are before an injected fault; most + 1: there is none, or it is farther away.
inline uint64_t allocations_before_fault(cuda::BlockPool& memory, uint64_t most) {
    for (uint64_t before = 0; before <= most; ++before) {
        try {
            memory.allocate(1, kProbe);
        } catch (const cuda::Error& error) {
            CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
            return before;
        }
    }
    return most + 1;
}

// Allocations of a run: by how many a fault far behind them has come nearer.
template <class Run>
uint64_t allocations_of(cuda::BlockPool& memory, const Run& run) {
    constexpr uint64_t kFar = 1024;
    const InjectedFault fault(memory, kFar);
    run();
    const uint64_t left = allocations_before_fault(memory, kFar);
    CHECK(left < kFar);
    return kFar - 1 - left;
}

// Runs with the n-th allocation failing. False: the run made fewer of them, and met no fault. A run that meets it must
// end with an error that says so.
template <class Compute>
bool fails_at(cuda::BlockPool& memory, uint64_t n, const Compute& compute, const std::string& place,
              cuda::Tier tier = cuda::Tier::kDevice) {
    const InjectedFault fault(memory, n);
    try {
        compute();
    } catch (const cuda::Error& error) {
        const bool is_injected = std::string(error.what()).find("a fault was injected") != std::string::npos;
        if (error.code() == cuda::ErrorCode::kOutOfMemory && error.tier == tier && is_injected) {
            return true;
        }
        fail(place + " ended with: " + error.what(), __FILE__, __LINE__);
    }
    if (allocations_before_fault(memory, n) > n) fail(place + " was refused and no error said so", __FILE__, __LINE__);
    return false;
}

struct FailingRuns {
    uint64_t in_small_suite = 10;  // as many of the allocations, evenly spread, from a place that the seed chooses
    uint64_t good_run_every = 16;  // after so many failing runs one without a fault
};

// compute() gives the result, check(result) compares it. Every allocation of compute() fails in a run of its own: it
// must say so, leave no memory behind and do no harm to the runs that follow. Returns the number of allocations.
template <class Compute, class Check>
uint64_t check_failing_allocations(const std::string& what, const Compute& compute, const Check& check,
                                   const FailingRuns& runs = {}) {
    cuda::MemoryPool& memory = test_device().memory();
    const uint64_t used_bytes = memory.used_bytes();
    const uint64_t blocks = memory.blocks();
    const auto good_run = [&] { check(compute()); };
    const uint64_t allocations = allocations_of(memory, good_run);
    const uint64_t step = full_suite() ? 1 : allocations / runs.in_small_suite + 1;
    uint64_t failures = 0;
    for (uint64_t n = 1 + test_seed() % step; n <= allocations; n += step) {
        const std::string place = what + ", allocation " + std::to_string(n) + " of " + std::to_string(allocations);
        if (fails_at(memory, n, compute, place)) {
            ++failures;
        } else if (n <= allocations / 2) {
            // Which warp was first may save the closing of holes, or a second try: no more than that.
            fail(place + " did not come about", __FILE__, __LINE__);
        }
        if (memory.used_bytes() != used_bytes || memory.blocks() != blocks) {
            fail(place + ": memory was not given back", __FILE__, __LINE__);
        }
        if (full_suite() && failures % runs.good_run_every == 0) good_run();
    }
    good_run();
    CHECK_EQ(memory.used_bytes(), used_bytes);
    CHECK_EQ(memory.blocks(), blocks);
    return allocations;
}

}  // namespace spillway::gpu_test
