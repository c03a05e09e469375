// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>
#include <mutex>
#include <thread>

namespace spillway::addon {

// Something to run on the JS thread. When it cannot be posted any more it dies on the posting thread, so a task owns
// nothing but weak pointers: what belongs to JS values must be freed on the JS thread.
class JsTask {
  public:
    virtual ~JsTask() = default;
    virtual void run(Napi::Env env) = 0;
};

// The way from any thread to the JS thread of one environment: one thread-safe function for all jobs of it.
// Lifetime: the function is unreferenced unless somebody waits (hold / release), so an idle runtime does not keep the
// process alive and a pending promise does. After close() nothing is posted any more; the environment frees the
// thread-safe function by itself, and releasing it during teardown would race with that.
class JsThread {
  public:
    explicit JsThread(Napi::Env env);

    // Any thread; never blocks. After close() the task is dropped: whoever closes joins the job threads himself.
    void post(std::unique_ptr<JsTask> task);

    // JS thread: one more / one less promise pending.
    void hold();
    void release();
    // JS thread, when the environment ends.
    void close();
    bool closed() const { return closed_; }
    bool is_current() const { return std::this_thread::get_id() == thread_; }  // may be asked on any thread
    Napi::Env env() const { return env_; }

  private:
    static void call_js(napi_env env, napi_value function, void* context, void* data);

    const std::thread::id thread_ = std::this_thread::get_id();
    Napi::Env env_;
    napi_threadsafe_function function_ = nullptr;
    std::mutex mutex_;  // between post() and close()
    bool closed_ = false;
    int64_t holds_ = 0;
};

}  // namespace spillway::addon
