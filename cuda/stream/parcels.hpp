// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

// Small arrays on their way to kernels on the device's stream. A kernel fetches them from pinned memory: a copy would
// wait in the copy engine's queue behind a chunk of the input, for milliseconds.
class Parcels {
  public:
    explicit Parcels(Device& device, size_t slots = kParcelSlots) : device_(device), slots_(slots) {}
    // The host waits for what still reads or writes the blocks.
    ~Parcels();
    Parcels(const Parcels&) = delete;
    Parcels& operator=(const Parcels&) = delete;

    // In device memory; stays until as many further parcels have been sent as there are slots. nullptr for an empty
    // one.
    template <class T>
    const T* send(const std::vector<T>& values) {
        return std::get<0>(send_together(values));
    }
    // Several arrays in one parcel. Each parcel is a kernel of some 3 us that the next one waits for.
    template <class... T>
    std::tuple<const T*...> send_together(const std::vector<T>&... values) {
        static_assert(((std::is_trivially_copyable_v<T> && alignof(T) <= kParcelAlignBytes) && ...));
        const std::array<Part, sizeof...(T)> parts = {Part{values.data(), values.size() * sizeof(T)}...};
        std::array<const void*, sizeof...(T)> sent{};
        send_parts(parts.data(), parts.size(), sent.data());
        return typed<T...>(sent, std::index_sequence_for<T...>());
    }

  private:
    struct Part {
        const void* from;
        uint64_t bytes;
    };
    struct Slot {
        PinnedBlock host;
        Allocation device;
        Event fetched;
    };
    template <class... T, size_t... at>
    static std::tuple<const T*...> typed(const std::array<const void*, sizeof...(T)>& sent,
                                         std::index_sequence<at...>) {
        return {static_cast<const T*>(sent[at])...};
    }
    void send_parts(const Part* parts, size_t count, const void** sent);

    Device& device_;
    std::vector<Slot> slots_;
    size_t next_ = 0;
};

}}  // namespace spillway::cuda::stream
