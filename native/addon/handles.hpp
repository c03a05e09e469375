// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>
#include <string>

#include "base/error.hpp"

namespace spillway::addon {

// What JS holds: a Napi::External with a type tag, so that a handle of another kind (or of another copy of the addon)
// is an error and not a wild pointer. Closing empties the box; running jobs keep their own shared pointer.
template <class T>
struct Box {
    std::shared_ptr<T> value;
};

// Specialized per kind in handle_types.hpp: NAME ("Source"), for messages, and NUMBER, unique.
template <class T>
struct HandleKind;

napi_type_tag type_tag(uint64_t kind_number);

template <class T>
Napi::Value make_handle(Napi::Env env, std::shared_ptr<T> value) {
    auto box = std::make_unique<Box<T>>(Box<T>{std::move(value)});
    auto external = Napi::External<Box<T>>::New(env, box.get(), [](Napi::BasicEnv, Box<T>* last) { delete last; });
    box.release();
    const napi_type_tag tag = type_tag(HandleKind<T>::NUMBER);
    external.TypeTag(&tag);
    return external;
}

template <class T>
Box<T>& box_of(const Napi::Value& value) {
    const napi_type_tag tag = type_tag(HandleKind<T>::NUMBER);
    if (value.IsExternal()) {
        auto external = value.As<Napi::External<Box<T>>>();
        if (external.CheckTypeTag(&tag)) return *external.Data();
    }
    throw Error(ErrorCode::kInvalidArgument,
                std::string("expected a ") + HandleKind<T>::NAME + " handle made by this addon",
                {{"handle", HandleKind<T>::NAME}});
}

template <class T>
std::shared_ptr<T> get_handle(const Napi::Value& value) {
    const auto& box = box_of<T>(value);
    if (box.value == nullptr) {
        throw Error(ErrorCode::kClosed, std::string("the ") + HandleKind<T>::NAME + " was closed",
                    {{"handle", HandleKind<T>::NAME}});
    }
    return box.value;
}

// Closing twice is allowed.
template <class T>
void close_handle(const Napi::Value& value) {
    box_of<T>(value).value.reset();
}

}  // namespace spillway::addon
