// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/text_codes.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "device/gpu_error.hpp"

namespace spillway {

namespace {

constexpr const char* kPurpose = "text and keys that the GPU compares by numbers";
constexpr uint64_t kSlotsMin = 64;
constexpr uint64_t kBytesMin = 4 << 10;
constexpr uint64_t kBytesMax = 4 << 20;
constexpr uint64_t kCodesMax = TextCodes::kNone - 1;
constexpr uint64_t kTogether = 32;  // strings whose memory is waited for at once: more than a core has under way

uint64_t hash_of(ByteString text) {
    return hash_bytes(text.bytes, text.length);
}

// The shard is chosen by the highest bits and the slot by the lowest: those between tell strings apart.
uint64_t tag_of(uint64_t hash) {
    return hash >> 20 << 32;
}

bool same(ByteString a, ByteString b) {
    return a.length == b.length && (a.length == 0 || std::memcmp(a.bytes, b.bytes, a.length) == 0);
}

// Gives each string with its hash to `use`, some of them at a time, whose memory `near` has asked for before.
template <class TextAt, class Near, class Use>
void by_hash(uint64_t count, const TextAt& text_at, const Near& near, const Use& use) {
    uint64_t hashes[kTogether];
    for (uint64_t done = 0; done < count; done += kTogether) {
        const uint64_t together = std::min(kTogether, count - done);
        for (uint64_t i = 0; i < together; ++i) hashes[i] = hash_of(text_at(done + i));
        near(hashes, together);
        for (uint64_t i = 0; i < together; ++i) use(done + i, hashes[i], text_at(done + i));
    }
}

// Strings of one length, one behind the other.
auto strings_at(const uint8_t* strings, uint64_t length) {
    return [=](uint64_t i) { return ByteString{strings + i * length, length}; };
}
auto texts_at(const ByteString* texts) {
    return [=](uint64_t i) { return texts[i]; };
}

}  // namespace

std::atomic<uint64_t>* TextCodes::Table::slots() const {
    // The block is the table's, and so are its words.
    return reinterpret_cast<std::atomic<uint64_t>*>(const_cast<uint8_t*>(memory.data()));
}

TextCodes::TextCodes(MemoryBudget& budget) : budget_(budget), parts_(kCodesMax / kEntriesPerPart + 1) {}

ByteString TextCodes::text(uint32_t code) const {
    return parts_[code / kEntriesPerPart].load(std::memory_order_acquire)[code % kEntriesPerPart];
}

uint32_t TextCodes::find_in(const Table* table, uint64_t hash, ByteString text) const {
    if (table == nullptr) return kNone;
    const std::atomic<uint64_t>* const slots = table->slots();
    for (uint64_t at = hash & table->mask;; at = (at + 1) & table->mask) {
        const uint64_t slot = slots[at].load(std::memory_order_acquire);
        if (slot == 0) return kNone;
        const auto code = static_cast<uint32_t>(slot) - 1;
        if ((slot & ~uint64_t{kNone}) == tag_of(hash) && same(this->text(code), text)) return code;
    }
}

uint32_t TextCodes::find(ByteString text) const {
    const uint64_t hash = hash_of(text);
    return find_in(shard_of(hash).table.load(std::memory_order_acquire), hash, text);
}

uint32_t TextCodes::add(ByteString text, bool* is_new) {
    return add_hashed(hash_of(text), text, is_new);
}

// The slot, the place and the bytes of each string, in turns: those of all strings are on their way at the same time.
// What is not there yet is looked up again later.
void TextCodes::bring_near(const uint64_t* hashes, uint64_t count) const {
    const std::atomic<uint64_t>* slots[kTogether];
    const ByteString* places[kTogether];
    for (uint64_t i = 0; i < count; ++i) {
        const Table* const table = shard_of(hashes[i]).table.load(std::memory_order_acquire);
        slots[i] = table == nullptr ? nullptr : table->slots() + (hashes[i] & table->mask);
        __builtin_prefetch(slots[i]);
    }
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t slot = slots[i] == nullptr ? 0 : slots[i]->load(std::memory_order_acquire);
        const uint64_t code = (slot & kNone) - 1;
        const bool is_there = slot != 0 && (slot & ~uint64_t{kNone}) == tag_of(hashes[i]);
        places[i] = is_there ? parts_[code / kEntriesPerPart].load(std::memory_order_acquire) + code % kEntriesPerPart
                             : nullptr;
        __builtin_prefetch(places[i]);
    }
    for (uint64_t i = 0; i < count; ++i) {
        if (places[i] != nullptr) __builtin_prefetch(places[i]->bytes);
    }
}

void TextCodes::add_all(const ByteString* texts, uint64_t count, uint32_t* codes) {
    const auto near = [this](const uint64_t* hashes, uint64_t together) { bring_near(hashes, together); };
    by_hash(count, texts_at(texts), near,
            [&](uint64_t i, uint64_t hash, ByteString text) { codes[i] = add_hashed(hash, text, nullptr); });
}

void TextCodes::add_all(const uint8_t* strings, uint64_t length, uint64_t count, uint32_t* codes, uint8_t* is_new) {
    const auto near = [this](const uint64_t* hashes, uint64_t together) { bring_near(hashes, together); };
    by_hash(count, strings_at(strings, length), near, [&](uint64_t i, uint64_t hash, ByteString text) {
        bool is_first = false;
        codes[i] = add_hashed(hash, text, &is_first);
        if (is_new != nullptr) is_new[i] = is_first ? 1 : 0;
    });
}

template <class TextAt>
void TextCodes::find_at(const TextAt& text_at, uint64_t count, uint32_t* codes) const {
    const auto near = [this](const uint64_t* hashes, uint64_t together) { bring_near(hashes, together); };
    by_hash(count, text_at, near, [&](uint64_t i, uint64_t hash, ByteString text) {
        codes[i] = find_in(shard_of(hash).table.load(std::memory_order_acquire), hash, text);
    });
}

void TextCodes::find_all(const ByteString* texts, uint64_t count, uint32_t* codes) const {
    find_at(texts_at(texts), count, codes);
}

void TextCodes::find_all(const uint8_t* strings, uint64_t length, uint64_t count, uint32_t* codes) const {
    find_at(strings_at(strings, length), count, codes);
}

uint32_t TextCodes::add_hashed(uint64_t hash, ByteString text, bool* is_new) {
    if (is_new != nullptr) *is_new = false;
    Shard& shard = shard_of(hash);
    const uint32_t known = find_in(shard.table.load(std::memory_order_acquire), hash, text);
    if (known != kNone) return known;
    const std::lock_guard<std::mutex> lock(shard.mutex);
    // Somebody may have been faster.
    const uint32_t entered = find_in(shard.table.load(std::memory_order_relaxed), hash, text);
    if (entered != kNone) return entered;
    if (shard.tables.empty() || 2 * shard.used >= shard.tables.back()->mask) grow(shard);
    const uint32_t code = enter(shard, text);
    const Table& table = *shard.tables.back();
    std::atomic<uint64_t>* const slots = table.slots();
    uint64_t at = hash & table.mask;
    while (slots[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & table.mask;
    slots[at].store(tag_of(hash) | (uint64_t{code} + 1), std::memory_order_release);
    ++shard.used;
    if (is_new != nullptr) *is_new = true;
    return code;
}

// The bytes are kept and the string has a number, which nobody sees before its slot is written.
uint32_t TextCodes::enter(Shard& shard, ByteString text) {
    const uint8_t* const bytes = keep(shard, text);
    // No lock that all shards share: workers with many new strings would wait for it, one after the other.
    const uint64_t code = next_.fetch_add(1, std::memory_order_acq_rel);
    if (code >= kCodesMax) {
        next_.store(kCodesMax, std::memory_order_release);
        throw Error(ErrorCode::kUnsupportedType,
                    "there are more than 2^32 - 2 different texts, or keys of several columns, which is more than the "
                    "GPU can compare by numbers",
                    {refused_by_device()});
    }
    std::atomic<ByteString*>& part = parts_[code / kEntriesPerPart];
    if (part.load(std::memory_order_acquire) == nullptr) add_part(part);
    part.load(std::memory_order_acquire)[code % kEntriesPerPart] = {bytes, text.length};
    return static_cast<uint32_t>(code);
}

// Somebody else may be adding it.
void TextCodes::add_part(std::atomic<ByteString*>& part) {
    const std::lock_guard<std::mutex> lock(parts_mutex_);
    if (part.load(std::memory_order_relaxed) != nullptr) return;
    parts_memory_.push_back(Buffer::allocate(budget_, kEntriesPerPart * sizeof(ByteString), kPurpose));
    part.store(reinterpret_cast<ByteString*>(parts_memory_.back().data()), std::memory_order_release);
}

const uint8_t* TextCodes::keep(Shard& shard, ByteString text) {
    if (text.length == 0) return nullptr;
    Buffer& bytes = shard.bytes;
    if (bytes.empty() || bytes.capacity() - bytes.size() < text.length) {
        const uint64_t next = bytes.empty() ? kBytesMin : std::min(2 * bytes.capacity(), kBytesMax);
        Buffer fresh = Buffer::allocate(budget_, std::max(next, text.length), kPurpose);
        fresh.set_size(0);
        if (!bytes.empty()) shard.filled.push_back(std::move(bytes));
        bytes = std::move(fresh);
    }
    uint8_t* const to = bytes.data() + bytes.size();
    std::memcpy(to, text.bytes, text.length);
    bytes.set_size(bytes.size() + text.length);
    return to;
}

// Readers of the old table miss what is new, and look again under the lock before they enter it twice.
void TextCodes::grow(Shard& shard) {
    const uint64_t slots = shard.tables.empty() ? kSlotsMin : 2 * (shard.tables.back()->mask + 1);
    auto table = std::make_unique<Table>();
    table->memory = Buffer::allocate(budget_, slots * sizeof(uint64_t), kPurpose, true);
    table->mask = slots - 1;
    if (!shard.tables.empty()) {
        const Table& old = *shard.tables.back();
        for (uint64_t i = 0; i <= old.mask; ++i) {
            const uint64_t slot = old.slots()[i].load(std::memory_order_relaxed);
            if (slot == 0) continue;
            uint64_t at = hash_of(text(static_cast<uint32_t>(slot) - 1)) & table->mask;
            while (table->slots()[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & table->mask;
            table->slots()[at].store(slot, std::memory_order_relaxed);
        }
    }
    shard.table.store(table.get(), std::memory_order_release);
    shard.tables.push_back(std::move(table));
}

}  // namespace spillway
