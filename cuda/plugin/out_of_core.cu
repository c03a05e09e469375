// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "coherent_join/coherent_join.hpp"
#include "device/guard.hpp"
#include "out_of_core/out_of_core_join.hpp"
#include "plugin/handles.hpp"
#include "plugin/out_of_core.hpp"
#include "plugin/out_of_core_callbacks.hpp"

// The child is the first member, so that it is counted until the memory is back in its pools.
struct spillway_cuda_out_of_core {
    spillway_cuda_out_of_core(spillway_cuda_gpu* gpu, const spillway::cuda::OutOfCoreSpec& spec,
                              const spillway_cuda_disk* given)
        : child(gpu), open(gpu), columns(spec.output.size()), disk(given) {
        widths[0] = spec.widths[0].size();
        widths[1] = spec.widths[1].size();
    }
    spillway::cuda::Child child;
    spillway::cuda::OpenOperation open;
    size_t widths[2];  // numbers of columns
    size_t columns;    // of the output
    spillway::cuda::CallbackDisk disk;
    spillway::cuda::PoolClaim memory;  // all that it will take: between callbacks it has less
    // One of them.
    std::unique_ptr<spillway::cuda::OutOfCoreJoin> staged;
    std::unique_ptr<spillway::cuda::CoherentJoin> coherent;
};

namespace spillway::cuda {

namespace {

// More would be chunks of few rows: each leaves a page of each partition unfilled.
constexpr uint64_t kChunksMax = 1ULL << 20;

constexpr const char* kPurpose = "a join out of core";

OutOfCoreSizes sizes_of(const spillway_cuda_out_of_core_sizes& given) {
    OutOfCoreSizes sizes;
    require(given.radix_bits < 32, "a join out of core has too many radix bits");
    sizes.radix_bits = static_cast<int>(given.radix_bits);
    sizes.chunk_rows = given.chunk_rows;
    sizes.chunk_slots = given.chunk_slots;
    sizes.page_rows = given.page_rows;
    sizes.pages = given.pages;
    sizes.resident_partitions = given.resident_partitions;
    sizes.spill_block_bytes = given.spill_block_bytes;
    sizes.spill_bytes = given.spill_bytes;
    sizes.result_rows = given.result_rows;
    sizes.result_slots = given.result_slots;
    sizes.disk_block_bytes = given.disk_block_bytes;
    sizes.disk_blocks = given.disk_blocks;
    sizes.filter_words = given.filter_words;
    return sizes;
}

OutOfCoreSpec spec_of(const spillway_cuda_out_of_core_spec& given) {
    OutOfCoreSpec spec;
    spec.key_bytes = given.key_bytes;
    for (int side = 0; side < 2; ++side) {
        const spillway_cuda_widths& widths = given.widths[side];
        spec.widths[side].assign(widths.width, widths.width + widths.count);
    }
    spec.kind.emit = enumerator(given.emit, JoinEmit::kProbeOnce, "a join gives rows of no known side");
    spec.kind.anti = given.anti != 0;
    spec.kind.keep_unmatched_build = given.keep_unmatched_build != 0;
    spec.kind.keep_unmatched_probe = given.keep_unmatched_probe != 0;
    spec.result = enumerator(given.result, OutOfCoreResult::kRows, "a join gives a result of no known kind");
    for (uint64_t i = 0; i < given.output_count; ++i) {
        const spillway_cuda_output_column& column = given.outputs[i];
        spec.output.push_back(
            {enumerator(column.side, OutputSide::kPresence, "a result column is of no known side"), column.column});
    }
    spec.sizes = sizes_of(given.sizes);
    return spec;
}

CoherentSpec coherent_spec_of(const OutOfCoreSpec& join, const spillway_cuda_coherent& given) {
    require(join.sizes.chunk_rows > 0, "chunks have at least a row");
    CoherentSpec spec;
    spec.join = join;
    CoherentOptions& options = spec.options;
    options.device_bytes = given.device_bytes;
    uint64_t chunks = 1;
    for (int side = 0; side < 2; ++side) {
        spec.rows[side] = given.rows[side];
        chunks = std::max(chunks, (given.rows[side] + join.sizes.chunk_rows - 1) / join.sizes.chunk_rows);
    }
    require(chunks <= kChunksMax, "a join by kernels alone has too many chunks");
    options.chunks = static_cast<uint32_t>(chunks);
    if (given.partitioner != SPILLWAY_CUDA_BEST_PARTITIONER) {
        options.partitioner = enumerator(given.partitioner, FarPartitioner::kBulk, "there is no such partitioner");
    }
    options.partition_grid = given.partition_blocks;
    options.gather_grid = given.gather_blocks;
    options.page_rows = join.sizes.page_rows;
    return spec;
}

uint64_t claimed_bytes(Device& device, const OutOfCoreSpec& join, const spillway_cuda_coherent* coherent) {
    if (coherent == nullptr) return OutOfCoreJoin::device_bytes(join);
    return std::min(coherent->device_bytes, device.memory().free_bytes());
}

void tell(const OutOfCoreReport& from, Device& device, uint64_t* sums, spillway_cuda_out_of_core_report* report) {
    report->rows[SPILLWAY_CUDA_BUILD] = from.build_rows;
    report->rows[SPILLWAY_CUDA_PROBE] = from.probe_rows;
    report->result_rows = from.result_rows;
    report->h2d_bytes = from.h2d_bytes;
    report->d2h_bytes = from.d2h_bytes;
    for (int side = 0; side < 2; ++side) {
        report->spilled_rows[side] = from.spilled_rows[side];
        report->spilled_bytes[side] = from.spilled_bytes[side];
    }
    report->disk_written_bytes = from.disk_written_bytes;
    report->disk_read_bytes = from.disk_read_bytes;
    report->resident_partitions = from.resident_partitions;
    report->build_ms = from.build_ms;
    report->probe_ms = from.probe_ms;
    report->spilled_ms = from.spilled_ms;
    report->peak_bytes = device.memory().peak_bytes();
    report->dropped_rows = from.dropped_rows;
    if (sums != nullptr) std::copy(from.sums.begin(), from.sums.end(), sums);
}

// Calls use(source, sink or nullptr) with the device to itself, but for the time in callbacks.
template <class Use>
void run(spillway_cuda_out_of_core* join, int side, const spillway_cuda_source& given, const spillway_cuda_sink* sink,
         Use&& use) {
    spillway_cuda_gpu* const gpu = join->child.gpu();
    std::unique_lock<std::mutex> lock(gpu->mutex);
    gpu->device.make_current();
    gpu->device.check_cancelled();
    const PoolClaim::User user(join->memory);
    CallbackSource source(given, join->widths[side], lock);
    if (sink == nullptr) return use(source, nullptr);
    CallbackSink rows(*sink, join->columns, lock);
    use(source, &rows);
}

}  // namespace

void out_of_core_bytes_call(const spillway_cuda_out_of_core_spec* spec, uint64_t* bytes, spillway_cuda_status* status) {
    *bytes = 0;
    guarded(status, [&] {
        const OutOfCoreSpec staged = spec_of(*spec);
        *bytes = spec->coherent == nullptr ? OutOfCoreJoin::device_bytes(staged) : spec->coherent->device_bytes;
    });
}

void begin_out_of_core_call(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_spec* spec,
                            spillway_cuda_out_of_core** join, spillway_cuda_status* status) {
    *join = nullptr;
    guarded(status, [&] {
        const OutOfCoreSpec wanted = spec_of(*spec);
        std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        auto begun = std::make_unique<spillway_cuda_out_of_core>(gpu, wanted, spec->disk);
        begun->memory = gpu->device.memory().claim(claimed_bytes(gpu->device, wanted, spec->coherent), kPurpose);
        const PoolClaim::User user(begun->memory);
        if (spec->coherent == nullptr) {
            begun->staged = std::make_unique<OutOfCoreJoin>(gpu->device, wanted, nullptr, begun->disk.usable());
        } else {
            begun->coherent = std::make_unique<CoherentJoin>(gpu->device, coherent_spec_of(wanted, *spec->coherent));
        }
        *join = begun.release();
    });
}

void build_out_of_core_call(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                            const spillway_cuda_sink* sink, uint64_t* partition_rows, spillway_cuda_status* status) {
    guarded(status, [&] {
        run(join, SPILLWAY_CUDA_BUILD, *source, sink, [&](ChunkSource& chunks, ResultSink* rows) {
            join->coherent != nullptr ? join->coherent->build(chunks) : join->staged->build(chunks, rows);
            const std::vector<uint64_t>& found =
                join->coherent != nullptr ? join->coherent->partition_rows() : join->staged->partition_rows();
            if (partition_rows != nullptr) std::copy(found.begin(), found.end(), partition_rows);
        });
    });
}

void probe_out_of_core_call(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                            const spillway_cuda_sink* sink, uint64_t* sums, spillway_cuda_out_of_core_report* report,
                            spillway_cuda_status* status) {
    *report = {};
    guarded(status, [&] {
        run(join, SPILLWAY_CUDA_PROBE, *source, sink, [&](ChunkSource& chunks, ResultSink* rows) {
            const OutOfCoreReport& done =
                join->coherent != nullptr ? join->coherent->probe(chunks, rows) : join->staged->probe(chunks, rows);
            tell(done, join->child.gpu()->device, sums, report);
        });
    });
}

// Its destructors wait for the device, which others may use meanwhile but not take memory of in between.
void free_out_of_core(spillway_cuda_out_of_core* join) {
    if (join == nullptr) return;
    guarded(nullptr, [&] {
        spillway_cuda_gpu* const gpu = join->child.gpu();
        std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        delete join;
    });
}

}  // namespace spillway::cuda
