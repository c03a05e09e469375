// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <memory>

namespace spillway::addon {

// The memory behind an ArrayBuffer. It stays mapped while this lives, also when JS transfers the buffer to somebody
// else, which detaches it, and that one drops it. Node-API has nothing for it, so V8 is asked, by the names of the
// functions that Node exports: no header of V8's is compiled in and the binary stays good for every version of Node.
// Seen to hold with Node 20, 22, 24 and 26.
using BackingStore = std::shared_ptr<void>;

enum class MemoryKept {
    kAlways,
    // V8 of Node 22 gives the memory another address when `ArrayBuffer.prototype.transfer` is called with another
    // length, whoever holds it.
    kUnlessResized,
    // This is another V8, or one that was built with another standard library.
    kNever
};

// Asks V8 for the memory of a buffer made for the purpose, and compares. On the JS thread.
MemoryKept memory_kept(Napi::Env env);

// nullptr where memory is never kept, and of shared memory, which is not detached. On the JS thread; the result may be
// dropped there only.
BackingStore backing_store_of(const Napi::Value& buffer);

}  // namespace spillway::addon
