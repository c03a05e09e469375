// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <cstdint>
#include <vector>

namespace spillway::addon {

// JS buffers that native code reads: kept from being collected as long as this lives. Made, checked and destroyed on
// the JS thread.
class JsMemory {
  public:
    JsMemory() = default;
    explicit JsMemory(const std::vector<Napi::Value>& uint8_arrays);

    // Throws kInvalidArgument when a buffer has been detached (transferred to a worker thread) or resized since: its
    // old address is no longer memory of this process's user. Checked when a stage starts; a transfer *during* a stage
    // is the one thing that cannot be seen.
    void check() const;

  private:
    struct Place {
        const uint8_t* data;
        size_t length;
    };
    Napi::Reference<Napi::Array> arrays_;
    std::vector<Place> places_;
};

}  // namespace spillway::addon
