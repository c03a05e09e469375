// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/stage_job.hpp"

#include <exception>

#include "addon/jobs/engine.hpp"
#include "addon/jobs/job_registry.hpp"
#include "base/thread_cache.hpp"

namespace spillway::addon {

namespace {

class CompleteTask : public JsTask {
  public:
    explicit CompleteTask(std::weak_ptr<StageJob> job) : job_(std::move(job)) {}
    void run(Napi::Env env) override {
        if (const auto job = job_.lock()) job->complete(env);
    }

  private:
    std::weak_ptr<StageJob> job_;
};

}  // namespace

StageJob::StageJob(std::shared_ptr<JobRegistry> registry, std::shared_ptr<Job> job, Work work, StageMemory memory)
    : registry_(std::move(registry)), job_(std::move(job)), work_(std::move(work)), memory_(memory) {}

StageJob::~StageJob() {
    if (done_.valid()) done_.wait();
}

Napi::Promise StageJob::promise(Napi::Env env) {
    deferred_.emplace(Napi::Promise::Deferred::New(env));
    return deferred_->Promise();
}

void StageJob::start() {
    try {
        done_ = ThreadCache::instance().run([this] { run(); });
    } catch (const std::exception& error) {
        throw Error(ErrorCode::kOutOfMemory, std::string("could not start the thread of a job: ") + error.what() +
                                                 "; run fewer jobs at once or raise the process limit");
    }
}

void StageJob::cancel() const {
    if (job_) job_->cancel();
}

void StageJob::work() noexcept {
    try {
        if (job_) {
            if (memory_ == StageMemory::kFromBudget) job_->engine->wait_for_memory();
            job_->control.check();
        }
        encode_ = work_();
    } catch (...) {
        error_ = current_error();
    }
}

void StageJob::run_here(Napi::Env env) {
    job_->stage_begins();
    work();
    job_->stage_ended();
    settle(env);
}

void StageJob::run() noexcept {
    work();
    // weak_from_this: nothing that this thread drops may be the last owner of the job (see JsTask).
    registry_->js_thread()->post(std::make_unique<CompleteTask>(weak_from_this()));
}

void StageJob::settle(Napi::Env env) {
    if (!deferred_) return;
    if (error_) {
        work_ = nullptr;
        deferred_->Reject(to_js_error(env, *error_).Value());
        return;
    }
    try {
        const Napi::Value value = encode_(env);
        // Before the promise settles: what runs next may use the same handles again.
        encode_ = nullptr;
        work_ = nullptr;
        deferred_->Resolve(value);
    } catch (const Napi::Error& error) {
        deferred_->Reject(error.Value());
    } catch (...) {
        deferred_->Reject(to_js_error(env, current_error()).Value());
    }
}

void StageJob::complete(Napi::Env env) {
    const auto self = shared_from_this();
    done_.wait();  // the last act of its thread was to post this completion
    registry_->remove(this);
    if (job_) {
        job_->stage_ended();
        if (job_->waited_for()) registry_->js_thread()->release();
    }
    settle(env);
    encode_ = nullptr;
    work_ = nullptr;
}

void StageJob::join() {
    if (done_.valid()) done_.wait();
    encode_ = nullptr;
    work_ = nullptr;
}

Napi::Value start_stage(Napi::Env env, const std::shared_ptr<Job>& job, Work work, StageMemory memory) {
    const auto& registry = registry_of(env);
    const auto stage = std::make_shared<StageJob>(registry, job, std::move(work), memory);
    const Napi::Promise promise = stage->promise(env);
    if (memory == StageMemory::kFromBudget && job->runs_here() && !registry->ended()) {
        stage->run_here(env);
        return promise;
    }
    registry->start(stage);
    job->stage_begins();
    if (job->waited_for()) registry->js_thread()->hold();
    return promise;
}

Napi::Value start_stage_or_run(Napi::Env env, const std::shared_ptr<Job>& job, Work work) {
    try {
        return start_stage(env, job, work, StageMemory::kNone);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kOutOfMemory) throw;
    }
    const auto stage = std::make_shared<StageJob>(registry_of(env), job, std::move(work));
    const Napi::Promise promise = stage->promise(env);
    stage->run_here(env);
    return promise;
}

Napi::Value resolved(Napi::Env env, const Napi::Value& value) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    deferred.Resolve(value);
    return deferred.Promise();
}

Napi::Value undefined_result(Napi::Env env) {
    return env.Undefined();
}

}  // namespace spillway::addon
