// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "addon/calls/calls.hpp"
#include "addon/decode/decode.hpp"
#include "addon/encode/encode.hpp"
#include "addon/jobs/addon_error.hpp"
#include "addon/jobs/handles.hpp"
#include "addon/jobs/stage_job.hpp"
#include "transfer/footer_blocks.hpp"
#include "transfer/ipc_limits.hpp"

namespace spillway::addon {

namespace {

// What the relation holds is counted apart until the last source that reads it is gone, too.
std::shared_ptr<const FileBatches> counted(const std::shared_ptr<Engine>& engine, FileBatches batches) {
    const uint64_t bytes = batches.counted_bytes();
    auto held = std::make_unique<FileBatches>(std::move(batches));
    engine->relation_bytes.fetch_add(bytes, std::memory_order_relaxed);
    return {held.release(), [engine, bytes](const FileBatches* last) {
                delete last;
                engine->relation_bytes.fetch_sub(bytes, std::memory_order_relaxed);
            }};
}

Napi::Value open_file_batches_call(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    const auto spec = std::make_shared<FileBatchesSpec>(decode_file_batches(info[1]));
    const auto handle = registry_of(info.Env())->share(std::make_unique<FileBatchesHandle>(engine));
    const auto job = std::make_shared<Job>(engine);
    const auto open = [handle, spec, job]() -> Encode {
        const auto facts = std::make_shared<FileFacts>();
        FileBatches found = open_file_batches(*spec, job->engine->budget, job->control, *facts);
        const uint64_t bytes = found.counted_bytes();
        handle->batches = counted(job->engine, std::move(found));
        return [handle, facts, bytes](Napi::Env env) {
            return encode_file_batches(env, make_handle(env, handle), bytes, *facts);
        };
    };
    return start_stage(info.Env(), job, open, StageMemory::kNone);
}

Napi::Value close_file_batches(const Napi::CallbackInfo& info) {
    close_handle<FileBatchesHandle>(info[0]);
    return info.Env().Undefined();
}

// Pieces of the footer beside its lists of blocks.
std::vector<FooterBlocks::Range> without_lists(const FooterBlocks& footer) {
    std::array<FooterBlocks::Range, 2> lists{footer.dictionary_list(), footer.record_list()};
    if (lists[1].offset < lists[0].offset) std::swap(lists[0], lists[1]);
    std::vector<FooterBlocks::Range> pieces;
    int64_t at = footer.footer().offset;
    const auto add_until = [&](int64_t end) {
        if (end > at) pieces.push_back({at, end - at});
    };
    for (const FooterBlocks::Range& list : lists) {
        if (list.bytes == 0) continue;
        add_until(list.offset);
        at = std::max(at, list.offset + list.bytes);
    }
    add_until(footer.footer().offset + footer.footer().bytes);
    return pieces;
}

// The footer with zeros in place of its lists of blocks. Memory that nobody writes to takes none: the lists of a
// million batches have 24 MB, and the rest, which is the schema, mostly a few KiB.
Napi::Value read_footer(const Napi::CallbackInfo& info) {
    const auto engine = get_handle<Engine>(info[0]);
    const std::string path = Field(info[1], "path").string();
    const auto job = std::make_shared<Job>(engine);
    const auto read = [job, path]() -> Encode {
        const FileTable files({path});
        const FooterBlocks footer(files, 0, job->engine->budget);
        const std::vector<FooterBlocks::Range> pieces = without_lists(footer);
        int64_t total = 0;
        for (const FooterBlocks::Range& piece : pieces) total += piece.bytes;
        if (total > kIpcMetadataBytesMax) throw damaged_file(path, "its footer is impossibly large");
        std::vector<uint8_t> bytes(static_cast<size_t>(total));
        uint8_t* out = bytes.data();
        for (const FooterBlocks::Range& piece : pieces) {
            job->control.check();
            files.read(0, piece.offset, out, piece.bytes);
            out += piece.bytes;
        }
        return [pieces, range = footer.footer(), bytes = std::move(bytes)](Napi::Env env) -> Napi::Value {
            auto copy = Napi::Uint8Array::New(env, static_cast<size_t>(range.bytes));
            const uint8_t* from = bytes.data();
            for (const FooterBlocks::Range& piece : pieces) {
                std::copy_n(from, piece.bytes, copy.Data() + (piece.offset - range.offset));
                from += piece.bytes;
            }
            return copy;
        };
    };
    return start_stage(info.Env(), job, read, StageMemory::kNone);
}

}  // namespace

void export_file_calls(Napi::Object exports) {
    export_async<open_file_batches_call>(exports, "openFileBatches");
    export_sync<close_file_batches>(exports, "closeFileBatches");
    export_async<read_footer>(exports, "readFooter");
}

}  // namespace spillway::addon
