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

// Each level has half of the memory of the one above.
constexpr int kLevelsMax = 4;
// So many passes over a partition of pairs cost no more than to partition it once more.
constexpr uint64_t kPassesMax = 4;

// Bytes counted in a TableMemory while they are in use elsewhere.
struct Charge {
    Charge(TableMemory& memory, uint64_t bytes) : memory(memory), bytes(bytes) { memory.charge(bytes); }
    ~Charge() { memory.give_back(bytes); }
    Charge(const Charge&) = delete;
    TableMemory& memory;
    const uint64_t bytes;
};

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

void DistinctPairs::count(const std::function<void(double)>& progress) {
    TableMemory memory(rows_->budget(), input_.memory_bytes / static_cast<uint64_t>(input_.workers) / 2);
    const auto partitions = [&] {
        for (int32_t p = next_++; p < rows_->partition_count(); p = next_++) {
            control_.check();
            const uint64_t pairs = rows_->partition(p).rows;
            if (pairs == 0) continue;
            rows_->prefetch(p);
            count_partition(p, memory);
            rows_->free_partition(p);
            const uint64_t counted = counted_.fetch_add(pairs, std::memory_order_relaxed) + pairs;
            progress(static_cast<double>(counted) / static_cast<double>(total_));
        }
    };
    try {
        guarded(partitions);
    } catch (...) {
        next_ = rows_->partition_count();  // what other workers would still count is counted in another way
        throw;
    }
}

// body(pair, hash): hash below the bits that all pairs of the partition have in common. Byte strings live until
// page_ends().
template <class Body, class PageEnds>
void DistinctPairs::for_each_pair(int32_t partition, Body&& body, PageEnds&& page_ends) {
    const uint32_t row_bytes = rows_->layout().row_bytes;
    const int32_t bits = rows_->spec().radix_bits;
    PageCursor cursor(*rows_, partition, 0, rows_->page_count(partition));
    for (RowSpan span; cursor.next(span);) {
        control_.check();
        const uint8_t* row = span.rows;
        for (uint32_t i = 0; i < span.count; ++i, row += row_bytes) {
            const uint64_t word = first_word(row);
            uint64_t record;
            std::memcpy(&record, row + record_offset_, sizeof record);
            Pair pair{reinterpret_cast<uint8_t*>(record), 0, nullptr, 0};
            pair.value = unmix64(std::rotr(word, bits_used_)) ^ record * record_factor_;
            if (!numbers_) {
                pair.length = var_ref(row, kBytesOffset).length;
                pair.bytes = var_bytes(row, kBytesOffset);
            }
            body(pair, word << bits);
        }
        page_ends();
    }
}

void DistinctPairs::count_partition(int32_t partition, TableMemory& memory) {
    const uint64_t pairs = rows_->partition(partition).rows;
    const uint64_t read = count_range(partition, HashRange{}, memory);
    if (read == pairs) return;
    const uint64_t left = memory.limit() - std::min(memory.limit(), rows_->cursor_bytes(partition));
    if (read * kPassesMax < pairs && level_ + 1 < kLevelsMax && left >= kWorkerBytesMin) {
        count_again(partition, left);
    } else {
        count_ranges(partition, memory);
    }
}

// Returns how many pairs were read: all, or fewer when those of the range do not fit; then nothing is counted.
uint64_t DistinctPairs::count_range(int32_t partition, const HashRange& range, TableMemory& memory) {
    const Charge cursor(memory, rows_->cursor_bytes(partition));
    DistinctSet set(aggregate_, memory, input_.counting);
    uint64_t read = 0;
    try {
        const auto add = [&](const Pair& pair, uint64_t hash) {
            if (range.contains(hash)) {
                if (numbers_) {
                    set.add_number(pair.record, pair.value, mix64(pair.value));
                } else {
                    set.add_bytes(pair.record, pair.bytes, pair.length, pair.value);
                }
            }
            ++read;
        };
        for_each_pair(partition, add, [] {});
    } catch (const TableFull&) {
        if (set.pairs() <= 1) throw;
        set.undo();
    }
    set.clear();
    return read;
}

void DistinctPairs::count_ranges(int32_t partition, TableMemory& memory) {
    const uint64_t pairs = rows_->partition(partition).rows;
    uint64_t span = ~0ULL / 2;
    for (uint64_t first = 0;;) {
        const HashRange range{first, ~0ULL - first <= span ? ~0ULL : first + span};
        if (count_range(partition, range, memory) < pairs) {
            if (span == 0) throw TableFull{};
            span /= 2;
            continue;
        }
        if (range.last == ~0ULL) return;
        first = range.last + 1;
    }
}

// With the next bits of the hash.
void DistinctPairs::count_again(int32_t partition, uint64_t memory_bytes) {
    const Partition& from = rows_->partition(partition);
    Input input = input_;
    input.memory_bytes = memory_bytes;
    input.workers = 1;
    input.rows = from.rows;
    input.heap_bytes = from.bytes;
    DistinctPairs next(aggregate_, input, *rows_, control_, level_ + 1, bits_used_ + rows_->spec().radix_bits);
    for_each_pair(
        partition, [&](const Pair& pair, uint64_t) { next.add_again(pair); }, [&] { next.append(0); });
    next.finish();
    next.count([](double) {});
}

}  // namespace spillway
