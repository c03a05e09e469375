// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <atomic>
#include <deque>
#include <memory>

#include "addon/encode.hpp"
#include "addon/js_thread.hpp"
#include "executor/sinks/queue_sink.hpp"

namespace spillway::addon {

// The promises of nextBatch() on one queue: answered at once when a batch waits, else when the queue announces one.
// All methods on the JS thread.
class QueueDelivery : public std::enable_shared_from_this<QueueDelivery> {
  public:
    QueueDelivery(Napi::Env env, std::shared_ptr<JsThread> js_thread, BatchTarget target)
        : env_(env), js_thread_(std::move(js_thread)), target_(std::move(target)) {}

    void attach(QueueSink& queue);
    Napi::Value next(Napi::Env env);
    // Answers what can be answered: a batch each, or null to everybody when the stream has ended.
    void deliver(Napi::Env env);
    // The consumer stops: everybody who waits gets null.
    void abandon(Napi::Env env);
    // The queue goes. Promises nobody can answer any more (the handle was collected before a stage began) stay
    // pending, but no longer keep the process alive.
    void detach() noexcept;

  private:
    bool answer_first(Napi::Env env);
    // A kept result is complete, or nobody waits for the rest.
    void tell(Napi::Env env) const;

    Napi::Env env_;
    std::shared_ptr<JsThread> js_thread_;
    BatchTarget target_;
    QueueSink* queue_ = nullptr;
    std::deque<Napi::Promise::Deferred> waiting_;
    // One wake-up on its way is enough for any number of announcements.
    std::shared_ptr<std::atomic<bool>> waking_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace spillway::addon
