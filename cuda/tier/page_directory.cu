// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tier/page_directory.hpp"

namespace spillway::cuda { inline namespace tier {

void PageDirectory::update(const PageSource& source) {
    const uint64_t changes = source.changes();  // first: what comes in between is copied now and once more
    if (changes == changes_) return;
    const std::vector<uint8_t*> addresses = source.directory();
    const uint64_t bytes = addresses.size() * sizeof(uint8_t*);
    if (bytes > block_.bytes()) {
        // Doubled, as sources grow slab by slab.
        const uint64_t wanted_bytes = std::max(bytes, 2 * block_.bytes());
        block_ = device_.memory().allocate(wanted_bytes, "directory of pages");
    }
    if (bytes > 0) {
        // From pageable memory: the source is read before the call returns.
        SPILLWAY_CUDA_CHECK(
            cudaMemcpyAsync(block_.as<void>(), addresses.data(), bytes, cudaMemcpyHostToDevice, device_.stream()));
    }
    pages_ = addresses.size();
    changes_ = changes;
}

}}  // namespace spillway::cuda::tier
