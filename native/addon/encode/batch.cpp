// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "addon/encode/encode.hpp"
#include "addon/jobs/job_registry.hpp"

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
};

void free_external(napi_env env, void*, void* hint) {
    const std::unique_ptr<External> external(static_cast<External*>(hint));
    external->delivered->dropped(env, external->length, external->block.capacity);
    external->disposer->free(external->block, std::move(external->engine));
}

Napi::Value encode_buffer(Napi::Env env, Buffer&& buffer, const BatchTarget& target) {
    if (buffer.size() <= kCopyBytesMax || buffer.size() > kExternalBytesMax) return copied(env, buffer);
    const uint64_t size = buffer.size();
    auto external = std::make_unique<External>();
    external->engine = target.engine;
    external->delivered = target.delivered;
    external->disposer = registry_of(env)->block_disposer();
    external->length = size;
    external->block = buffer.detach();
    uint8_t* data = external->block.data;
    napi_value value = nullptr;
    const napi_status status = napi_create_external_arraybuffer(env, data, size, free_external, external.get(), &value);
    if (status == napi_ok) {
        const External& taken = *external.release();
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

// Arrow wants length + 1 offsets even for no rows; the engine leaves the buffer of an empty column out.
Napi::Value encode_offsets(Napi::Env env, OutputColumn& column, uint64_t width, const BatchTarget& target) {
    if (column.offsets.size() > 0) return encode_buffer(env, std::move(column.offsets), target);
    return Napi::ArrayBuffer::New(env, width);
}

class BatchEncoder {
  public:
    BatchEncoder(Napi::Env env, const BatchTarget& target)
        : env_(env), target_(target), buffers_(Napi::Array::New(env)) {}

    void add(OutputColumn& column) {
        nodes_.push_back(static_cast<double>(column.length));
        nodes_.push_back(static_cast<double>(column.null_count));
        const ColumnType& type = *column.type;
        const bool is_union = type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense;
        if (type.layout == Layout::kNull) return;
        if (!is_union)
            push(column.null_count == 0 ? env_.Null() : encode_buffer(env_, std::move(column.validity), target_));
        switch (type.layout) {
            case Layout::kBinary:
            case Layout::kView:
                push(encode_offsets(env_, column, type.layout == Layout::kBinary ? type.byte_width : 4, target_));
                push(encode_buffer(env_, std::move(column.data), target_));
                break;
            case Layout::kList:
                push(encode_offsets(env_, column, type.byte_width, target_));
                break;
            case Layout::kUnionDense:
                push(encode_buffer(env_, std::move(column.data), target_));
                push(encode_buffer(env_, std::move(column.offsets), target_));
                break;
            case Layout::kStruct:
            case Layout::kFixedList:
                break;
            default:
                push(encode_buffer(env_, std::move(column.data), target_));
                break;
        }
        for (auto& child : column.children) add(child);
    }

    Napi::Object finish(int64_t rows) {
        auto nodes = Napi::Float64Array::New(env_, nodes_.size());
        if (!nodes_.empty()) std::memcpy(nodes.Data(), nodes_.data(), nodes_.size() * sizeof(double));
        auto batch = Napi::Object::New(env_);
        batch.Set("rows", Napi::Number::New(env_, static_cast<double>(rows)));
        batch.Set("nodes", nodes);
        batch.Set("buffers", buffers_);
        return batch;
    }

  private:
    void push(Napi::Value value) { buffers_.Set(count_++, value); }

    Napi::Env env_;
    const BatchTarget& target_;
    Napi::Array buffers_;
    uint32_t count_ = 0;
    std::vector<double> nodes_;
};

}  // namespace

Napi::Value encode_batch(Napi::Env env, OutputBatch&& batch, const BatchTarget& target) {
    BatchEncoder encoder(env, target);
    for (auto& column : batch.columns) encoder.add(column);
    return encoder.finish(batch.rows);
}

}  // namespace spillway::addon
