// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/distinct_pairs.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.hpp"
#include "cpu/radix_partition/write_combining.hpp"

namespace spillway {

namespace {

constexpr uint64_t kRecordFactor = 0x9e3779b97f4a7c15ULL;
// Pages of fewer partitions would be so large that the buffers to write them exceed their part of the memory.
constexpr int32_t kBitsMin = 2;
constexpr int32_t kBitsMax = 11;
constexpr uint64_t kPageBytesMin = 1 << 10;
constexpr uint64_t kPageBytesMax = 64 << 10;
// A set that is not much larger than the L2 cache takes pairs three times as fast as one in memory.
constexpr uint64_t kSetBytesGood = 1 << 20;
// Memory of a pair in a set that has just grown, beside its byte string.
constexpr uint64_t kSlotBytes = 48;
constexpr uint64_t kStoredBytes = 16;

RowLayout pair_layout(bool numbers) {
    ColumnType value;
    value.order = Order::kUnsigned;
    value.nullable = false;
    ColumnType record = value;
    KeySpec key;
    if (!numbers) {
        value.layout = Layout::kView;
        value.order = Order::kBytes;
        key.kind = KeyKind::kBytes;
    }
    return RowLayout::make({std::make_shared<ColumnType>(value), std::make_shared<ColumnType>(record)}, {key}, {1},
                           NullKeys::kDrop);
}

}  // namespace

// Rows of pairs on their way to the partitioner, and the pairs that came lately.
struct DistinctPairs::Worker {
    Worker(const DistinctPairs& pairs, uint32_t row_bytes)
        : filter_memory(pairs.rows_->budget(),
                        pairs.input_.memory_bytes / static_cast<uint64_t>(pairs.input_.workers) / 8),
          rows(static_cast<size_t>(RowBlock::kRowsMax) * row_bytes) {
        encoded.row_bytes = row_bytes;
        encoded.data = rows.data();
        // Pairs of a further level have been through the filter of the first.
        if (pairs.level_ == 0) filter.emplace(pairs.aggregate_, filter_memory, DistinctSet::Counting::kNone);
        if (pairs.numbers_) return;
        heap_bytes.resize(RowBlock::kRowsMax);
        pointers.resize(RowBlock::kRowsMax);
        encoded.heap_bytes = heap_bytes.data();
        encoded.var_fields = 1;
        encoded.var_offsets = &kBytesOffset;
        encoded.var_pointers = pointers.data();
        encoded.var_stride = RowBlock::kRowsMax;
    }

    // Full: it begins anew while it is of use.
    void restart_filter() {
        if (found * 4 < looked_up) {
            filter.reset();
        } else {
            filter->clear();
        }
        found = looked_up = 0;
    }

    TableMemory filter_memory;
    std::optional<DistinctSet> filter;
    uint64_t looked_up = 0;
    uint64_t found = 0;
    std::vector<uint8_t> rows;
    std::vector<uint32_t> heap_bytes;
    std::vector<const uint8_t*> pointers;
    EncodedRows encoded;
};

// No disk, no folder for spilled rows, no budget: the caller has a way that needs neither, only time.
void DistinctPairs::guarded(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        switch (error.code()) {
            case ErrorCode::kBudgetTooSmall:
            case ErrorCode::kDiskFull:
            case ErrorCode::kOutputFailed:
            case ErrorCode::kInvalidArgument:
                throw TableFull{};
            default:
                throw;
        }
    }
}

DistinctPairs::DistinctPairs(const AggregatePlan& aggregate, const Input& input, PartitionedRows& source,
                             JobControl& control, int level, int32_t bits_used)
    : aggregate_(aggregate),
      input_(input),
      control_(control),
      level_(level),
      bits_used_(bits_used),
      numbers_(aggregate.number != NumberKind::kNone),
      record_factor_(input.one_group ? 0 : kRecordFactor) {
    guarded([&] {
        rows_ = std::make_unique<PartitionedRows>(spec_for(source.spec()), pair_layout(numbers_), source.budget(),
                                                  source.spill_file().space(), own_control_);
        partitioner_ = std::make_unique<RadixPartitioner>(*rows_);
    });
    const RowLayout& layout = rows_->layout();
    record_offset_ = layout.fields[0].offset;
    SPILLWAY_CHECK(numbers_ || layout.var_keys[0] == kBytesOffset);
    for (int32_t i = 0; i < input.workers; ++i) workers_.push_back(std::make_unique<Worker>(*this, layout.row_bytes));
}

DistinctPairs::~DistinctPairs() {
    control_.spilled_bytes.fetch_add(own_control_.spilled_bytes.load(), std::memory_order_relaxed);
    control_.unspilled_bytes.fetch_add(own_control_.unspilled_bytes.load(), std::memory_order_relaxed);
}

// Half of the memory holds pages all the time. The other half is for filters and buffers first, then for sets.
PartitionSpec DistinctPairs::spec_for(const PartitionSpec& source) const {
    const uint64_t share = input_.memory_bytes / static_cast<uint64_t>(input_.workers);
    if (share < kWorkerBytesMin) throw TableFull{};
    const uint64_t stored = numbers_ ? 0 : input_.heap_bytes + input_.rows * kStoredBytes;
    const uint64_t set_bytes = std::min(share * 3 / 8, kSetBytesGood);
    const uint64_t sets = (input_.rows * kSlotBytes + stored) / set_bytes + 1;
    const auto least = static_cast<uint64_t>(input_.workers) * 4;  // so that the workers end together
    auto bits = static_cast<int32_t>(std::bit_width(std::max(sets * 5 / 4, least) - 1));
    bits = std::clamp(bits, kBitsMin, kBitsMax);
    // Open pages of a worker take at most 4/5 of its part of the pool.
    const auto pages_of = [&](int32_t b) { return std::bit_floor(share * 2 / 5 >> b); };
    const uint64_t pair_bytes = 24 + (numbers_ ? 0 : input_.heap_bytes / std::max<uint64_t>(input_.rows, 1));
    const uint64_t good = std::clamp(std::bit_ceil(pair_bytes * 4), kPageBytesMin, kPageBytesMax);
    while (bits > kBitsMin && pages_of(bits) < good) --bits;

    PartitionSpec spec;
    spec.keys.resize(1);
    spec.carry = {1};
    spec.radix_bits = bits;
    spec.page_bytes = std::clamp(pages_of(bits), kPageBytesMin, kPageBytesMax);
    spec.pool_bytes = input_.memory_bytes / 2;
    spec.spill_run_bytes = std::max(spec.page_bytes, std::min(std::bit_floor(share / 32), kPageBytesMax));
    spec.spill_write_bytes = std::max(spec.page_bytes, std::min<uint64_t>(share / 16, 256 << 10));
    spec.spill = source.spill;
    spec.pack_spilled = source.pack_spilled && numbers_;  // byte strings never pack: no buffers for that
    spec.force_spill = source.force_spill;
    spec.workers = input_.workers;
    return spec;
}

bool DistinctPairs::is_new(Worker& worker, const Pair& pair, uint64_t value_hash) {
    if (!worker.filter) return true;
    ++worker.looked_up;
    try {
        const bool fresh = numbers_ ? worker.filter->add_number(pair.record, pair.value, value_hash)
                                    : worker.filter->add_bytes(pair.record, pair.bytes, pair.length, value_hash);
        if (!fresh) ++worker.found;
        return fresh;
    } catch (const TableFull&) {
        worker.restart_filter();
        return true;
    }
}

void DistinctPairs::put(Worker& worker, const Pair& pair) {
    const auto record = reinterpret_cast<uintptr_t>(pair.record);
    const uint64_t hash = mix64(pair.value ^ record * record_factor_);
    const uint64_t word = std::rotl(hash, bits_used_);
    const int64_t at = worker.encoded.rows++;
    uint8_t* row = worker.rows.data() + at * worker.encoded.row_bytes;
    std::memcpy(row, &word, sizeof word);
    std::memcpy(row + record_offset_, &record, sizeof record);
    if (numbers_) return;
    const VarRef ref{0, static_cast<uint32_t>(pair.length)};
    std::memcpy(row + kBytesOffset, &ref, sizeof ref);
    worker.heap_bytes[static_cast<size_t>(at)] = ref.length;
    worker.pointers[static_cast<size_t>(at)] = pair.bytes;
}

void DistinctPairs::append(int index) {
    Worker& worker = *workers_[static_cast<size_t>(index)];
    if (worker.encoded.rows == 0) return;
    guarded([&] { partitioner_->append(index, worker.encoded); });
    stream_fence();
    worker.encoded.rows = 0;
}

void DistinctPairs::add(int index, const RowBlock& block, FieldGather& gather) {
    Worker& worker = *workers_[static_cast<size_t>(index)];
    for_each_value(
        aggregate_, block, gather,
        [&](uint8_t* record, uint64_t value, uint64_t hash) {
            const Pair pair{record, value, nullptr, 0};
            if (is_new(worker, pair, hash)) put(worker, pair);
        },
        [&](uint8_t* record, const uint8_t* bytes, uint64_t length, uint64_t hash) {
            const Pair pair{record, hash, bytes, length};
            if (is_new(worker, pair, hash)) put(worker, pair);
        });
    append(index);  // the byte strings are the block's
}

// A pair of the level above.
void DistinctPairs::add_again(const Pair& pair) {
    Worker& worker = *workers_[0];
    put(worker, pair);
    if (worker.encoded.rows == RowBlock::kRowsMax) append(0);
}

void DistinctPairs::finish() {
    workers_.clear();
    guarded([&] { partitioner_->finish(); });
    partitioner_.reset();
    total_ = rows_->total_rows();
}

}  // namespace spillway
