// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace spillway::cuda { inline namespace stream {

// What counts for how many partitions are worked on together: rows, pages, their number, whatever a user limits.
constexpr size_t kGroupWeights = 3;
using GroupWeights = std::array<uint64_t, kGroupWeights>;

struct PartitionGroup {
    std::vector<uint64_t> partitions;  // in ascending order
    GroupWeights weights{};            // of all of them
    bool alone = false;                // of one partition that was too large for company
};

// Groups neighbouring partitions: as many as have no more of any weight than the limits. What comes back of a run of
// spilled rows is one copy per group then.
class PartitionGroups {
  public:
    explicit PartitionGroups(const GroupWeights& limits) : limits_(limits) {}

    // Partitions in ascending order. One that exceeds a limit by itself is a group of its own.
    void add(uint64_t partition, const GroupWeights& weights) {
        for (size_t i = 0; i < kGroupWeights; ++i) {
            if (open_.weights[i] + weights[i] <= limits_[i]) continue;
            close();
            break;
        }
        open_.partitions.push_back(partition);
        for (size_t i = 0; i < kGroupWeights; ++i) open_.weights[i] += weights[i];
    }
    void add_alone(uint64_t partition, const GroupWeights& weights) {
        close();
        groups_.push_back({{partition}, weights, true});
    }
    std::vector<PartitionGroup> finish() {
        close();
        return std::move(groups_);
    }

  private:
    void close() {
        if (!open_.partitions.empty()) groups_.push_back(std::move(open_));
        open_ = {};
    }

    const GroupWeights limits_;
    PartitionGroup open_;
    std::vector<PartitionGroup> groups_;
};

}}  // namespace spillway::cuda::stream
