// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_out_of_core_group.hpp"

#include "cuda/device/plugin.h"
#include "device/gpu_callbacks.hpp"
#include "device/gpu_error.hpp"

namespace spillway {

namespace {

// The plain structs of a spec and what they point at.
struct PlainGroupSpec {
    explicit PlainGroupSpec(const GpuOutOfCoreGroupSpec& from, GpuSpillDisk* to = nullptr) : disk(plain_disk(to)) {
        for (const GpuPartial& aggregate : from.aggregates) {
            aggregates.push_back(
                {static_cast<int32_t>(aggregate.kind), static_cast<int32_t>(aggregate.number), aggregate.column});
        }
        spec.key_bytes = from.key_bytes;
        spec.null_group = from.null_group ? 1 : 0;
        spec.widths = {from.widths.size(), from.widths.data()};
        spec.aggregate_count = aggregates.size();
        spec.aggregates = aggregates.data();
        const GpuOutOfCoreGroupSizes& sizes = from.sizes;
        spec.sizes = {sizes.radix_bits,
                      sizes.chunk_slots,
                      sizes.chunk_rows,
                      sizes.page_rows,
                      sizes.pages,
                      sizes.merge_rows,
                      sizes.spill_block_bytes,
                      sizes.spill_bytes,
                      sizes.result_rows,
                      sizes.result_slots,
                      static_cast<int32_t>(sizes.pre_aggregation),
                      sizes.disk_block_bytes,
                      sizes.disk_blocks};
        spec.disk = to == nullptr ? nullptr : &disk;
    }
    PlainGroupSpec(const PlainGroupSpec&) = delete;

    std::vector<spillway_cuda_out_of_core_aggregate> aggregates;
    const spillway_cuda_disk disk;
    spillway_cuda_out_of_core_group_spec spec{};
};

}  // namespace

template <>
void detail::GpuOwned<spillway_cuda_out_of_core_group>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.out_of_core_group.free(std::exchange(handle_, nullptr));
    open_.reset();
}

std::vector<uint32_t> GpuOutOfCoreGroupSpec::output_widths() const {
    std::vector<uint32_t> made{key_bytes};
    if (null_group) made.push_back(1);
    for (const GpuPartial& aggregate : aggregates) {
        const bool chooses = aggregate.kind == GpuPartialKind::kMin || aggregate.kind == GpuPartialKind::kMax;
        made.push_back(chooses ? widths.at(aggregate.column) : 8);
    }
    return made;
}

uint64_t GpuOutOfCoreGroupBy::device_bytes(const GpuDevice& device, const GpuOutOfCoreGroupSpec& spec) {
    const PlainGroupSpec plain(spec);
    spillway_cuda_status status{};
    uint64_t bytes = 0;
    device.functions().out_of_core_group.bytes(&plain.spec, &bytes, &status);
    check_gpu(status, device.ordinal());
    return bytes;
}

GpuOutOfCoreGroupBy GpuOutOfCoreGroupBy::begin(GpuDevice& device, const GpuOutOfCoreGroupSpec& spec,
                                               GpuSpillDisk* disk) {
    const PlainGroupSpec plain(spec, disk);
    spillway_cuda_status status{};
    spillway_cuda_out_of_core_group* handle = nullptr;
    device.functions().out_of_core_group.begin(device.handle(), &plain.spec, &handle, &status);
    check_gpu(status, device.ordinal());
    GpuOutOfCoreGroupBy group_by(device.shared(), handle);
    group_by.disk_ = disk;
    return group_by;
}

GpuOutOfCoreGroupReport GpuOutOfCoreGroupBy::run(GpuChunkSource& source, GpuResultSink* sink) {
    Callbacks callbacks(source, sink);
    spillway_cuda_status status{};
    spillway_cuda_out_of_core_group_report told{};
    open_->functions.out_of_core_group.run(handle_, &callbacks.plain_source, callbacks.rows(), &told, &status);
    callbacks.check(status, open_->ordinal, disk_);
    GpuOutOfCoreGroupReport report;
    report.rows = told.rows;
    report.groups = told.groups;
    report.partial_rows = told.partial_rows;
    report.chunks = told.chunks;
    report.grouped_chunks = told.grouped_chunks;
    report.compacted_rows = told.compacted_rows;
    report.h2d_bytes = told.h2d_bytes;
    report.d2h_bytes = told.d2h_bytes;
    report.spilled_rows = told.spilled_rows;
    report.spilled_bytes = told.spilled_bytes;
    report.resident_partitions = told.resident_partitions;
    report.read_ms = told.read_ms;
    report.resident_ms = told.resident_ms;
    report.spilled_ms = told.spilled_ms;
    report.peak_bytes = told.peak_bytes;
    report.disk_written_bytes = told.disk_written_bytes;
    report.disk_read_bytes = told.disk_read_bytes;
    return report;
}

}  // namespace spillway
