// SPDX-License-Identifier: Apache-2.0
// Group-bys of relations larger than GPU memory in the most obvious way: a map of the groups.
#include "fake_staged_group_by.hpp"

#include <algorithm>
#include <cmath>

#include "memory_model/staged_memory.hpp"

namespace fake {

namespace {

using Kind = GroupAggregateKind;

constexpr int kInput = 0;

bool counts(const StagedAggregate& aggregate) {
    return aggregate.kind == Kind::kCountRows || aggregate.kind == Kind::kCount;
}

bool fits_64_bits(__int128 sum, ValueKind kind) {
    return kind == ValueKind::kSigned ? sum == static_cast<int64_t>(sum)
                                      : sum == static_cast<__int128>(static_cast<uint64_t>(sum));
}

Failure sum_too_large() {
    return {SPILLWAY_CUDA_OVERFLOW, "a sum does not fit 64 bits"};
}

std::vector<uint32_t> output_widths(const StagedGroupBySpec& spec) {
    const auto widths = spec.output_widths();
    return {widths.begin(), widths.end()};
}

// The aggregate over the column that decides; nullptr: there is none.
const StagedAggregate* deciding(const StagedGroupBySpec& spec, const StagedAggregate& aggregate) {
    for (const StagedAggregate& other : spec.aggregates) {
        if (other.kind == aggregate.deciding_kind() && other.column == aggregate.decided_by &&
            other.decided_by == spillway::cuda::kNothingDecides && spec.widths[other.column] >= 4) {
            return &other;
        }
    }
    return nullptr;
}

void check_spec(const StagedGroupBySpec& spec) {
    const StreamSizes& sizes = spec.sizes;
    require(is_key_width(spec.key_bytes), "keys have 4 or 8 bytes");
    require(
        sizes.radix_bits >= 0 && sizes.radix_bits <= kFirstPassBitsMax && sizes.chunk_rows > 0 && sizes.chunk_slots > 0,
        "impossible sizes");
    require(sizes.page_rows >= 8 && (sizes.page_rows & (sizes.page_rows - 1)) == 0, "pages of 2^n rows");
    require(sizes.pages * sizes.page_rows >= sizes.chunk_rows + sizes.page_rows, "too few pages");
    require(sizes.merge_rows >= std::max(sizes.chunk_rows, sizes.page_rows), "too few rows to aggregate at once");
    require(sizes.result_rows > 0 && sizes.result_slots > 0, "no room for a result");
    for (const StagedAggregate& aggregate : spec.aggregates) {
        require(aggregate.kind != Kind::kMean && aggregate.kind <= Kind::kFirst,
                "an aggregate that the fake GPU does not have");
        const bool decided = aggregate.decided_by != spillway::cuda::kNothingDecides;
        require(decided || aggregate.kind != Kind::kFirst, "a first value that nothing decides");
        require(!decided || deciding(spec, aggregate) != nullptr, "an aggregate that is decided by none");
    }
}

}  // namespace

StagedGroupBy::StagedGroupBy(spillway_cuda_gpu* gpu, const StagedGroupBySpec& spec, const DiskCalls* disk)
    : Stream(gpu, spec.sizes, disk, output_widths(spec)), spec_(spec) {
    check_spec(spec);
    const spillway::cuda::StagedGroupByMemory memory = spillway::cuda::staged_group_by_memory(spec);
    row_bytes_ = memory.row_bytes;
    chunk_bytes_[kInput] = memory.chunk_bytes;
    require(row_bytes_ <= 4 * kPartialWordsMax, "partial rows of more accumulators than there are");
    memory_ = OperationMemory(gpu, memory.device_bytes, "a group-by out of core");
}

__int128 StagedGroupBy::integer(const Chunk& chunk, uint32_t column, ValueKind kind, uint64_t row) const {
    const uint32_t width = spec_.widths[column];
    const char* const from = static_cast<const char*>(chunk.columns[column]) + row * width;
    const bool negative = kind == ValueKind::kSigned && (static_cast<uint8_t>(from[width - 1]) & 0x80) != 0;
    __int128 number = negative ? -1 : 0;
    std::memcpy(&number, from, width);
    return number;
}

// A row with a better extreme than all before begins anew.
bool StagedGroupBy::decides(Value& value, const StagedAggregate& aggregate, const Chunk& chunk, uint64_t row) const {
    const __int128 by = integer(chunk, aggregate.decided_by, deciding(spec_, aggregate)->value_kind, row);
    const bool is_max = aggregate.kind == Kind::kMax;
    if (value.is_set && (is_max ? by < value.by : by > value.by)) return false;
    if (!value.is_set || by != value.by) value.is_set = false;
    value.by = by;
    return true;
}

void StagedGroupBy::add_value(Value& value, const StagedAggregate& aggregate, const Chunk& chunk, uint64_t row) const {
    if (counts(aggregate)) {
        ++value.number;
        return;
    }
    const bool decided = aggregate.decided_by != spillway::cuda::kNothingDecides;
    if (decided && !decides(value, aggregate, chunk, row)) return;
    const bool first = !std::exchange(value.is_set, true) || aggregate.kind == Kind::kFirst;
    const uint32_t width = spec_.widths[aggregate.column];
    const char* const from = static_cast<const char*>(chunk.columns[aggregate.column]) + row * width;
    if (aggregate.value_kind == ValueKind::kFloat) {
        float narrow = 0;
        double real = 0;
        std::memcpy(width == 4 ? static_cast<void*>(&narrow) : &real, from, width);
        if (width == 4) real = static_cast<double>(narrow);
        // NaN is the largest value.
        const bool less = std::isnan(value.real) ? !std::isnan(real) : real < value.real;
        const bool more = std::isnan(real) ? !std::isnan(value.real) : real > value.real;
        if (aggregate.kind == Kind::kSum) value.real += real;
        if (first                          ? aggregate.kind != Kind::kSum
            : aggregate.kind == Kind::kMin ? less
                                           : aggregate.kind == Kind::kMax && more) {
            value.real = real;
        }
        return;
    }
    const __int128 number = integer(chunk, aggregate.column, aggregate.value_kind, row);
    if (aggregate.kind == Kind::kSum) {
        value.number += number;
        // Sums of parts of the rows have 64 bits too.
        if (!fits_64_bits(value.number, aggregate.value_kind)) throw sum_too_large();
    } else if (first || (aggregate.kind == Kind::kMin ? number < value.number : number > value.number)) {
        value.number = number;
    }
}

void StagedGroupBy::add_chunk(const Chunk& chunk) {
    const uint32_t key_bytes = spec_.key_bytes;
    const uint64_t room = sizes_.pages * sizes_.page_rows;
    ++report_.chunks;
    for (uint64_t row = 0; row < chunk.rows; ++row) {
        Key key{chunk.key_valid == nullptr || (chunk.key_valid[row / 32] >> (row % 32) & 1) != 0, 0};
        if (key.first) std::memcpy(&key.second, static_cast<const char*>(chunk.key) + row * key_bytes, key_bytes);
        if (!key.first && !spec_.null_group) continue;
        const auto [at, is_new] = groups_.try_emplace(key);
        Group& group = at->second;
        if (is_new) {
            group.number = groups_.size() - 1;
            group.values.resize(spec_.aggregates.size());
        }
        ++report_.partial_rows;
        if (group.number < room || !spill(key, chunk, row)) add_values(group, chunk, row);
    }
}

void StagedGroupBy::run(int, const SourceCalls& source, const SinkCalls* sink) {
    sink_ = sink;
    read(kInput, source, spec_.key_bytes, spec_.widths, "lost-build", [&](const Chunk& chunk) { add_chunk(chunk); });
    be_slow(gpu_);
    fake::check(gpu_);
    add_spilled();
    for (const auto& [key, group] : groups_) give_group(key, group);
    finish();
    report_.result_rows = groups_.size();
    report_.resident_partitions = report_.spilled_rows[kInput] > 0 ? 0 : 1ULL << sizes_.radix_bits;
    report_.input_ms[kInput] = 0.5;
    report_.resident_ms = 0.25;
}

std::string StagedGroupBy::text_of(const Value& value, const StagedAggregate& aggregate) const {
    std::string text(spec_.aggregate_width(aggregate), '\0');
    if (aggregate.value_kind == ValueKind::kFloat && !counts(aggregate)) {
        const auto narrow = static_cast<float>(value.real);
        std::memcpy(text.data(), text.size() == 4 ? static_cast<const void*>(&narrow) : &value.real, text.size());
        return text;
    }
    if (!fits_64_bits(value.number, aggregate.value_kind)) throw sum_too_large();
    std::memcpy(text.data(), &value.number, text.size());
    return text;
}

void StagedGroupBy::give_group(const Key& key, const Group& group) {
    if (sink_ == nullptr) return;
    std::vector<std::string> values;
    values.emplace_back(reinterpret_cast<const char*>(&key.second), spec_.key_bytes);
    if (spec_.null_group) values.emplace_back(1, key.first ? '\1' : '\0');
    for (size_t i = 0; i < group.values.size(); ++i) values.push_back(text_of(group.values[i], spec_.aggregates[i]));
    give(values);
}

bool StagedGroupBy::spill(const Key& key, const Chunk& chunk, uint64_t row) {
    if (!spills_to_disk(kInput, row_bytes_)) return false;
    std::string text(1, key.first ? '\1' : '\0');
    text.append(reinterpret_cast<const char*>(&key.second), sizeof key.second);
    for (size_t c = 0; c < spec_.widths.size(); ++c) {
        text.append(static_cast<const char*>(chunk.columns[c]) + row * spec_.widths[c], spec_.widths[c]);
    }
    disk_.append(kInput, text);
    return true;
}

// Rows that were on disk, each as a chunk of its own.
void StagedGroupBy::add_spilled() {
    fail_here("lost-spilled");
    if (!disk_.usable()) return;
    const std::string all = disk_.read(kInput);
    for (const char* from = all.data(); from < all.data() + all.size();) {
        Key key{*from++ != 0, 0};
        std::memcpy(&key.second, from, sizeof key.second);
        from += sizeof key.second;
        Chunk chunk;
        chunk.rows = 1;
        for (const uint32_t width : spec_.widths) {
            chunk.columns.push_back(from);
            from += width;
        }
        add_values(groups_.at(key), chunk, 0);
    }
}

void StagedGroupBy::add_values(Group& group, const Chunk& chunk, uint64_t row) const {
    for (size_t i = 0; i < group.values.size(); ++i) add_value(group.values[i], spec_.aggregates[i], chunk, row);
}

}  // namespace fake
