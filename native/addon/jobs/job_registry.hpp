// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "addon/jobs/block_disposer.hpp"
#include "addon/jobs/delivered_memory.hpp"
#include "addon/jobs/js_thread.hpp"
#include "addon/jobs/number_slab.hpp"
#include "addon/jobs/stage_job.hpp"
#include "base/thread_cache.hpp"

namespace spillway::addon {

struct Engine;

// A native object behind a handle whose memory takes long to give back (unmapping runs at about 10 GB/s).
struct Disposable {
    explicit Disposable(std::shared_ptr<Engine> of_engine) : engine(std::move(of_engine)) {}
    virtual ~Disposable() = default;
    // JS thread, before all that follows: is there so little to free that another thread for it would take longer?
    virtual bool frees_at_once() const noexcept { return false; }
    // JS thread, just before free_memory().
    virtual void before_free() noexcept {}
    // Any thread, once, when nobody uses the object any more. What refers to JS values stays for the destructor.
    virtual void free_memory() noexcept = 0;
    // Right after it: files may take the system long to free, and no stage waits for them.
    virtual void close_files() noexcept {}
    // After both, when nobody waits for the object any more.
    virtual void tidy_up() noexcept {}

    const std::shared_ptr<Engine> engine;
};

// Running jobs of one environment (main thread or one worker_thread); there is no state outside of it. All methods run
// on the JS thread. Handles and jobs share it, because finalizers of handles may run after the environment's data.
class JobRegistry : public std::enable_shared_from_this<JobRegistry> {
  public:
    explicit JobRegistry(Napi::Env env)
        : js_thread_(std::make_shared<JsThread>(env)), delivered_memory_(std::make_shared<DeliveredMemory>(env)) {}

    const std::shared_ptr<JsThread>& js_thread() const { return js_thread_; }
    const std::shared_ptr<BlockDisposer>& block_disposer() const { return block_disposer_; }
    const std::shared_ptr<DeliveredMemory>& delivered_memory() const { return delivered_memory_; }
    NumberSlab& number_slab() { return number_slab_; }
    void start(const std::shared_ptr<StageJob>& job);
    void remove(const StageJob* job);
    // Frees in the background, or at once what is small; later stages of the engine wait for it, so memory that was
    // closed counts as free.
    void dispose(std::unique_ptr<Disposable> object);
    // Cancels and joins every job. Promises stay pending: no JS runs after this. Called when the environment is torn
    // down (worker terminated, end of the process) and on the process event 'exit'.
    void shutdown();
    bool ended() const { return ended_; }
    bool on_js_thread() const { return js_thread_->is_current(); }  // may be asked on any thread

    // For what takes long and nobody waits for; runs at once when no thread can be had.
    void run_in_background(std::function<void()> work);

    // A shared object whose last owner hands it to dispose().
    template <class T>
    std::shared_ptr<T> share(std::unique_ptr<T> object) {
        auto registry = shared_from_this();
        return std::shared_ptr<T>(object.release(),
                                  [registry](T* last) { registry->dispose(std::unique_ptr<Disposable>(last)); });
    }

  private:
    std::shared_ptr<JsThread> js_thread_;
    // Shared with the delivered blocks: some are collected after the registry has gone.
    std::shared_ptr<BlockDisposer> block_disposer_ = std::make_shared<BlockDisposer>();
    std::shared_ptr<DeliveredMemory> delivered_memory_;
    NumberSlab number_slab_;
    std::list<std::shared_ptr<StageJob>> jobs_;
    std::optional<ThreadCache::Use> threads_{std::in_place};  // until shutdown
    uint64_t freed_at_once_ = 0;
    std::chrono::steady_clock::time_point next_look_{};
    bool ended_ = false;
};

// The registry of the environment, made by init_registry when the module is loaded into it.
const std::shared_ptr<JobRegistry>& registry_of(Napi::Env env);
void init_registry(Napi::Env env);

}  // namespace spillway::addon
