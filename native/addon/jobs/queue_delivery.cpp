// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/queue_delivery.hpp"

#include <optional>
#include <utility>

#include "addon/jobs/addon_error.hpp"

namespace spillway::addon {

namespace {

class WakeTask : public JsTask {
  public:
    WakeTask(std::weak_ptr<QueueDelivery> delivery, std::shared_ptr<std::atomic<bool>> waking)
        : delivery_(std::move(delivery)), waking_(std::move(waking)) {}
    void run(Napi::Env env) override {
        waking_->store(false);  // before looking: what arrives from here on wakes again
        if (const auto delivery = delivery_.lock()) delivery->deliver(env);
    }

  private:
    std::weak_ptr<QueueDelivery> delivery_;
    std::shared_ptr<std::atomic<bool>> waking_;
};

}  // namespace

void QueueDelivery::attach(QueueSink& queue) {
    queue_ = &queue;
    queue.set_on_ready([js_thread = js_thread_, delivery = weak_from_this(), waking = waking_] {
        if (js_thread->is_current()) {
            if (const auto here = delivery.lock()) here->deliver(js_thread->env());
        } else if (!waking->exchange(true)) {
            js_thread->post(std::make_unique<WakeTask>(delivery, waking));
        }
    });
}

Napi::Value QueueDelivery::next(Napi::Env env) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    js_thread_->hold();
    waiting_.push_back(deferred);
    deliver(env);
    return deferred.Promise();
}

void QueueDelivery::deliver(Napi::Env env) {
    while (!waiting_.empty() && answer_first(env)) {
    }
}

bool QueueDelivery::answer_first(Napi::Env env) {
    // In this order: a batch may arrive between the two looks, but none after finished() was true.
    const bool finished = queue_->finished();
    std::optional<OutputBatch> batch = queue_->try_pop();
    if (!batch && !finished) return false;
    const Napi::HandleScope scope(env);
    const Napi::Promise::Deferred deferred = waiting_.front();
    waiting_.pop_front();
    js_thread_->release();
    if (!batch) tell(env);
    try {
        deferred.Resolve(batch ? encode_(env, std::move(*batch)) : env.Null());
    } catch (const Napi::Error& error) {
        deferred.Reject(error.Value());
    } catch (...) {
        deferred.Reject(to_js_error(env, current_error()).Value());
    }
    return true;
}

void QueueDelivery::tell(Napi::Env env) const {
    if (untold_) untold_->tell(env);
}

void QueueDelivery::abandon(Napi::Env env) {
    queue_->abandon();
    tell(env);
    deliver(env);
}

void QueueDelivery::detach() noexcept {
    queue_ = nullptr;
    tell(env_);
    for (size_t i = 0; i < waiting_.size(); ++i) js_thread_->release();
    waiting_.clear();
}

}  // namespace spillway::addon
