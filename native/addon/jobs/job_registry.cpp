// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/job_registry.hpp"

#include <chrono>
#include <exception>

#include "addon/jobs/engine.hpp"
#include "base/heap.hpp"

namespace spillway::addon {

namespace {

struct AddonData {
    std::shared_ptr<JobRegistry> registry;
};

// A look at the process' memory reads a file of the system's, which takes longer than to free a small object, and wakes
// a thread, for which the JS thread may have to leave its core: 25 us of each of many small queries.
constexpr uint64_t kFreedBetweenLooks = 64;
constexpr std::chrono::milliseconds kLookPause{20};

void end_environment(void* data) {
    static_cast<JobRegistry*>(data)->shutdown();
}

}  // namespace

void JobRegistry::start(const std::shared_ptr<StageJob>& job) {
    if (ended_) throw Error(ErrorCode::kClosed, "the process (or worker thread) is ending: no job can start any more");
    jobs_.push_back(job);
    try {
        job->start();
    } catch (...) {
        jobs_.pop_back();
        throw;
    }
}

void JobRegistry::remove(const StageJob* job) {
    jobs_.remove_if([job](const std::shared_ptr<StageJob>& other) { return other.get() == job; });
}

void JobRegistry::dispose(std::unique_ptr<Disposable> object) {
    const std::shared_ptr<Disposable> shared(std::move(object));
    const bool at_once = shared->frees_at_once();
    shared->before_free();
    if (ended_) return;  // freed here and now
    if (at_once) {
        shared->free_memory();
        shared->close_files();
        if (++freed_at_once_ % kFreedBetweenLooks != 0) return;
        const auto now = std::chrono::steady_clock::now();
        if (now < next_look_) return;
        next_look_ = now + kLookPause;
        run_in_background([engine = shared->engine] { give_back_free_memory_near(engine->budget.limit()); });
        return;
    }
    shared->engine->disposal_begins();
    run_in_background([shared] {
        shared->free_memory();
        shared->engine->memory_disposed();
        shared->close_files();
        shared->engine->disposal_ended();
        shared->tidy_up();
        give_back_free_memory_near(shared->engine->budget.limit());
    });
}

void JobRegistry::run_in_background(std::function<void()> work) {
    const auto stage = [work]() -> Encode {
        work();
        return {};
    };
    try {
        start(std::make_shared<StageJob>(shared_from_this(), nullptr, stage));
    } catch (const std::exception&) {
        work();
    }
}

void JobRegistry::shutdown() {
    if (ended_) return;
    ended_ = true;
    js_thread_->close();
    for (const auto& job : jobs_) job->cancel();
    // The jobs' captures may be the last owners of other objects; those are freed at once now that ended_ is set.
    for (const auto& job : jobs_) job->join();
    jobs_.clear();
    block_disposer_->shutdown();
    number_slab_.reset();
    threads_.reset();
}

const std::shared_ptr<JobRegistry>& registry_of(Napi::Env env) {
    return env.GetInstanceData<AddonData>()->registry;
}

void init_registry(Napi::Env env) {
    auto* data = new AddonData{std::make_shared<JobRegistry>(env)};
    env.SetInstanceData(data);
    // Hooks run last in, first out: this one comes after the thread-safe function's own hook (registered by the
    // registry's constructor) and therefore before it; job threads never see a function that was freed.
    napi_add_env_cleanup_hook(env, end_environment, data->registry.get());
}

}  // namespace spillway::addon
