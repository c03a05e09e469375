// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/js_thread.hpp"

namespace spillway::addon {

class JobRegistry;
struct Job;

// Makes the result on the JS thread.
using Encode = std::function<Napi::Value(Napi::Env)>;
// The stage itself, run on a thread of its own. It owns (by its captures) everything the stage uses: handles that are
// closed meanwhile live on in it. It is destroyed on the JS thread.
using Work = std::function<Encode()>;

// Does a stage take memory from the budget? Then it waits until closed handles have given theirs back; opening a file
// or naming a finished one need not wait for that.
enum class StageMemory : uint8_t { kFromBudget, kNone };

// One stage on a thread of its own: libuv's four workers stay free for the files and name look-ups of the user,
// and an hour-long join holds none of them.
class StageJob : public std::enable_shared_from_this<StageJob> {
  public:
    // job: cancellation and engine; nullptr for background work that nobody waits for.
    StageJob(std::shared_ptr<JobRegistry> registry, std::shared_ptr<Job> job, Work work,
             StageMemory memory = StageMemory::kNone);
    ~StageJob();
    StageJob(const StageJob&) = delete;

    Napi::Promise promise(Napi::Env env);
    void start();                  // throws kOutOfMemory when the system gives no thread
    void run_here(Napi::Env env);  // instead of start(): on the JS thread, and settles the promise
    void cancel() const;
    void complete(Napi::Env env);  // JS thread, after the thread has posted its end
    void join();                   // JS thread, during teardown: the promise stays pending for ever

  private:
    void run() noexcept;
    void work() noexcept;
    void settle(Napi::Env env);

    std::shared_ptr<JobRegistry> registry_;
    std::shared_ptr<Job> job_;
    Work work_;
    const StageMemory memory_;
    std::future<void> done_;
    Encode encode_;
    std::optional<Error> error_;
    std::optional<Napi::Promise::Deferred> deferred_;
};

// Starts `work` as a stage of `job`; the promise resolves with what its Encode makes. While it is pending the process
// stays alive and the engine cannot be closed. A stage of a job that runs_here() has ended when this returns, if it is
// one that computes: others wait for somebody or something.
Napi::Value start_stage(Napi::Env env, const std::shared_ptr<Job>& job, Work work,
                        StageMemory memory = StageMemory::kFromBudget);

// The same for what gives memory back: where no thread can be had it runs at once, on the JS thread, so that a runtime
// can be closed and a query can end in a process that has no threads left.
Napi::Value start_stage_or_run(Napi::Env env, const std::shared_ptr<Job>& job, Work work);

// A promise of what is there already: for calls whose work, this time, is too little for a thread.
Napi::Value resolved(Napi::Env env, const Napi::Value& value);

// For stages without a result.
Napi::Value undefined_result(Napi::Env env);

}  // namespace spillway::addon
