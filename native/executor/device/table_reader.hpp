// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "base/job_control.hpp"
#include "device/gpu_table.hpp"
#include "executor/device/staging.hpp"
#include "memory/buffer.hpp"

namespace spillway {

// One worker's way to read a table.
class TableReader {
  public:
    TableReader(const GpuTable& table, StagingMemory& memory, const JobControl& control, uint64_t half_bytes)
        : table_(table), control_(control), budget_(memory.budget()), staging_(memory, half_bytes) {}

    // Copies a range to host memory, where later reads inside it find it: for many small ones.
    void hold(size_t column, GpuPart part, uint64_t offset_bytes, uint64_t bytes) {
        Held& held = held_[{column, part}];
        held.bytes = 0;
        if (held.memory.capacity() < bytes) held.memory = Buffer::allocate(budget_, bytes, "rows of result batches");
        copy(column, part, offset_bytes, bytes, held.memory.data());
        held.offset_bytes = offset_bytes;
        held.bytes = bytes;
    }

    // Calls use(bytes, count) for consecutive pieces of the range, each while the next one is being copied.
    template <class Use>
    void read(size_t column, GpuPart part, uint64_t offset_bytes, uint64_t bytes, Use use) {
        if (const uint8_t* const held = find_held(column, part, offset_bytes, bytes)) return use(held, bytes);
        size_t half = 0;
        uint64_t sent = 0;
        GpuTransfer transfer = begin(column, part, offset_bytes, bytes, sent, half);
        for (uint64_t done = 0; done < bytes;) {
            const uint64_t count = sent - done;
            const uint8_t* const piece = staging_.half(half);
            half = 1 - half;
            GpuTransfer next = begin(column, part, offset_bytes, bytes, sent, half);
            transfer.wait();
            use(piece, count);
            done += count;
            transfer = std::move(next);
        }
    }

    void copy(size_t column, GpuPart part, uint64_t offset_bytes, uint64_t bytes, uint8_t* to) {
        read(column, part, offset_bytes, bytes, [&to](const uint8_t* from, uint64_t count) {
            std::memcpy(to, from, count);
            to += count;
        });
    }

  private:
    struct Held {
        uint64_t offset_bytes = 0;
        uint64_t bytes = 0;
        Buffer memory;
    };
    const uint8_t* find_held(size_t column, GpuPart part, uint64_t offset_bytes, uint64_t bytes) const {
        if (bytes == 0) return nullptr;
        const auto found = held_.find({column, part});
        if (found == held_.end()) return nullptr;
        const Held& held = found->second;
        if (offset_bytes < held.offset_bytes) return nullptr;
        const uint64_t at = offset_bytes - held.offset_bytes;
        return at <= held.bytes && bytes <= held.bytes - at ? held.memory.data() + at : nullptr;
    }
    GpuTransfer begin(size_t column, GpuPart part, uint64_t offset_bytes, uint64_t bytes, uint64_t& sent, size_t half) {
        const uint64_t count = std::min(staging_.half_bytes(), bytes - sent);
        if (count == 0) return {};
        const uint64_t from = offset_bytes + sent;
        sent += count;
        return device_call(control_, [&] { return table_.read(staging_.half(half), column, part, from, count); });
    }

    const GpuTable& table_;
    const JobControl& control_;
    MemoryBudget& budget_;
    DeviceStaging staging_;
    std::map<std::pair<size_t, GpuPart>, Held> held_;
};

}  // namespace spillway
