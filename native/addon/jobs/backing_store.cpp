// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/backing_store.hpp"

#include <dlfcn.h>

#include <cstddef>

namespace spillway::addon {

namespace {

// In the C++ ABI of all platforms here a member function takes `this` as its first argument, and a napi_value is the
// pointer that V8's handles consist of (v8impl::V8LocalValueFromJsValue).
struct V8Calls {
    // v8::ArrayBuffer::GetBackingStore, which returns std::shared_ptr<v8::BackingStore>.
    BackingStore (*backing_store)(void* buffer);
    void* (*data)(const void* store);
    size_t (*byte_length)(const void* store);
};

template <class Call>
bool find(const char* name, Call& call) {
    call = reinterpret_cast<Call>(::dlsym(RTLD_DEFAULT, name));
    return call != nullptr;
}

V8Calls find_calls() {
    V8Calls calls{};
    // The last name is there only where V8's std::shared_ptr is that of this library: other standard libraries mangle
    // theirs with a namespace of their own, and V8 could not be given back what it counts.
    void* same_library = nullptr;
    const bool found = find("_ZN2v811ArrayBuffer15GetBackingStoreEv", calls.backing_store) &&
                       find("_ZNK2v812BackingStore4DataEv", calls.data) &&
                       find("_ZNK2v812BackingStore10ByteLengthEv", calls.byte_length) &&
                       find("_ZN2v811ArrayBuffer3NewEPNS_7IsolateESt10shared_ptrINS_12BackingStoreEE", same_library);
    return found ? calls : V8Calls{};
}

const V8Calls& v8_calls() {
    static const V8Calls calls = find_calls();
    return calls;
}

BackingStore ask(const Napi::ArrayBuffer& buffer) {
    napi_value value = buffer;
    return v8_calls().backing_store(value);
}

}  // namespace

MemoryKept memory_kept(Napi::Env env) {
    const V8Calls& calls = v8_calls();
    if (calls.backing_store == nullptr) return MemoryKept::kNever;
    const Napi::HandleScope scope(env);
    constexpr size_t kBytes = 64;
    auto buffer = Napi::ArrayBuffer::New(env, kBytes);
    const BackingStore store = ask(buffer);
    const bool same = store && calls.data(store.get()) == buffer.Data() && calls.byte_length(store.get()) == kBytes;
    if (!same) return MemoryKept::kNever;
    const Napi::Value transfer = buffer.Get("transfer");  // not in Node 20
    if (!transfer.IsFunction()) return MemoryKept::kAlways;
    transfer.As<Napi::Function>().Call(buffer, {Napi::Number::New(env, 2 * kBytes)});
    return calls.byte_length(store.get()) == kBytes ? MemoryKept::kAlways : MemoryKept::kUnlessResized;
}

BackingStore backing_store_of(const Napi::Value& buffer) {
    if (v8_calls().backing_store == nullptr || !buffer.IsArrayBuffer()) return nullptr;
    return ask(buffer.As<Napi::ArrayBuffer>());
}

}  // namespace spillway::addon
