// SPDX-License-Identifier: Apache-2.0
// Group-bys of relations larger than GPU memory in the most obvious way: a map of the groups.
#include "fake_out_of_core_group.hpp"

#include <algorithm>
#include <cmath>

namespace fake {

namespace {

enum Aggregate : int32_t { kCountRows, kCount, kSum, kMean, kMin, kMax };
enum Number : int32_t { kSigned, kUnsigned, kFloat };

bool chooses(const spillway_cuda_out_of_core_aggregate& aggregate) {
    return aggregate.kind == kMin || aggregate.kind == kMax;
}
bool counts(const spillway_cuda_out_of_core_aggregate& aggregate) {
    return aggregate.kind == kCountRows || aggregate.kind == kCount;
}

uint64_t aligned(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

// Of a key and its accumulators: equal ones come once, a count stands for all.
struct PartialRow {
    uint64_t bytes = 0;
    uint64_t widened = 0;
};
PartialRow partial_row(const GroupPlan& plan) {
    PartialRow row{plan.spec.key_bytes, 0};
    std::vector<spillway_cuda_out_of_core_aggregate> known;
    const auto add = [&](spillway_cuda_out_of_core_aggregate wanted) {
        if (counts(wanted)) wanted = {kCountRows, 0, 0};
        for (const auto& other : known) {
            const bool same = other.kind == wanted.kind && other.value_kind == wanted.value_kind;
            if (same && other.column == wanted.column) return;
        }
        known.push_back(wanted);
        const uint64_t own = counts(wanted) ? 0 : plan.widths.at(wanted.column);
        const uint64_t width = chooses(wanted) ? own : 8;
        row.bytes += width;
        if (own < width) row.widened += width;
    };
    for (const auto& aggregate : plan.aggregates) add(aggregate);
    row.bytes = (row.bytes + 3) / 4 * 4;
    return row;
}

void check(const GroupPlan& plan) {
    const spillway_cuda_out_of_core_group_sizes& sizes = plan.spec.sizes;
    const auto require = [](bool holds, const char* what) {
        if (!holds) throw Failure{SPILLWAY_CUDA_INVALID, what};
    };
    require(plan.spec.key_bytes == 4 || plan.spec.key_bytes == 8, "keys have 4 or 8 bytes");
    require(partial_row(plan).bytes <= 32, "partial rows have 32 bytes at most");
    require(sizes.radix_bits <= 12 && sizes.chunk_rows > 0 && sizes.chunk_slots > 0, "impossible sizes");
    require(sizes.page_rows >= 8 && (sizes.page_rows & (sizes.page_rows - 1)) == 0, "pages of 2^n rows");
    require(sizes.pages * sizes.page_rows >= sizes.chunk_rows + sizes.page_rows, "too few pages");
    require(sizes.merge_rows >= std::max(sizes.chunk_rows, sizes.page_rows), "too few rows to aggregate at once");
    require(sizes.result_rows > 0 && sizes.result_slots > 0, "no room for a result");
    for (const auto& aggregate : plan.aggregates) {
        require(aggregate.kind != kMean && aggregate.kind <= kMax, "an aggregate that the fake GPU does not have");
    }
}

}  // namespace

GroupPlan::GroupPlan(const spillway_cuda_out_of_core_group_spec& given) : spec(given) {
    widths.assign(given.widths.width, given.widths.width + given.widths.count);
    spec.widths.width = widths.data();
    aggregates.assign(given.aggregates, given.aggregates + given.aggregate_count);
    spec.aggregates = aggregates.data();
}

uint64_t GroupPlan::row_bytes() const {
    return partial_row(*this).bytes;
}

uint32_t GroupPlan::width_of(const spillway_cuda_out_of_core_aggregate& aggregate) const {
    return chooses(aggregate) ? widths.at(aggregate.column) : 8;
}

std::vector<uint32_t> GroupPlan::output_widths() const {
    std::vector<uint32_t> made{spec.key_bytes};
    if (spec.null_group != 0) made.push_back(1);
    for (const auto& aggregate : aggregates) made.push_back(width_of(aggregate));
    return made;
}

uint64_t out_of_core_group_bytes(const spillway_cuda_out_of_core_group_spec& spec) {
    const GroupPlan plan(spec);
    const spillway_cuda_out_of_core_group_sizes& sizes = spec.sizes;
    const PartialRow row = partial_row(plan);
    const uint64_t partitions = 1ULL << sizes.radix_bits;
    uint64_t chunk = aligned(sizes.chunk_rows * spec.key_bytes) + aligned((sizes.chunk_rows + 31) / 32 * 4);
    for (const uint32_t width : plan.widths) chunk += aligned(sizes.chunk_rows * width);
    uint64_t result = 0;
    for (const uint32_t width : plan.output_widths()) result += aligned(sizes.result_rows * width);
    const uint64_t run = ((sizes.chunk_rows / 32 + partitions) * row.bytes / 4 * 32 + partitions * 32) * 4;
    const uint64_t gaps = partitions * 8 * row.bytes;
    const uint64_t passes = sizes.radix_bits > 8 ? 3 : 2;
    uint64_t bytes = sizes.chunk_slots * std::max(run, chunk) + passes * (sizes.chunk_rows * row.bytes + gaps);
    bytes += 2 * run + sizes.pages * sizes.page_rows * row.bytes;
    bytes += sizes.chunk_rows * (2 * row.bytes + row.widened + (spec.null_group != 0 ? 5 : 0));
    bytes += 5 * sizes.merge_rows * row.bytes + gaps + sizes.result_slots * result;
    bytes += 16 * 96 * (partitions + sizes.merge_rows / std::max<uint64_t>(sizes.page_rows, 1));
    return bytes + 2 * partitions * (29 * 16 + 256) + (32ULL << 20);
}

OutOfCoreGroup::OutOfCoreGroup(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_group_spec& spec)
    : gpu_(gpu), plan_(spec), disk_(spec.disk, spec.sizes.disk_block_bytes, spec.sizes.disk_blocks) {
    check(plan_);
    memory_ = OperationMemory(gpu, fake::out_of_core_group_bytes(plan_.spec), "a group-by out of core");
    pending_.resize(plan_.output_widths().size());
}

void OutOfCoreGroup::add_value(Value& value, const spillway_cuda_out_of_core_aggregate& aggregate,
                               const spillway_cuda_chunk& chunk, uint64_t row) const {
    if (counts(aggregate)) {
        ++value.number;
        return;
    }
    const uint32_t width = plan_.widths[aggregate.column];
    const char* const from = static_cast<const char*>(chunk.columns[aggregate.column]) + row * width;
    const bool first = !std::exchange(value.is_set, true);
    if (aggregate.value_kind == kFloat) {
        float narrow = 0;
        double real = 0;
        std::memcpy(width == 4 ? static_cast<void*>(&narrow) : &real, from, width);
        if (width == 4) real = static_cast<double>(narrow);
        // NaN is the largest value.
        const bool less = std::isnan(value.real) ? !std::isnan(real) : real < value.real;
        const bool more = std::isnan(real) ? !std::isnan(value.real) : real > value.real;
        if (aggregate.kind == kSum) value.real += real;
        if (first ? aggregate.kind != kSum : aggregate.kind == kMin ? less : aggregate.kind == kMax && more) {
            value.real = real;
        }
        return;
    }
    const bool negative = aggregate.value_kind == kSigned && (static_cast<uint8_t>(from[width - 1]) & 0x80) != 0;
    __int128 number = negative ? -1 : 0;
    std::memcpy(&number, from, width);
    if (aggregate.kind == kSum) {
        value.number += number;
    } else if (first || (aggregate.kind == kMin ? number < value.number : number > value.number)) {
        value.number = number;
    }
}

void OutOfCoreGroup::add_chunk(const spillway_cuda_chunk& chunk) {
    const uint32_t key_bytes = plan_.spec.key_bytes;
    const uint64_t room = plan_.spec.sizes.pages * plan_.spec.sizes.page_rows;
    ++report_.chunks;
    for (uint64_t row = 0; row < chunk.rows; ++row) {
        Key key{chunk.key_valid == nullptr || (chunk.key_valid[row / 32] >> (row % 32) & 1) != 0, 0};
        if (key.first) std::memcpy(&key.second, static_cast<const char*>(chunk.key) + row * key_bytes, key_bytes);
        if (!key.first && plan_.spec.null_group == 0) continue;
        const auto [at, is_new] = groups_.try_emplace(key);
        Group& group = at->second;
        if (is_new) {
            group.number = groups_.size() - 1;
            group.values.resize(plan_.aggregates.size());
        }
        ++report_.partial_rows;
        if (group.number < room || !spill(key, chunk, row)) add_values(group, chunk, row);
    }
}

void OutOfCoreGroup::run(const spillway_cuda_source& source, const spillway_cuda_sink* sink,
                         spillway_cuda_out_of_core_group_report* report) {
    struct Taken {
        spillway_cuda_chunk chunk;
        std::vector<const void*> columns;
    };
    std::deque<Taken> taken;
    const auto use_oldest = [&] {
        Taken& oldest = taken.front();
        oldest.chunk.columns = oldest.columns.data();
        add_chunk(oldest.chunk);
        taken.pop_front();
        source.release(source.context);
    };
    sink_ = sink;
    for (;;) {
        fake::check(gpu_);
        if (taken.size() == plan_.spec.sizes.chunk_slots) use_oldest();
        Taken next{};
        if (call_back(memory_, [&] { return source.next(source.context, &next.chunk); }) == 0) break;
        const spillway_cuda_chunk& chunk = next.chunk;
        if (chunk.rows > plan_.spec.sizes.chunk_rows) throw Failure{SPILLWAY_CUDA_INVALID, "a chunk is too large"};
        next.columns.assign(chunk.columns, chunk.columns + plan_.widths.size());
        report_.rows += chunk.rows;
        report_.h2d_bytes += chunk.rows * plan_.spec.key_bytes;
        for (const uint32_t width : plan_.widths) report_.h2d_bytes += chunk.rows * width;
        if (chunk.key_valid != nullptr) report_.h2d_bytes += (chunk.rows + 31) / 32 * 4;
        taken.push_back(std::move(next));
        fail_here("lost-build");
    }
    while (!taken.empty()) use_oldest();
    be_slow(gpu_);
    fake::check(gpu_);
    add_spilled();
    for (const auto& [key, group] : groups_) give(key, group);
    flush();
    while (!open_.empty()) close_oldest();
    report_.groups = groups_.size();
    report_.h2d_bytes += report_.spilled_bytes;
    report_.d2h_bytes += report_.spilled_bytes;
    report_.resident_partitions = report_.spilled_rows > 0 ? 0 : 1ULL << plan_.spec.sizes.radix_bits;
    report_.read_ms = 0.5;
    report_.resident_ms = 0.25;
    report_.spilled_ms = 0.125;
    report_.peak_bytes = gpu_->peak_bytes;
    *report = report_;
}

std::string OutOfCoreGroup::text_of(const Value& value, const spillway_cuda_out_of_core_aggregate& aggregate) const {
    std::string text(plan_.width_of(aggregate), '\0');
    if (aggregate.value_kind == kFloat && !counts(aggregate)) {
        const auto narrow = static_cast<float>(value.real);
        std::memcpy(text.data(), text.size() == 4 ? static_cast<const void*>(&narrow) : &value.real, text.size());
        return text;
    }
    const bool fits = aggregate.value_kind == kSigned
                          ? value.number == static_cast<int64_t>(value.number)
                          : value.number == static_cast<__int128>(static_cast<uint64_t>(value.number));
    if (!fits) throw Failure{SPILLWAY_CUDA_OVERFLOW, "a sum does not fit 64 bits"};
    std::memcpy(text.data(), &value.number, text.size());
    return text;
}

void OutOfCoreGroup::give(const Key& key, const Group& group) {
    if (sink_ == nullptr) return;
    size_t c = 0;
    pending_[c++].append(reinterpret_cast<const char*>(&key.second), plan_.spec.key_bytes);
    if (plan_.spec.null_group != 0) pending_[c++].push_back(key.first ? '\1' : '\0');
    for (size_t i = 0; i < group.values.size(); ++i) {
        pending_[c++] += text_of(group.values[i], plan_.aggregates[i]);
    }
    if (++pending_rows_ == plan_.spec.sizes.result_rows) flush();
}

void OutOfCoreGroup::flush() {
    if (pending_rows_ == 0) return;
    fake::check(gpu_);
    if (open_.size() == plan_.spec.sizes.result_slots) close_oldest();
    Window window{pending_rows_, std::vector<void*>(pending_.size()), std::move(pending_)};
    call_back(memory_, [&] { return sink_->open(sink_->context, window.rows, window.columns.data()); });
    for (const std::string& values : window.values) report_.d2h_bytes += values.size();
    pending_.assign(window.values.size(), {});
    open_.push_back(std::move(window));
    pending_rows_ = 0;
}

void OutOfCoreGroup::close_oldest() {
    const Window& window = open_.front();
    for (size_t c = 0; c < window.columns.size(); ++c) {
        std::memcpy(window.columns[c], window.values[c].data(), window.values[c].size());
    }
    open_.pop_front();
    sink_->close(sink_->context);
    if (++closed_windows_ == kWindowsBeforeLoss) fail_here("lost-result");
}

void out_of_core_group_bytes(const spillway_cuda_out_of_core_group_spec* spec, uint64_t* bytes,
                             spillway_cuda_status* status) {
    tell(status, SPILLWAY_CUDA_OK, "");
    *bytes = fake::out_of_core_group_bytes(*spec);
}

void begin_out_of_core_group(spillway_cuda_gpu* gpu, const spillway_cuda_out_of_core_group_spec* spec,
                             spillway_cuda_out_of_core_group** group, spillway_cuda_status* status) {
    *group = nullptr;
    guarded(gpu, status, [&] {
        *group = new spillway_cuda_out_of_core_group{gpu, OutOfCoreGroup(gpu, *spec)};
        ++gpu->children;
    });
}

void run_out_of_core_group(spillway_cuda_out_of_core_group* group, const spillway_cuda_source* source,
                           const spillway_cuda_sink* sink, spillway_cuda_out_of_core_group_report* report,
                           spillway_cuda_status* status) {
    *report = {};
    guarded(group->gpu, status, [&] { group->group.run(*source, sink, report); });
}

void free_out_of_core_group(spillway_cuda_out_of_core_group* group) {
    if (group == nullptr) return;
    const std::lock_guard<std::recursive_mutex> hold(lock());
    --group->gpu->children;
    delete group;
}

}  // namespace fake
