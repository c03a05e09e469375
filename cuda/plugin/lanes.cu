// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/guard.hpp"
#include "link/link_copy.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"

namespace spillway::cuda { inline namespace plugin {

namespace {

uint8_t* range_of(const DeviceTable& table, const TableCopy& copy) {
    require(copy.column < table.columns.size(), "a copy names a column that the table does not have");
    const TableColumn& column = table.columns[copy.column];
    const Allocation* block = nullptr;
    if (copy.part == ColumnPart::kValues) block = &column.values;
    if (copy.part == ColumnPart::kOffsets) block = &column.offsets;
    if (copy.part == ColumnPart::kValidity) block = &column.validity;
    require(block != nullptr, "a copy is of no known part of a column");
    require(copy.offset_bytes <= block->bytes() && copy.bytes <= block->bytes() - copy.offset_bytes,
            "a copy exceeds its part of a column");
    return block->as<uint8_t>() + copy.offset_bytes;
}

uint64_t address_of(const void* host) {
    return reinterpret_cast<uint64_t>(host);
}

LinkCopy packed_copy(const StagingPool& pinned, const TableColumn& column, const TableCopy& copy, uint8_t* device) {
    const uint32_t width = column.width;
    require(copy.part == ColumnPart::kValues && column.kind == ColumnKind::kFixed && can_pack(width),
            "values of no such column are packed");
    require(copy.offset_bytes % width == 0 && copy.bytes % width == 0, "a copy packs parts of values");
    require(address_of(copy.host) % 64 == 0, "packed values begin inside of a line");
    const uint64_t blocks = (copy.bytes / width + kPackedValues - 1) / kPackedValues * packed_planes(width);
    require(copy.bytes / 64 <= UINT32_MAX - kPackedValues * width / 64, "a copy has more lines than its blocks count");
    const bool reached = pinned.holds(copy.host, blocks * kPackedValues * (width / packed_planes(width))) &&
                         pinned.holds(copy.blocks, blocks * sizeof(PackedBlock));
    require(reached, "packed values lie in memory that the device does not reach");
    return {device, static_cast<uint8_t*>(copy.host), copy.blocks, copy.bytes, width};
}

using Pageable = std::vector<LinkCopy>;

// What kernels copy; the rest goes to `pageable`.
std::vector<LinkCopy> copies_of(spillway_cuda_gpu* gpu, const DeviceTable& table, const TableCopy* copies,
                                uint64_t count, Pageable& pageable) {
    std::vector<LinkCopy> made;
    for (uint64_t i = 0; i < count; ++i) {
        const TableCopy& copy = copies[i];
        uint8_t* const device = range_of(table, copy);
        if (copy.bytes == 0) continue;
        const StagingPool& pinned = gpu->device.staging();
        if (copy.packed) {
            made.push_back(packed_copy(pinned, table.columns[copy.column], copy, device));
            continue;
        }
        const LinkCopy plain{device, static_cast<uint8_t*>(copy.host), nullptr, copy.bytes, 1};
        const bool reached = pinned.holds(copy.host, copy.bytes);
        require(!reached || (address_of(copy.host) - address_of(device)) % 16 == 0,
                "the two ends of a copy lie at different places in 16 bytes");
        (reached ? made : pageable).push_back(plain);
    }
    return made;
}

void wait_for(spillway_cuda_transfer* transfer) {
    const std::unique_ptr<spillway_cuda_transfer> owned(transfer);
    owned->copied.synchronize();
}

// What kernels read or write of the host's memory, they have done when this throws: its owner may free it then.
void start(spillway_cuda_lane* lane, uint32_t slot, const std::vector<LinkCopy>& copies,
           void (*copy)(const std::vector<LinkCopy>&, cudaStream_t)) {
    const cudaStream_t stream = lane->lane->stream.get();
    try {
        copy(copies, stream);
        lane->lane->copied[slot].record(stream);
    } catch (...) {
        discard(cudaStreamSynchronize(stream));
        throw;
    }
}

void begin(spillway_cuda_lane* lane, uint32_t slot, bool has_table) {
    require(lane != nullptr && has_table, "no lane, or no table");
    require(slot < SPILLWAY_CUDA_LANE_SLOTS, "a lane has no such slot");
    Device& device = lane->child.gpu()->device;
    device.make_current();
    device.check_cancelled();
}

}  // namespace

void open_lane(spillway_cuda_gpu* gpu, spillway_cuda_lane** lane, spillway_cuda_status* status) {
    *lane = nullptr;
    guarded(status, [&] {
        gpu->device.make_current();
        std::unique_ptr<LaneStream> stream;
        {
            const std::lock_guard<std::mutex> lock(gpu->lanes_mutex);
            if (!gpu->idle_lanes.empty()) {
                stream = std::move(gpu->idle_lanes.back());
                gpu->idle_lanes.pop_back();
            }
        }
        if (stream == nullptr) stream = std::make_unique<LaneStream>();
        const std::lock_guard<std::mutex> lock(gpu->mutex);
        stream->stream.wait_for(gpu->device.stream());
        *lane = std::make_unique<spillway_cuda_lane>(gpu, std::move(stream)).release();
    });
}

void send_rows(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_table* to, const TableCopy* copies,
               uint64_t copy_count, spillway_cuda_status* status) {
    guarded(status, [&] {
        begin(lane, slot, to != nullptr);
        spillway_cuda_gpu* const gpu = lane->child.gpu();
        Pageable pageable;
        start(lane, slot, copies_of(gpu, to->table, copies, copy_count, pageable), send_to_device);
        for (const LinkCopy& copy : pageable) wait_for(start_upload(gpu, copy.device, copy.host, copy.bytes));
    });
}

void fetch_rows(spillway_cuda_lane* lane, uint32_t slot, const spillway_cuda_table* from, const TableCopy* copies,
                uint64_t copy_count, spillway_cuda_status* status) {
    guarded(status, [&] {
        begin(lane, slot, from != nullptr);
        spillway_cuda_gpu* const gpu = lane->child.gpu();
        Pageable pageable;
        start(lane, slot, copies_of(gpu, from->table, copies, copy_count, pageable), fetch_to_host);
        for (const LinkCopy& copy : pageable) wait_for(start_download(gpu, copy.host, copy.device, copy.bytes));
    });
}

void wait_lane(spillway_cuda_lane* lane, uint32_t slot, spillway_cuda_status* status) {
    guarded(status, [&] {
        require(slot < SPILLWAY_CUDA_LANE_SLOTS, "a lane has no such slot");
        lane->child.gpu()->device.make_current();
        lane->lane->copied[slot].synchronize();
    });
}

void close_lane(spillway_cuda_lane* lane) {
    if (lane == nullptr) return;
    guarded(nullptr, [&] {
        const std::unique_ptr<spillway_cuda_lane> owned(lane);
        spillway_cuda_gpu* const gpu = lane->child.gpu();
        if (!try_set_device(gpu->device.ordinal())) return;
        // Pinned memory is used again as soon as its block goes, so the device must be done with it.
        if (cudaStreamSynchronize(lane->lane->stream.get()) != cudaSuccess) {
            discard(cudaGetLastError());
            return;
        }
        const std::lock_guard<std::mutex> lock(gpu->lanes_mutex);
        gpu->idle_lanes.push_back(std::move(lane->lane));
    });
}

}}  // namespace spillway::cuda::plugin
