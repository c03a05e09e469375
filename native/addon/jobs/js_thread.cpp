// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/js_thread.hpp"

#include "base/error.hpp"

namespace spillway::addon {

void JsThread::call_js(napi_env env, napi_value, void*, void* data) {
    const std::unique_ptr<JsTask> task(static_cast<JsTask*>(data));
    if (env == nullptr) return;  // the environment is gone; the task is only destroyed
    try {
        task->run(Napi::Env(env));
    } catch (...) {
        // Tasks deliver their errors to a promise. What still arrives here means that JS cannot run any more (a worker
        // is being terminated): there is nobody left to tell, and an exception must not cross the C boundary.
    }
}

JsThread::JsThread(Napi::Env env) : env_(env) {
    // Queue size 0 = unbounded: post() never blocks, so joining a job thread from the JS thread cannot deadlock.
    const napi_status status =
        napi_create_threadsafe_function(env, nullptr, nullptr, Napi::String::New(env, "spillway"), 0, 1, nullptr,
                                        nullptr, nullptr, call_js, &function_);
    if (status != napi_ok) throw Error(ErrorCode::kInternal, "could not create a thread-safe function");
    napi_unref_threadsafe_function(env, function_);
}

void JsThread::post(std::unique_ptr<JsTask> task) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    if (napi_call_threadsafe_function(function_, task.get(), napi_tsfn_nonblocking) == napi_ok) task.release();
}

void JsThread::hold() {
    if (holds_++ == 0 && !closed_) napi_ref_threadsafe_function(env_, function_);
}

void JsThread::release() {
    if (--holds_ == 0 && !closed_) napi_unref_threadsafe_function(env_, function_);
}

void JsThread::close() {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    // Promises that are pending now stay so for ever; they must not keep the process alive.
    if (holds_ > 0) napi_unref_threadsafe_function(env_, function_);
}

}  // namespace spillway::addon
