// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/addon_error.hpp"

#include <new>

namespace spillway::addon {

Error current_error() {
    try {
        throw;
    } catch (const Error& error) {
        return error;
    } catch (const std::bad_alloc&) {
        return Error(ErrorCode::kOutOfMemory,
                     "the system gave no more memory although the budget allowed it; lower the option 'memory.host' "
                     "or end other processes",
                     {{"tier", "host"}, {"option", "memory.host"}});
    } catch (const std::exception& error) {
        return Error(ErrorCode::kInternal, std::string("unexpected failure: ") + error.what() +
                                               "; please report this with the command that led here");
    } catch (...) {
        return Error(ErrorCode::kInternal,
                     "unexpected failure of unknown kind; please report this with the command that led here");
    }
}

Napi::Error to_js_error(Napi::Env env, const Error& error) {
    Napi::Error js_error = Napi::Error::New(env, error.message());
    Napi::Object value = js_error.Value();
    value.Set("code", Napi::String::New(env, error_code_name(error.code())));
    Napi::Object details = Napi::Object::New(env);
    for (const auto& [name, text] : error.details()) details.Set(name, Napi::String::New(env, text));
    value.Set("details", details);
    return js_error;
}

Napi::Value throw_on_error(const Napi::CallbackInfo& info, Call call) {
    try {
        return call(info);
    } catch (const Napi::Error&) {
        throw;  // already a JS error (a getter of the caller's object threw, or the isolate is terminating)
    } catch (...) {
        throw to_js_error(info.Env(), current_error());
    }
}

Napi::Value reject_on_error(const Napi::CallbackInfo& info, Call call) {
    const auto rejected = [&info](const Napi::Error& error) -> Napi::Value {
        const auto deferred = Napi::Promise::Deferred::New(info.Env());
        deferred.Reject(error.Value());
        return deferred.Promise();
    };
    try {
        return call(info);
    } catch (const Napi::Error& error) {
        return rejected(error);
    } catch (...) {
        return rejected(to_js_error(info.Env(), current_error()));
    }
}

}  // namespace spillway::addon
