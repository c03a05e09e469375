// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "addon/encode/encode.hpp"
#include "addon/jobs/job_registry.hpp"
#include "memory/batch_memory.hpp"

namespace spillway::addon {

namespace {

// Below: a copy is cheaper than the bookkeeping of an external buffer (reference, finalizer on the event loop).
constexpr uint64_t kCopyBytesMax = 4096;
// Node makes a Buffer inside of an external ArrayBuffer, and a Buffer ends at 4 GiB.
constexpr uint64_t kExternalBytesMax = uint64_t{1} << 32;

Napi::Value copied(Napi::Env env, const Buffer& buffer) {
    auto copy = Napi::ArrayBuffer::New(env, buffer.size());
    if (buffer.size() > 0) std::memcpy(copy.Data(), buffer.data(), buffer.size());
    return copy;
}

// What the finalizer of an external ArrayBuffer needs.
struct External {
    Buffer::Block block;
    uint64_t length;  // of the ArrayBuffer; the block may be longer
    std::shared_ptr<DeliveredMemory> delivered;
    std::shared_ptr<BlockDisposer> disposer;
    std::weak_ptr<Engine> engine;
    bool read;
};

void count_read(const External& external, int64_t bytes) {
    const auto engine = external.engine.lock();
    if (external.read && engine) engine->read_bytes += bytes;
}

void free_external(napi_env env, void*, void* hint) {
    const std::unique_ptr<External> external(static_cast<External*>(hint));
    count_read(*external, -static_cast<int64_t>(external->block.capacity));
    external->delivered->dropped(env, external->length, external->block.capacity);
    external->disposer->free(external->block, std::move(external->engine));
}

Napi::Value encode_buffer(Napi::Env env, Buffer&& buffer, const BatchTarget& target) {
    if (!is_external_length(buffer.size())) return copied(env, buffer);
    const uint64_t size = buffer.size();
    auto external = std::make_unique<External>();
    external->engine = target.engine;
    external->delivered = target.delivered;
    external->disposer = registry_of(env)->block_disposer();
    external->length = size;
    external->read = target.read;
    external->block = buffer.detach();
    uint8_t* data = external->block.data;
    napi_value value = nullptr;
    const napi_status status = napi_create_external_arraybuffer(env, data, size, free_external, external.get(), &value);
    if (status == napi_ok) {
        const External& taken = *external.release();
        count_read(taken, static_cast<int64_t>(taken.block.capacity));
        taken.delivered->delivered(env, size, taken.block.capacity, target.kept);
        return Napi::Value(env, value);
    }
    struct Free {
        Buffer::Block block;
        ~Free() { Buffer::free_block(block); }
    } const free_at_end{external->block};
    if (status == napi_pending_exception) throw Napi::Error::New(env);
    // Electron forbids external buffers (pointer compression cage).
    auto copy = Napi::ArrayBuffer::New(env, size);
    std::memcpy(copy.Data(), data, size);
    return copy;
}

// What JavaScript needs to know of a batch, in the order in which batch-from-native.ts reads it: of each column its
// length and number of NULLs, then of each of its buffers which memory it is in, from which byte on, and how many.
class BatchEncoder {
  public:
    BatchEncoder(Napi::Env env, OutputBatch& batch, const BatchTarget& target)
        : env_(env), batch_(batch), target_(target), memory_(Napi::Array::New(env)) {}

    Napi::Object encode() {
        block_ = batch_.memory.data();
        if (block_ != nullptr) memory_.Set(count_++, encode_buffer(env_, std::move(batch_.memory), target_));
        for (OutputColumn& column : batch_.columns) add(column);
        copy_small_ones();
        const auto layout = registry_of(env_)->number_slab().list_of(env_, layout_);
        auto batch = Napi::Object::New(env_);
        batch.Set("rows", Napi::Number::New(env_, static_cast<double>(batch_.rows)));
        batch.Set("layout", layout);
        batch.Set("memory", memory_);
        return batch;
    }

  private:
    void add(OutputColumn& column) {
        layout_.push_back(static_cast<double>(column.length));
        layout_.push_back(static_cast<double>(column.null_count));
        const ColumnType& type = *column.type;
        const bool is_union = type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense;
        if (type.layout == Layout::kNull) return;
        if (!is_union) {
            if (column.null_count == 0) {
                add_place(kAbsent, 0, 0);
            } else {
                add(column.validity);
            }
        }
        switch (type.layout) {
            case Layout::kBinary:
            case Layout::kView:
                add(column.offsets);
                add(column.data);
                break;
            case Layout::kList:
                add(column.offsets);
                break;
            case Layout::kUnionDense:
                add(column.data);
                add(column.offsets);
                break;
            case Layout::kStruct:
            case Layout::kFixedList:
                break;
            default:
                add(column.data);
                break;
        }
        for (OutputColumn& child : column.children) add(child);
    }

    void add(Buffer& buffer) {
        const uint64_t size = buffer.size();
        if (size == 0) return add_place(kAbsent, 0, 0);
        if (buffer.is_slice()) return add_place(0, static_cast<uint64_t>(buffer.data() - block_), size);
        if (size <= kCopyBytesMax) {
            if (small_.empty()) small_memory_ = count_++;
            add_place(small_memory_, small_bytes_, size);
            small_.push_back({&buffer, small_bytes_});
            small_bytes_ += BatchMemory::padded(size);
            return;
        }
        add_place(count_, 0, size);
        memory_.Set(count_++, encode_buffer(env_, std::move(buffer), target_));
    }

    void add_place(double memory, uint64_t offset, uint64_t bytes) {
        layout_.push_back(memory);
        layout_.push_back(static_cast<double>(offset));
        layout_.push_back(static_cast<double>(bytes));
    }

    // One ArrayBuffer for all small ones.
    void copy_small_ones() {
        if (small_.empty()) return;
        auto copies = Napi::ArrayBuffer::New(env_, small_bytes_);
        auto* const data = static_cast<uint8_t*>(copies.Data());
        for (const Small& small : small_) std::memcpy(data + small.offset, small.buffer->data(), small.buffer->size());
        memory_.Set(small_memory_, copies);
    }

    static constexpr double kAbsent = -1;
    struct Small {
        const Buffer* buffer;
        uint64_t offset;
    };

    Napi::Env env_;
    OutputBatch& batch_;
    const BatchTarget& target_;
    Napi::Array memory_;
    uint32_t count_ = 0;  // of memory_
    const uint8_t* block_ = nullptr;
    std::vector<Small> small_;
    uint32_t small_memory_ = 0;
    uint64_t small_bytes_ = 0;
    std::vector<double> layout_;
};

}  // namespace

bool is_external_length(uint64_t bytes) {
    return bytes > kCopyBytesMax && bytes <= kExternalBytesMax;
}

Napi::Value encode_batch(Napi::Env env, OutputBatch&& batch, const BatchTarget& target) {
    return BatchEncoder(env, batch, target).encode();
}

}  // namespace spillway::addon
