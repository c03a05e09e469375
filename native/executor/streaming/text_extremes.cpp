// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/text_extremes.hpp"

#include <limits>
#include <string_view>

#include "base/error.hpp"
#include "device/gpu_error.hpp"

namespace spillway {

namespace {

constexpr const char* kExtremesPurpose = "least and largest texts of groups";
constexpr uint64_t kOnce = uint64_t{1} << 32;

std::string_view view_of(ByteString text) {
    return {reinterpret_cast<const char*>(text.bytes), text.length};
}

// Characters of views are compared as bytes without a sign, as the CPU engine compares them.
bool comes_before(ByteString a, ByteString b) {
    return view_of(a) < view_of(b);
}

}  // namespace

TextExtremes::TextExtremes(const TextCodes& texts, MemoryBudget& budget)
    : texts_(texts), budget_(budget), groups_(budget), parts_(TextCodes::kNone / kGroupsPerPart + 1) {}

uint64_t TextExtremes::offer(ByteString group, uint32_t code, bool is_least) {
    std::atomic<uint64_t>& best = best_of(groups_.add(group));
    const ByteString text = texts_.text(code);
    uint64_t known = best.load(std::memory_order_acquire);
    for (;;) {
        if (known != 0) {
            const ByteString held = texts_.text(static_cast<uint32_t>(known));
            if (!(is_least ? comes_before(text, held) : comes_before(held, text))) return 0;
        }
        if (known > std::numeric_limits<uint64_t>::max() - kOnce) {
            throw Error(ErrorCode::kUnsupportedType,
                        "the least or largest text of a group changed more often than 2^32 - 2 times",
                        {refused_by_device()});
        }
        const uint64_t next = ((known >> 32) + 1) << 32 | code;
        if (best.compare_exchange_weak(known, next, std::memory_order_acq_rel, std::memory_order_acquire)) return next;
    }
}

std::atomic<uint64_t>& TextExtremes::best_of(uint32_t group) {
    std::atomic<uint64_t*>& part = parts_[group / kGroupsPerPart];
    if (part.load(std::memory_order_acquire) == nullptr) add_part(part);
    uint64_t* const word = part.load(std::memory_order_acquire) + group % kGroupsPerPart;
    // The block is this table's, and so are its words.
    return *reinterpret_cast<std::atomic<uint64_t>*>(word);
}

// Somebody else may be adding it.
void TextExtremes::add_part(std::atomic<uint64_t*>& part) {
    const std::lock_guard<std::mutex> lock(parts_mutex_);
    if (part.load(std::memory_order_relaxed) != nullptr) return;
    parts_memory_.push_back(Buffer::allocate(budget_, kGroupsPerPart * sizeof(uint64_t), kExtremesPurpose, true));
    part.store(reinterpret_cast<uint64_t*>(parts_memory_.back().data()), std::memory_order_release);
}

}  // namespace spillway
