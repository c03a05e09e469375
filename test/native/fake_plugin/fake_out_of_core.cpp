// SPDX-License-Identifier: Apache-2.0
// Joins of relations larger than GPU memory in the most obvious way: a map of the build side's keys.
#include "fake_out_of_core.hpp"

#include <algorithm>

namespace fake {

namespace {

enum Emit : int32_t { kPairs, kBuildOnce, kProbeOnce };
enum Side : int32_t { kBuild, kProbe, kKey, kPresence };

void require(bool holds, const char* what) {
    if (!holds) throw Failure{SPILLWAY_CUDA_INVALID, what};
}

void check_coherent(const OutOfCorePlan& plan) {
    const spillway_cuda_out_of_core_spec& spec = plan.spec;
    require(spec.emit == kPairs && spec.keep_unmatched_build == 0 && spec.keep_unmatched_probe == 0, "pairs alone");
    for (const std::vector<uint32_t>& widths : plan.widths) {
        require(widths.empty() || (widths.size() == 1 && widths[0] == spec.key_bytes),
                "no payload or one like the key");
    }
    const uint64_t page_bytes = spec.sizes.page_rows * 2 * spec.key_bytes;
    require(page_bytes >= 128 && page_bytes <= 2U << 20, "pages of 128 bytes to 2 MiB");
    require(spec.sizes.filter_words == 0 && spec.sizes.disk_blocks == 0, "no filter and no disk");
    require(plan.coherent.partitioner >= -1 && plan.coherent.partitioner <= 4, "a partitioner that exists");
    require(plan.coherent.device_bytes > 0, "memory of the GPU");
}

void check(const OutOfCorePlan& plan) {
    const spillway_cuda_out_of_core_sizes& sizes = plan.spec.sizes;
    require(plan.spec.key_bytes == 4 || plan.spec.key_bytes == 8, "keys have 4 or 8 bytes");
    require(plan.row_bytes(0) <= 32 && plan.row_bytes(1) <= 32, "rows have 32 bytes at most");
    require(sizes.radix_bits <= 12 && sizes.chunk_rows > 0 && sizes.chunk_slots > 0, "impossible sizes");
    require(sizes.page_rows > 0 && (sizes.page_rows & (sizes.page_rows - 1)) == 0, "pages of 2^n rows");
    if (plan.is_coherent()) {
        check_coherent(plan);
    } else {
        require(sizes.pages * sizes.page_rows >= sizes.chunk_rows + sizes.page_rows, "too few pages");
    }
    const bool rows = plan.spec.result == SPILLWAY_CUDA_RESULT_ROWS;
    require(!rows || (sizes.result_rows > 0 && sizes.result_slots > 0), "no room for a result");
    require(sizes.filter_words != 1 && (sizes.filter_words & (sizes.filter_words - 1)) == 0, "filters of 2^n words");
    const bool lone = plan.spec.keep_unmatched_probe != 0 || (plan.spec.emit == kProbeOnce && plan.spec.anti != 0);
    require(!lone || sizes.filter_words == 0, "a filter would lose probe rows without a partner");
}

}  // namespace

OutOfCorePlan::OutOfCorePlan(const spillway_cuda_out_of_core_spec& given) : spec(given) {
    for (int side = 0; side < 2; ++side) {
        const spillway_cuda_widths& from = given.widths[side];
        widths[side].assign(from.width, from.width + from.count);
        spec.widths[side].width = widths[side].data();
    }
    outputs.assign(given.outputs, given.outputs + given.output_count);
    spec.outputs = outputs.data();
    if (given.coherent == nullptr) return;
    coherent = *given.coherent;
    spec.coherent = &coherent;
}

uint64_t OutOfCorePlan::row_bytes(int side) const {
    uint64_t bytes = spec.key_bytes;
    for (const uint32_t width : widths[side]) bytes += width;
    return (bytes + 3) / 4 * 4;
}

uint32_t OutOfCorePlan::output_width(const spillway_cuda_output_column& output) const {
    if (output.side == kKey) return spec.key_bytes;
    if (output.side == kPresence) return 1;
    return widths[output.side].at(output.column);
}

OutOfCore::OutOfCore(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_spec& spec)
    : gpu_(gpu),
      plan_(spec),
      disk_(spec.disk, spec.sizes.disk_block_bytes, spec.sizes.disk_blocks),
      filter_(spec.sizes.filter_words) {
    check(plan_);
    const uint64_t bytes = fake::out_of_core_bytes(plan_.spec);
    memory_ = OperationMemory(gpu, bytes, "a join out of core");
    // Half of it for pages.
    if (plan_.is_coherent()) near_rows_ = bytes / 2 / (2 * spec.key_bytes);
    pending_.resize(plan_.outputs.size());
    sums_.resize(plan_.outputs.size());
}

Row OutOfCore::row_of(const spillway_cuda_chunk& chunk, int side, uint64_t row) const {
    Row made;
    made.has_key = chunk.key_valid == nullptr || (chunk.key_valid[row / 32] >> (row % 32) & 1) != 0;
    const uint32_t key_bytes = plan_.spec.key_bytes;
    if (made.has_key) std::memcpy(&made.key, static_cast<const char*>(chunk.key) + row * key_bytes, key_bytes);
    for (size_t c = 0; c < plan_.widths[side].size(); ++c) {
        const uint32_t width = plan_.widths[side][c];
        made.columns.emplace_back(static_cast<const char*>(chunk.columns[c]) + row * width, width);
    }
    return made;
}

uint64_t OutOfCore::partition_of(const Row& row) const {
    const uint32_t bits = plan_.spec.sizes.radix_bits;
    return bits == 0 ? 0 : row.key * 0x9e3779b97f4a7c15ULL >> (64 - bits);
}

template <class Use>
void OutOfCore::read(const spillway_cuda_source& source, int side, Use use) {
    struct Taken {
        spillway_cuda_chunk chunk;
        std::vector<const void*> columns;
    };
    std::deque<Taken> taken;
    const auto use_oldest = [&] {
        Taken& oldest = taken.front();
        oldest.chunk.columns = oldest.columns.data();
        for (uint64_t row = 0; row < oldest.chunk.rows; ++row) use(row_of(oldest.chunk, side, row));
        taken.pop_front();
        source.release(source.context);
    };
    for (;;) {
        fake::check(gpu_);
        if (taken.size() == plan_.spec.sizes.chunk_slots) use_oldest();
        Taken next{};
        if (call_back(memory_, [&] { return source.next(source.context, &next.chunk); }) == 0) break;
        const spillway_cuda_chunk& chunk = next.chunk;
        if (chunk.rows > plan_.spec.sizes.chunk_rows) throw Failure{SPILLWAY_CUDA_INVALID, "a chunk is too large"};
        next.columns.assign(chunk.columns, chunk.columns + plan_.widths[side].size());
        report_.rows[side] += chunk.rows;
        require(!plan_.is_coherent() || report_.rows[side] <= plan_.coherent.rows[side], "a side has too many rows");
        report_.h2d_bytes += chunk.rows * plan_.spec.key_bytes;
        for (const uint32_t width : plan_.widths[side]) report_.h2d_bytes += chunk.rows * width;
        if (chunk.key_valid != nullptr) report_.h2d_bytes += (chunk.rows + 31) / 32 * 4;
        taken.push_back(std::move(next));
        fail_here(side == SPILLWAY_CUDA_BUILD ? "lost-build" : "lost-probe");
    }
    while (!taken.empty()) use_oldest();
}

void OutOfCore::build(const spillway_cuda_source& source, const spillway_cuda_sink* sink, uint64_t* partition_rows) {
    const spillway_cuda_out_of_core_sizes& sizes = plan_.spec.sizes;
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    std::vector<uint64_t> counts(partitions);
    sink_ = sink;
    read(source, SPILLWAY_CUDA_BUILD, [&](Row row) {
        if (row.has_key) {
            const uint64_t partition = partition_of(row);
            ++counts[partition];
            filter_.add(row.key);
            table_.emplace(row.key, rows_.size());
            if (partition >= sizes.resident_partitions && spill(SPILLWAY_CUDA_BUILD, row)) {
                rows_on_disk_.push_back(rows_.size());
                row.columns.clear();
            }
        }
        rows_.push_back(std::move(row));
    });
    matched_.resize(rows_.size());
    report_.resident_partitions = std::min<uint64_t>(partitions, sizes.resident_partitions);
    report_.build_ms = 0.5;
    if (partition_rows != nullptr) std::copy(counts.begin(), counts.end(), partition_rows);
}

void OutOfCore::join_row(const Row& probe) {
    const spillway_cuda_out_of_core_spec& spec = plan_.spec;
    const auto range = probe.has_key ? table_.equal_range(probe.key) : std::make_pair(table_.end(), table_.end());
    const bool found = range.first != range.second;
    for (auto match = range.first; match != range.second; ++match) {
        matched_[match->second] = true;
        if (spec.emit == kPairs) give(&rows_[match->second], &probe);
    }
    if (spec.emit == kPairs && !found && spec.keep_unmatched_probe != 0) give(nullptr, &probe);
    if (spec.emit == kProbeOnce && found != (spec.anti != 0)) give(nullptr, &probe);
}

void OutOfCore::probe(const spillway_cuda_source& source, const spillway_cuda_sink* sink, uint64_t* sums,
                      spillway_cuda_out_of_core_report* report) {
    const spillway_cuda_out_of_core_spec& spec = plan_.spec;
    sink_ = sink;
    be_slow(gpu_);
    read(source, SPILLWAY_CUDA_PROBE, [&](Row row) {
        if (filter_.is_used() && !(row.has_key && filter_.passes(row.key))) {
            ++report_.dropped_rows;
        } else if (!row.has_key || partition_of(row) < spec.sizes.resident_partitions) {
            join_row(row);
        } else if (!spill(SPILLWAY_CUDA_PROBE, row)) {
            probe_rows_.push_back(std::move(row));
        }
    });
    join_spilled();
    for (size_t i = 0; i < rows_.size(); ++i) {
        if (spec.emit == kPairs && spec.keep_unmatched_build != 0 && !matched_[i]) give(&rows_[i], nullptr);
        if (spec.emit == kBuildOnce && matched_[i] != (spec.anti != 0)) give(&rows_[i], nullptr);
    }
    flush();
    while (!open_.empty()) close_oldest();
    for (int side = 0; side < 2; ++side) {
        report_.h2d_bytes += report_.spilled_bytes[side];
        report_.d2h_bytes += report_.spilled_bytes[side];
    }
    report_.probe_ms = 0.25;
    report_.spilled_ms = 0.125;
    report_.peak_bytes = gpu_->peak_bytes;
    if (sums != nullptr) std::copy(sums_.begin(), sums_.end(), sums);
    *report = report_;
}

void OutOfCore::give(const Row* build, const Row* probe) {
    ++report_.result_rows;
    const Row& any = build == nullptr ? *probe : *build;
    const int bits = (build == nullptr ? 0 : 1) | (probe == nullptr ? 0 : 2) | (any.has_key ? 4 : 0);
    for (size_t c = 0; c < plan_.outputs.size(); ++c) {
        const spillway_cuda_output_column& output = plan_.outputs[c];
        std::string value(plan_.output_width(output), '\0');
        if (output.side == kPresence) {
            value[0] = static_cast<char>(bits);
        } else if (output.side == kKey) {
            std::memcpy(value.data(), &any.key, value.size());
        } else if (const Row* const row = output.side == kBuild ? build : probe; row != nullptr) {
            value = row->columns[output.column];
        }
        uint64_t word = 0;
        std::memcpy(&word, value.data(), std::min<size_t>(value.size(), 8));
        sums_[c] += word;
        if (plan_.spec.result == SPILLWAY_CUDA_RESULT_ROWS) pending_[c] += value;
    }
    if (plan_.spec.result == SPILLWAY_CUDA_RESULT_ROWS && ++pending_rows_ == plan_.spec.sizes.result_rows) flush();
}

void OutOfCore::flush() {
    if (pending_rows_ == 0) return;
    fake::check(gpu_);
    if (open_.size() == plan_.spec.sizes.result_slots) close_oldest();
    Window window{pending_rows_, std::vector<void*>(plan_.outputs.size()), std::move(pending_)};
    call_back(memory_, [&] { return sink_->open(sink_->context, window.rows, window.columns.data()); });
    for (const std::string& values : window.values) report_.d2h_bytes += values.size();
    open_.push_back(std::move(window));
    pending_.assign(plan_.outputs.size(), {});
    pending_rows_ = 0;
}

void OutOfCore::close_oldest() {
    const Window& window = open_.front();
    for (size_t c = 0; c < window.columns.size(); ++c) {
        std::memcpy(window.columns[c], window.values[c].data(), window.values[c].size());
    }
    open_.pop_front();
    sink_->close(sink_->context);
    if (++closed_windows_ == kWindowsBeforeLoss) fail_here("lost-result");
}

void out_of_core_bytes(const spillway_cuda_out_of_core_spec* spec, uint64_t* bytes, spillway_cuda_status* status) {
    tell(status, SPILLWAY_CUDA_OK, "");
    *bytes = fake::out_of_core_bytes(*spec);
}

void begin_out_of_core(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_spec* spec,
                       spillway_cuda_out_of_core** join, spillway_cuda_status* status) {
    *join = nullptr;
    guarded(gpu, status, [&] {
        *join = new spillway_cuda_out_of_core{gpu, OutOfCore(gpu, *spec)};
        ++gpu->children;
    });
}

void build_out_of_core(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                       const spillway_cuda_sink* sink, uint64_t* partition_rows, spillway_cuda_status* status) {
    guarded(join->gpu, status, [&] { join->join.build(*source, sink, partition_rows); });
}

void probe_out_of_core(spillway_cuda_out_of_core* join, const spillway_cuda_source* source,
                       const spillway_cuda_sink* sink, uint64_t* sums, spillway_cuda_out_of_core_report* report,
                       spillway_cuda_status* status) {
    *report = {};
    guarded(join->gpu, status, [&] { join->join.probe(*source, sink, sums, report); });
}

void free_out_of_core(spillway_cuda_out_of_core* join) {
    if (join == nullptr) return;
    const std::lock_guard<std::recursive_mutex> hold(lock());
    --join->gpu->children;
    delete join;
}

}  // namespace fake
