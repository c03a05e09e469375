// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/tables/slot_words.cuh"

namespace spillway::cuda { inline namespace grouping {

// Memory of the table of groups in GPU memory, empty. Enqueued on the device's stream.
class GlobalTable {
  public:
    // Sets keys, words, slots and entries of `groups`; what was there before goes.
    void make(Device& device, uint32_t key_bytes, uint32_t words, uint64_t slots, GlobalGroups& groups) {
        keys_.reset();
        words_.reset();
        groups.slots = slots;
        groups.entries = (slots + 2) & ~1ULL;
        const uint64_t keys_bytes = groups.entries * key_bytes;
        const uint64_t words_bytes = groups.entries * 4 * words;
        keys_ = device.memory().allocate(keys_bytes, "table of groups");
        words_ = device.memory().allocate(words_bytes, "table of groups");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(keys_.as(), 0xff, keys_bytes, device.stream()));
        if (words_bytes > 0) SPILLWAY_CUDA_CHECK(cudaMemsetAsync(words_.as(), 0, words_bytes, device.stream()));
        groups.keys = keys_.as();
        groups.words = words_.as<uint32_t>();
    }

  private:
    Allocation keys_;
    Allocation words_;
};

// Appends the groups of the table in GPU memory to the result.
void emit_groups(Device& device, uint32_t key_words, const GlobalGroups& groups, const GroupSink& sink);

}}  // namespace spillway::cuda::grouping
