// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include "base/error.hpp"

namespace spillway::addon {

// The exception being handled as a spillway::Error. Call inside a catch block.
Error current_error();

// A JS Error with `code` (string) and `details` (object of strings); src/errors.ts turns it into a SpillwayError.
Napi::Error to_js_error(Napi::Env env, const Error& error);

using Call = Napi::Value (*)(const Napi::CallbackInfo&);

// Two ways out for a failed call: functions that return a value throw, functions that return a Promise always return
// one, so that a caller needs one place to handle errors.
Napi::Value throw_on_error(const Napi::CallbackInfo& info, Call call);
Napi::Value reject_on_error(const Napi::CallbackInfo& info, Call call);

template <Call call>
Napi::Value sync_call(const Napi::CallbackInfo& info) {
    return throw_on_error(info, call);
}
template <Call call>
Napi::Value async_call(const Napi::CallbackInfo& info) {
    return reject_on_error(info, call);
}

template <Call call>
void export_sync(Napi::Object exports, const char* name) {
    exports.Set(name, Napi::Function::New<sync_call<call>>(exports.Env(), name));
}
template <Call call>
void export_async(Napi::Object exports, const char* name) {
    exports.Set(name, Napi::Function::New<async_call<call>>(exports.Env(), name));
}

}  // namespace spillway::addon
