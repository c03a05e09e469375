// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <cstdint>

namespace spillway::addon {

// What V8 hears of the memory of delivered batches. V8 counts external ArrayBuffers towards its old generation and,
// with a heap as small as ours, marks all of it for every 8 MiB delivered: 15 ms of marking in steps of up to 10 ms on
// the event loop. Most batches are dropped before the next ones come, and for those a young collection is enough: 0.5
// ms, which readers have V8 make where it has no reason of its own (src/execute/dropped-batches.ts). So bytes stay
// untold until more are alive than such collections leave; from then on V8 hears of all of them. One per environment;
// on its JS thread. V8's number is at all times: bytes alive - bytes untold + bytes ahead. Newer versions of V8 collect
// less eagerly and do not let their number be lowered: they hear of all bytes at once.
class DeliveredMemory {
  public:
    explicit DeliveredMemory(napi_env env);
    // V8 has taken over an ArrayBuffer of `length` bytes of a block of `capacity`.
    // kept: it stays alive until the result is complete (a table): never told before tell().
    void delivered(napi_env env, uint64_t length, uint64_t capacity, bool kept);
    // So many bytes of an ArrayBuffer, which is detached now, are subtracted by V8 at once, and dropped() comes later.
    void released(napi_env env, uint64_t length);
    // V8 has dropped the ArrayBuffer.
    void dropped(napi_env env, uint64_t length, uint64_t capacity);
    void tell(napi_env env);
    // Bytes of all blocks that V8 has not dropped yet, whether or not JS can still reach them.
    int64_t alive_bytes() const { return alive_; }

  private:
    void settle(napi_env env, int64_t missing);

    // Twice what readers leave uncollected, and what a few batches have that are in their hands. Of tables, which V8
    // has heard of, none counts: with 1 GB of them it heard of each batch, and marked its heap every 7 ms.
    static constexpr int64_t kUntoldBytesMax = int64_t{640} << 20;

    static constexpr int64_t kAheadBytesMin = int64_t{64} << 20;
    static constexpr int64_t kAheadBytesMax = int64_t{1} << 30;

    const bool keeps_untold_;
    int64_t alive_ = 0;
    int64_t untold_ = 0;
    int64_t ahead_ = 0;
    int64_t dropped_ = 0;   // bytes so far
    int64_t restored_ = 0;  // that V8 has subtracted and were added again, of what dropped() has not come for
};

}  // namespace spillway::addon
