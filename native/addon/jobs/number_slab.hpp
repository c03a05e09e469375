// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <algorithm>
#include <vector>

namespace spillway::addon {

// Short lists of numbers for JavaScript, as views of one ArrayBuffer after the other. Whenever V8 makes an ArrayBuffer
// while young ones have 32 MiB of memory outside of its heap, it collects its young objects first (1 ms; V8 11.3), and
// large batches have as much at any time: one for each batch, which says where its columns are, took half of the time
// in which the results of a join came to JavaScript. On the JS thread.
class NumberSlab {
  public:
    Napi::Float64Array list_of(Napi::Env env, const std::vector<double>& numbers) {
        if (slab_.IsEmpty() || numbers.size() > kNumbers - used_) {
            const size_t bytes = std::max(kNumbers, numbers.size()) * sizeof(double);
            slab_ = Napi::Persistent(Napi::ArrayBuffer::New(env, bytes));
            used_ = 0;
        }
        const Napi::ArrayBuffer slab = slab_.Value();
        auto list = Napi::Float64Array::New(env, numbers.size(), slab, used_ * sizeof(double));
        std::copy(numbers.begin(), numbers.end(), list.Data());
        used_ = std::min(kNumbers, used_ + numbers.size());
        return list;
    }
    // Before the environment goes.
    void reset() { slab_.Reset(); }

  private:
    static constexpr size_t kNumbers = 8192;

    Napi::Reference<Napi::ArrayBuffer> slab_;
    size_t used_ = 0;
};

}  // namespace spillway::addon
