// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>

#include "addon/jobs/delivered_memory.hpp"
#include "addon/jobs/js_thread.hpp"
#include "executor/sinks/queue_sink.hpp"

namespace spillway::addon {

// Makes what JS is given of a batch.
using EncodeBatch = std::function<Napi::Value(Napi::Env, OutputBatch&&)>;

// The promises of nextBatch() on one queue: answered at once when a batch waits, else when the queue announces one.
// All methods on the JS thread.
class QueueDelivery : public std::enable_shared_from_this<QueueDelivery> {
  public:
    // untold: what V8 hears of a kept result when it is complete; nullptr where it hears of each batch.
    QueueDelivery(Napi::Env env, std::shared_ptr<JsThread> js_thread, EncodeBatch encode,
                  std::shared_ptr<DeliveredMemory> untold)
        : env_(env), js_thread_(std::move(js_thread)), encode_(std::move(encode)), untold_(std::move(untold)) {}

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
    const EncodeBatch encode_;
    const std::shared_ptr<DeliveredMemory> untold_;
    QueueSink* queue_ = nullptr;
    std::deque<Napi::Promise::Deferred> waiting_;
    // One wake-up on its way is enough for any number of announcements.
    std::shared_ptr<std::atomic<bool>> waking_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace spillway::addon
