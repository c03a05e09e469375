// SPDX-License-Identifier: Apache-2.0
#include "addon/js_memory.hpp"

#include "base/error.hpp"

namespace spillway::addon {

JsMemory::JsMemory(const std::vector<Napi::Value>& uint8_arrays) {
    if (uint8_arrays.empty()) return;
    // One reference for all: a relation may have many thousand buffers.
    const auto arrays = Napi::Array::New(uint8_arrays.front().Env(), uint8_arrays.size());
    places_.reserve(uint8_arrays.size());
    for (uint32_t i = 0; i < uint8_arrays.size(); ++i) {
        const auto array = uint8_arrays[i].As<Napi::Uint8Array>();
        places_.push_back({array.Data(), array.ElementLength()});
        arrays.Set(i, array);
    }
    arrays_ = Napi::Persistent(arrays);
}

void JsMemory::check() const {
    if (places_.empty()) return;
    const Napi::HandleScope scope(arrays_.Env());
    const Napi::Array arrays = arrays_.Value();
    for (uint32_t i = 0; i < places_.size(); ++i) {
        const auto array = arrays.Get(i).As<Napi::Uint8Array>();
        if (array.ElementLength() == places_[i].length && array.Data() == places_[i].data) continue;
        throw Error(ErrorCode::kInvalidArgument,
                    "the memory of a record batch was transferred or resized after the relation was made from it; "
                    "keep the batches as they are until the relation is closed");
    }
}

}  // namespace spillway::addon
