// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_out_of_core.hpp"

#include <utility>

#include "cuda/device/plugin.h"
#include "device/gpu_callbacks.hpp"
#include "device/gpu_error.hpp"

namespace spillway {

namespace {

// The plain structs of a spec and what they point at.
struct PlainSpec {
    explicit PlainSpec(const GpuOutOfCoreSpec& from, GpuSpillDisk* to = nullptr) : disk(plain_disk(to)) {
        for (const GpuOutputColumn& output : from.outputs) {
            outputs.push_back({static_cast<int32_t>(output.side), output.column});
        }
        spec.key_bytes = from.key_bytes;
        spec.emit = static_cast<int32_t>(from.emit);
        spec.anti = from.anti ? 1 : 0;
        spec.keep_unmatched_build = from.keep_unmatched_build ? 1 : 0;
        spec.keep_unmatched_probe = from.keep_unmatched_probe ? 1 : 0;
        spec.result = static_cast<int32_t>(from.result);
        for (const size_t side : {kBuildSide, kProbeSide}) {
            spec.widths[side] = {from.widths[side].size(), from.widths[side].data()};
        }
        spec.output_count = outputs.size();
        spec.outputs = outputs.data();
        const GpuOutOfCoreSizes& sizes = from.sizes;
        spec.sizes = {sizes.radix_bits,  sizes.chunk_slots,         sizes.chunk_rows,       sizes.page_rows,
                      sizes.pages,       sizes.resident_partitions, sizes.result_slots,     sizes.spill_block_bytes,
                      sizes.spill_bytes, sizes.result_rows,         sizes.disk_block_bytes, sizes.disk_blocks,
                      sizes.filter_words};
        spec.disk = to == nullptr ? nullptr : &disk;
        if (!from.coherent) return;
        const GpuCoherent& given = *from.coherent;
        coherent = {{given.rows[kBuildSide], given.rows[kProbeSide]},
                    given.device_bytes,
                    static_cast<int32_t>(given.partitioner),
                    given.partition_blocks,
                    given.gather_blocks};
        spec.coherent = &coherent;
    }
    PlainSpec(const PlainSpec&) = delete;

    std::vector<spillway_cuda_output_column> outputs;
    const spillway_cuda_disk disk;
    spillway_cuda_coherent coherent{};
    spillway_cuda_out_of_core_spec spec{};
};

}  // namespace

template <>
void detail::GpuOwned<spillway_cuda_out_of_core>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.free_out_of_core(std::exchange(handle_, nullptr));
    open_.reset();
}

void GpuSpillDisk::keep(std::exception_ptr thrown) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!thrown_) thrown_ = std::move(thrown);
}

std::exception_ptr GpuSpillDisk::kept() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return thrown_;
}

uint32_t GpuOutOfCoreSpec::output_width(const GpuOutputColumn& output) const {
    if (output.side == GpuOutputSide::kKey) return key_bytes;
    if (output.side == GpuOutputSide::kPresence) return 1;
    return widths[output.side == GpuOutputSide::kBuild ? kBuildSide : kProbeSide].at(output.column);
}

bool GpuOutOfCoreSpec::keeps_lone_probe_rows() const {
    return keep_unmatched_probe || (emit == GpuJoinEmit::kProbeOnce && anti);
}

bool GpuOutOfCoreSpec::can_be_coherent() const {
    const bool pairs = emit == GpuJoinEmit::kPairs && !keep_unmatched_build && !keep_unmatched_probe;
    const auto fits = [this](const std::vector<uint32_t>& of) {
        return of.empty() || (of.size() == 1 && of[0] == key_bytes);
    };
    return pairs && fits(widths[kBuildSide]) && fits(widths[kProbeSide]);
}

uint64_t GpuOutOfCoreJoin::device_bytes(const GpuDevice& device, const GpuOutOfCoreSpec& spec) {
    const PlainSpec plain(spec);
    spillway_cuda_status status{};
    uint64_t bytes = 0;
    device.functions().out_of_core_bytes(&plain.spec, &bytes, &status);
    check_gpu(status, device.ordinal());
    return bytes;
}

GpuOutOfCoreJoin GpuOutOfCoreJoin::begin(GpuDevice& device, const GpuOutOfCoreSpec& spec, GpuSpillDisk* disk) {
    const PlainSpec plain(spec, disk);
    spillway_cuda_status status{};
    spillway_cuda_out_of_core* handle = nullptr;
    device.functions().begin_out_of_core(device.handle(), &plain.spec, &handle, &status);
    check_gpu(status, device.ordinal());
    GpuOutOfCoreJoin join(device.shared(), handle);
    join.partitions_ = uint64_t{1} << spec.sizes.radix_bits;
    join.disk_ = disk;
    join.sums_ = spec.result == GpuOutOfCoreResult::kSums ? spec.outputs.size() : 0;
    return join;
}

std::vector<uint64_t> GpuOutOfCoreJoin::build(GpuChunkSource& source, GpuResultSink* sink) {
    Callbacks callbacks(source, sink);
    std::vector<uint64_t> partition_rows(partitions_);
    spillway_cuda_status status{};
    open_->functions.build_out_of_core(handle_, &callbacks.plain_source, callbacks.rows(), partition_rows.data(),
                                       &status);
    callbacks.check(status, open_->ordinal, disk_);
    return partition_rows;
}

GpuOutOfCoreReport GpuOutOfCoreJoin::probe(GpuChunkSource& source, GpuResultSink* sink) {
    Callbacks callbacks(source, sink);
    GpuOutOfCoreReport report;
    report.sums.resize(sums_);
    spillway_cuda_status status{};
    spillway_cuda_out_of_core_report told{};
    open_->functions.probe_out_of_core(handle_, &callbacks.plain_source, callbacks.rows(), report.sums.data(), &told,
                                       &status);
    callbacks.check(status, open_->ordinal, disk_);
    report.result_rows = told.result_rows;
    report.h2d_bytes = told.h2d_bytes;
    report.d2h_bytes = told.d2h_bytes;
    for (const size_t side : {kBuildSide, kProbeSide}) {
        report.rows[side] = told.rows[side];
        report.spilled_rows[side] = told.spilled_rows[side];
        report.spilled_bytes[side] = told.spilled_bytes[side];
    }
    report.disk_written_bytes = told.disk_written_bytes;
    report.disk_read_bytes = told.disk_read_bytes;
    report.resident_partitions = told.resident_partitions;
    report.build_ms = told.build_ms;
    report.probe_ms = told.probe_ms;
    report.spilled_ms = told.spilled_ms;
    report.peak_bytes = told.peak_bytes;
    report.dropped_rows = told.dropped_rows;
    return report;
}

}  // namespace spillway
