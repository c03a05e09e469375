// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "device/device.hpp"
#include "out_of_core/out_of_core_policy.hpp"

namespace spillway::cuda {

// Small arrays on their way to kernels on the device's stream. A kernel fetches them from pinned memory: a copy would
// wait in the copy engine's queue behind a chunk of the input, for milliseconds.
class Parcels {
  public:
    explicit Parcels(Device& device, size_t slots = kParcelSlots) : device_(device), slots_(slots) {}
    // The host waits for what still reads or writes the blocks.
    ~Parcels();
    Parcels(const Parcels&) = delete;
    Parcels& operator=(const Parcels&) = delete;

    // In device memory; stays until as many further arrays have been sent as there are slots. nullptr for an empty one.
    template <class T>
    const T* send(const std::vector<T>& values) {
        static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);
        return static_cast<const T*>(send_bytes(values.data(), values.size() * sizeof(T)));
    }

  private:
    struct Slot {
        PinnedBlock host;
        Allocation device;
        Event fetched;
    };
    const void* send_bytes(const void* from, uint64_t bytes);

    Device& device_;
    std::vector<Slot> slots_;
    size_t next_ = 0;
};

}  // namespace spillway::cuda
