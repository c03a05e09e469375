// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <cstdint>
#include <vector>

#include "addon/jobs/backing_store.hpp"

namespace spillway::addon {

// JS buffers that native code reads: as long as this lives they are kept from being collected, and their memory from
// being given back when they are transferred. Made, checked and destroyed on the JS thread.
class JsMemory {
  public:
    JsMemory() = default;
    explicit JsMemory(const std::vector<Napi::Value>& uint8_arrays);

    // Throws kInvalidArgument when a buffer has been detached (transferred, to a worker thread for instance) or resized
    // since: its memory, though still there, is another one's to write to. Checked when a stage starts, and by the
    // caller when a query ends.
    void check() const;

  private:
    struct Place {
        const uint8_t* data;
        size_t length;
    };
    Napi::Reference<Napi::Array> arrays_;
    std::vector<Place> places_;
    std::vector<BackingStore> stores_;  // one for each buffer
};

}  // namespace spillway::addon
