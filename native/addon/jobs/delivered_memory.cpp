// SPDX-License-Identifier: Apache-2.0
#include "addon/jobs/delivered_memory.hpp"

#include <algorithm>
#include <utility>

namespace spillway::addon {

namespace {

void adjust(napi_env env, int64_t bytes) {
    int64_t now = 0;
    if (bytes != 0) napi_adjust_external_memory(env, bytes, &now);
}

// V8 subtracts a dropped buffer before it calls the finalizer, and from 13 on (Node 23 and later) ends the process when
// that makes its number negative.
bool may_hear_less(napi_env env) {
    constexpr uint32_t kNodeMajorMax = 22;
    const napi_node_version* version = nullptr;
    return napi_get_node_version(env, &version) == napi_ok && version->major <= kNodeMajorMax;
}

}  // namespace

DeliveredMemory::DeliveredMemory(napi_env env) : keeps_untold_(may_hear_less(env)) {}

// V8 adds `length` by itself when it takes the ArrayBuffer over, and subtracts it when it drops it. What it added is
// taken back afterwards, not before: it counts from the lowest point since its last collection, so a dip by 8 MiB looks
// like 8 MiB of new memory for ever after, which with a heap as small as ours made it mark all of it nine times per
// table (130 of 400 ms of CPU time for 10 M rows).
void DeliveredMemory::delivered(napi_env env, uint64_t length, uint64_t capacity, bool kept) {
    alive_ += static_cast<int64_t>(capacity);
    if (!keeps_untold_) return adjust(env, static_cast<int64_t>(capacity - length));
    untold_ += static_cast<int64_t>(capacity);
    adjust(env, -static_cast<int64_t>(length));
    if (!kept && untold_ > kUntoldBytesMax) tell(env);
}

// One at a time, so that what V8 subtracts can be added as it goes: nothing is ahead, and no collection starts. With
// what is added when a young collection has dropped 32 MiB, a reader that releases batches had V8 mark its heap for
// every tenth to fourth of them (31 s instead of 1 for 10,743 batches of 14 KB).
void DeliveredMemory::released(napi_env env, uint64_t length) {
    if (!keeps_untold_) return;
    const int64_t bytes = std::min(static_cast<int64_t>(length), alive_ - restored_);
    adjust(env, bytes);
    restored_ += bytes;
}

void DeliveredMemory::dropped(napi_env env, uint64_t length, uint64_t capacity) {
    const auto bytes = static_cast<int64_t>(capacity);
    alive_ -= bytes;
    if (!keeps_untold_) return adjust(env, -static_cast<int64_t>(capacity - length));
    const int64_t was_untold = std::min(bytes, untold_);
    untold_ -= was_untold;
    const int64_t restored = std::min(static_cast<int64_t>(length), restored_);
    restored_ -= restored;
    settle(env, static_cast<int64_t>(length) - (bytes - was_untold) - restored);
    dropped_ += bytes;
    // With nothing alive the number can be right at no cost.
    if (alive_ == 0) adjust(env, -std::exchange(ahead_, 0));
}

// V8 drops young buffers of 32 MiB at a time, and its number has fallen by as much before the first finalizer runs. To
// add them again, one by one, looks like 32 MiB of new memory: V8 marked all of its heap after every third of its young
// collections (10 ms on the event loop for 100 MB delivered, which was most of what batches cost there). So what is
// added comes before, in few large steps: each starts a marking, and V8's number is ahead until that much was dropped.
void DeliveredMemory::settle(napi_env env, int64_t missing) {
    if (missing > ahead_) {
        const int64_t step = std::clamp(dropped_, kAheadBytesMin, kAheadBytesMax);
        adjust(env, missing + step);
        ahead_ += missing + step;
    }
    ahead_ -= missing;
}

void DeliveredMemory::tell(napi_env env) {
    adjust(env, std::exchange(untold_, 0));
}

}  // namespace spillway::addon
