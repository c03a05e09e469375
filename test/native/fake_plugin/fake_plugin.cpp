// SPDX-License-Identifier: Apache-2.0
// A CUDA plugin without CUDA: its device memory is host memory. The environment variable SPILLWAY_FAKE_GPU makes it
// misbehave: version, crash, hang, none, refuse, incomplete, lost, walks (no-partitioning joins are refused), slow
// (operations last until they are cancelled). A kernel fails out of core with lost-build (while rows of the build side
// come, or those of a group-by), lost-probe (... of the probe side), lost-spilled (when spilled rows come back) and
// lost-result (when the host has rows of the result). With pins-nothing spilled rows get no pinned memory, whatever the
// limit is. There is one GPU, which is its own peer where a test asks for that.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fake_gpu.hpp"
#include "fake_stream.hpp"

struct spillway_cuda_buffer {
    spillway_cuda_gpu* gpu;
    fake::Block block;
};
struct spillway_cuda_pinned {
    spillway_cuda_gpu* gpu;
    struct Line {
        alignas(64) char bytes[64];  // as the real one's blocks begin
    };
    std::unique_ptr<Line[]> data;
    uint64_t bytes;
};

namespace fake {

std::recursive_mutex& lock() {
    static std::recursive_mutex mutex;
    return mutex;
}

bool is_asked_for(const char* what) {
    const char* value = std::getenv("SPILLWAY_FAKE_GPU");
    return value != nullptr && std::strcmp(value, what) == 0;
}

void tell(spillway_cuda_status* status, int32_t code, const char* text) {
    std::memset(status, 0, sizeof *status);
    status->code = code;
    std::snprintf(status->text, sizeof status->text, "%s", text);
}

void tell(spillway_cuda_gpu* gpu, spillway_cuda_status* status, const Failure& failure) {
    tell(status, failure.code, failure.text.c_str());
    if (failure.code == SPILLWAY_CUDA_FAILED) {
        gpu->lost = true;
        status->cuda_error = 700;
        status->device_lost = 1;
    }
    if (failure.code != SPILLWAY_CUDA_OUT_OF_MEMORY) return;
    status->limit_reached = failure.limit_reached ? 1 : 0;
    status->host_memory = failure.host_memory ? 1 : 0;
    status->wanted_bytes = failure.wanted_bytes;
    status->free_bytes = failure.host_memory ? failure.free_bytes : free_bytes(gpu);
    status->limit_bytes = failure.host_memory ? failure.limit_bytes : gpu->limit_bytes;
}

constexpr const char* kLostText = "an illegal memory access; restart the process";

void fail_here(const char* asked) {
    if (is_asked_for(asked)) throw Failure{SPILLWAY_CUDA_FAILED, kLostText};
}

void be_slow(spillway_cuda_gpu* gpu) {
    for (int ms = 0; is_asked_for("slow") && ms < 20'000 && !gpu->cancelled; ++ms) {
        lock().unlock();
        ::usleep(1000);
        lock().lock();
    }
}

void check(spillway_cuda_gpu* gpu) {
    if (gpu->lost) throw Failure{SPILLWAY_CUDA_FAILED, kLostText};
    fail_here("lost");
    if (gpu->cancelled) throw Failure{SPILLWAY_CUDA_CANCELLED, "cancelled"};
}

spillway_cuda_table* own(spillway_cuda_gpu* gpu, Table table) {
    ++gpu->children;
    return new spillway_cuda_table{gpu, std::move(table)};
}

}  // namespace fake

namespace {

using fake::is_asked_for;
using fake::tell;

int open_gpus = 0;

void misbehave() {
    if (is_asked_for("crash")) std::raise(SIGSEGV);
    if (is_asked_for("hang")) ::pause();
}

void ok(spillway_cuda_status* status) {
    tell(status, SPILLWAY_CUDA_OK, "");
}

void open_device(int32_t ordinal, uint64_t limit_bytes, uint64_t, spillway_cuda_gpu** gpu,
                 spillway_cuda_status* status) {
    *gpu = nullptr;
    misbehave();
    if (ordinal != 0) return tell(status, SPILLWAY_CUDA_INVALID, "there is no such GPU");
    ok(status);
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    *gpu = new spillway_cuda_gpu{limit_bytes == 0 ? uint64_t{1} << 37 : limit_bytes, 0, 0, 0, {false}};
    ++open_gpus;
}

void open_peer(spillway_cuda_gpu* gpu, int32_t ordinal, uint64_t limit_bytes, spillway_cuda_peer* peer,
               spillway_cuda_status* status) {
    ok(status);
    *peer = {};
    if (ordinal > 0) return tell(status, SPILLWAY_CUDA_INVALID, "there is no such GPU");
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    if (gpu->peer_bytes > 0) return tell(status, SPILLWAY_CUDA_INVALID, "a GPU has one peer");
    if (ordinal != 0) return;
    *peer = {limit_bytes, 250e6, 200e6};
    gpu->peer_bytes = limit_bytes;
}

void close_device(spillway_cuda_gpu* gpu, spillway_cuda_status* status) {
    ok(status);
    if (gpu == nullptr) return;
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    if (gpu->children > 0) return tell(status, SPILLWAY_CUDA_INVALID, "in use");
    delete gpu;
    --open_gpus;
}

void memory_info(spillway_cuda_gpu* gpu, spillway_cuda_memory* memory, spillway_cuda_status* status) {
    ok(status);
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    *memory = {};
    memory->used_bytes = gpu->used_bytes;
    memory->peak_bytes = gpu->peak_bytes;
    memory->limit_bytes = gpu->limit_bytes;
    memory->free_bytes = fake::free_bytes(gpu);
    memory->pinned_used_bytes = gpu->pinned_used_bytes;
    memory->pinned_reserved_bytes = gpu->pinned_reserved_bytes;
}

void reset_peak(spillway_cuda_gpu* gpu) {
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    gpu->peak_bytes = gpu->used_bytes;
}

constexpr uint64_t kSegmentBytes = 4ULL << 20;

void trim(spillway_cuda_gpu* gpu, spillway_cuda_status* status) {
    ok(status);
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    // Whole segments go, so that a small block keeps all of its own.
    const uint64_t segments = (gpu->pinned_used_bytes + kSegmentBytes - 1) / kSegmentBytes;
    gpu->pinned_reserved_bytes = std::min(gpu->pinned_reserved_bytes, segments * kSegmentBytes);
}

void set_cancelled(spillway_cuda_gpu* gpu, int32_t cancelled) {
    gpu->cancelled = cancelled != 0;
}

void synchronize(spillway_cuda_gpu* gpu, spillway_cuda_status* status) {
    fake::guarded(gpu, status, [] {});
}

void allocate(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, spillway_cuda_buffer** buffer,
              uint64_t* address, spillway_cuda_status* status) {
    *buffer = nullptr;
    *address = 0;
    fake::guarded(gpu, status, [&] {
        *buffer = new spillway_cuda_buffer{gpu, fake::Block(gpu, bytes, purpose)};
        *address = reinterpret_cast<uint64_t>((*buffer)->block.data());
        ++gpu->children;
    });
}

void free_buffer(spillway_cuda_buffer* buffer) {
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    --buffer->gpu->children;
    delete buffer;
}

void allocate_pinned(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, spillway_cuda_pinned** block,
                     void** address, spillway_cuda_status* status) {
    *block = nullptr;
    *address = nullptr;
    if (is_asked_for("refuse")) {
        tell(status, SPILLWAY_CUDA_OUT_OF_MEMORY, purpose);
        status->host_memory = 1;
        return;
    }
    ok(status);
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    ++gpu->children;
    gpu->pinned_used_bytes += bytes;
    if (gpu->pinned_used_bytes > gpu->pinned_reserved_bytes) gpu->pinned_reserved_bytes = gpu->pinned_used_bytes;
    using Line = spillway_cuda_pinned::Line;
    *block = new spillway_cuda_pinned{gpu, std::make_unique<Line[]>((bytes + 63) / 64), bytes};
    *address = (*block)->data.get();
}

void free_pinned(spillway_cuda_pinned* block) {
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    --block->gpu->children;
    block->gpu->pinned_used_bytes -= block->bytes;
    delete block;
}

void upload(spillway_cuda_gpu* gpu, spillway_cuda_buffer* to, uint64_t offset_bytes, const void* from, uint64_t bytes,
            spillway_cuda_transfer** transfer, spillway_cuda_status* status) {
    *transfer = nullptr;
    fake::guarded(gpu, status, [&] { *transfer = fake::copied(gpu, to->block.data() + offset_bytes, from, bytes); });
}

void download(spillway_cuda_gpu* gpu, void* to, const spillway_cuda_buffer* from, uint64_t offset_bytes, uint64_t bytes,
              spillway_cuda_transfer** transfer, spillway_cuda_status* status) {
    *transfer = nullptr;
    fake::guarded(gpu, status, [&] { *transfer = fake::copied(gpu, to, from->block.data() + offset_bytes, bytes); });
}

void wait(spillway_cuda_transfer* transfer, spillway_cuda_status* status) {
    const std::lock_guard<std::recursive_mutex> hold(fake::lock());
    fake::guarded(transfer->gpu, status, [] {});
    --transfer->gpu->children;
    delete transfer;
}

spillway_cuda_functions functions = {SPILLWAY_CUDA_ABI_VERSION,
                                     SPILLWAY_CUDA_FUNCTION_COUNT,
                                     open_device,
                                     close_device,
                                     memory_info,
                                     reset_peak,
                                     trim,
                                     set_cancelled,
                                     synchronize,
                                     allocate,
                                     free_buffer,
                                     allocate_pinned,
                                     free_pinned,
                                     upload,
                                     download,
                                     wait,
                                     fake::create_table,
                                     fake::free_table,
                                     fake::table_size,
                                     fake::table_column,
                                     fake::open_lane,
                                     fake::send_rows,
                                     fake::fetch_rows,
                                     fake::wait_lane,
                                     fake::close_lane,
                                     fake::join_tables,
                                     fake::count_join,
                                     fake::group_table,
                                     fake::begin_join,
                                     fake::next_piece,
                                     fake::free_pieces,
                                     fake::begin_staged_join,
                                     fake::begin_coherent_join,
                                     fake::begin_staged_group_by,
                                     fake::run_streams,
                                     fake::free_stream,
                                     open_peer,
                                     fake::begin_baseline_join};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED uint32_t spillway_cuda_abi_version(void) {
    return is_asked_for("version") ? SPILLWAY_CUDA_ABI_VERSION - 1 : SPILLWAY_CUDA_ABI_VERSION;
}

EXPORTED void spillway_cuda_list_devices(spillway_cuda_devices* devices) {
    misbehave();
    std::memset(devices, 0, sizeof *devices);
    if (is_asked_for("none")) {
        std::snprintf(devices->reason, sizeof devices->reason, "no driver");
        return;
    }
    devices->count = 1;
    devices->device[0].multiprocessors = 132;
    devices->device[0].compute_major = 9;
    devices->device[0].memory_bytes = uint64_t{1} << 37;
    // As behind NVLink-C2C: what allocate_pinned() gives is plain memory there.
    const bool coherent = is_asked_for("host-page-tables");
    devices->device[0].pageable_access = devices->device[0].host_page_tables = coherent ? 1 : 0;
    std::snprintf(devices->device[0].name, sizeof devices->device[0].name, "Fake GPU");
}

EXPORTED const spillway_cuda_functions* spillway_cuda_get_functions(void) {
    functions.wait = is_asked_for("incomplete") ? nullptr : wait;
    return &functions;
}

// How many devices are open, for the tests.
EXPORTED int spillway_fake_open_gpus(void) {
    return open_gpus;
}
