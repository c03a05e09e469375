// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/js_memory.hpp"

#include <unordered_set>
#include <utility>

#include "base/error.hpp"

namespace spillway::addon {

JsMemory::JsMemory(const std::vector<Napi::Value>& uint8_arrays) {
    if (uint8_arrays.empty()) return;
    // One reference for all, and one view of each buffer: a relation may have many thousand views.
    const auto arrays = Napi::Array::New(uint8_arrays.front().Env());
    std::unordered_set<const uint8_t*> known;
    for (const Napi::Value& value : uint8_arrays) {
        const auto array = value.As<Napi::Uint8Array>();
        const uint8_t* const first = array.Data() - array.ByteOffset();  // byte of the buffer
        if (!known.insert(first).second) continue;
        arrays.Set(static_cast<uint32_t>(places_.size()), array);
        places_.push_back({array.Data(), array.ElementLength()});
        if (BackingStore store = backing_store_of(array.Buffer())) stores_.push_back(std::move(store));
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
                    "the memory of a record batch was transferred or resized after the relation was made from it (a "
                    "WebAssembly memory that grows transfers its buffer, too); keep the batches as they are while "
                    "queries read them");
    }
}

}  // namespace spillway::addon
