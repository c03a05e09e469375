// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/group_writer.hpp"

#include <algorithm>
#include <utility>

#include "cpu/group_by/aggregate_state.hpp"

namespace spillway {

namespace {

// Addresses and results of a slice fit the L1/L2 caches.
constexpr int64_t kSliceRows = 1024;

uint64_t bytes_of(const GroupPlan& plan, const uint8_t* record) {
    uint64_t bytes = 0;
    for (const GroupPlan::Copy& copy : plan.var_copies) {
        KeyBytes key;
        std::memcpy(&key, record + copy.to, sizeof key);
        bytes += key.length;
    }
    for (const AggregatePlan& aggregate : plan.aggregates) {
        uint32_t offset = aggregate.offset;
        switch (aggregate.state) {
            case StateKind::kFirstBytes:
                offset += 8;
                break;
            case StateKind::kMinBytes:
            case StateKind::kMaxBytes:
            case StateKind::kAnyBytes:
                break;
            default:
                continue;
        }
        BytesState state;
        std::memcpy(&state, record + offset, sizeof state);
        bytes += state.length;
    }
    return bytes;
}

}  // namespace

GroupWriter::GroupWriter(const GroupPlan& plan, BatchSink& sink, MemoryBudget& budget, int worker)
    : plan_(plan),
      budget_(budget),
      sink_(sink),
      worker_(worker),
      batch_size_{std::max<int64_t>(1, sink.batch_size().rows), sink.batch_size().bytes} {
    if (!sink.wants_columns()) return;
    for (const GroupPlan::KeyOutput& key : plan.key_outputs) {
        columns_.emplace_back(key.field.type, budget, std::min(batch_size_.rows, kSliceRows));
    }
    for (const AggregatePlan& aggregate : plan.aggregates) {
        columns_.emplace_back(aggregate.result_type, budget, std::min(batch_size_.rows, kSliceRows));
    }
}

void GroupWriter::append_chunk(const uint8_t* first_record, uint64_t count) {
    if (!sink_.wants_columns()) return append(nullptr, count);
    const uint8_t* records[kSliceRows];
    while (count > 0) {
        const uint64_t slice = std::min<uint64_t>(count, kSliceRows);
        for (uint64_t i = 0; i < slice; ++i, first_record += plan_.record_bytes) records[i] = first_record;
        append(records, slice);
        count -= slice;
    }
}

void GroupWriter::append(const uint8_t* const* records, uint64_t count) {
    groups_ += count;
    if (!sink_.wants_columns()) {
        if (count > 0) sink_.add_rows(worker_, count);
        return;
    }
    while (count > 0) {
        const int64_t room = std::min<int64_t>(batch_size_.rows - rows_, kSliceRows);
        const int64_t slice = slice_length(records, std::min<int64_t>(room, static_cast<int64_t>(count)));
        if (slice == 0) {
            flush();
            continue;
        }
        append_slice(records, slice);
        records += slice;
        count -= static_cast<uint64_t>(slice);
    }
}

// How many of the records the batch has room for; 0 when it is full, but never when it is empty.
int64_t GroupWriter::slice_length(const uint8_t* const* records, int64_t count) const {
    uint64_t inline_bytes = 0;
    for (const GroupPlan::KeyOutput& key : plan_.key_outputs) {
        if (key.field.kind == FieldKind::kInlineBytes) inline_bytes += key.field.width;
    }
    if (plan_.var_copies.empty() && !plan_.has_bytes_state && inline_bytes == 0) return count;
    const uint64_t room = batch_size_.bytes > bytes_ ? batch_size_.bytes - bytes_ : 0;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < count; ++i) {
        bytes += inline_bytes + bytes_of(plan_, records[i]);
        if (bytes > room) return std::max<int64_t>(i, rows_ == 0 ? 1 : 0);
    }
    return count;
}

void GroupWriter::append_slice(const uint8_t* const* records, int64_t count) {
    if (memory_ == nullptr) memory_ = begin_batch(columns_, budget_);
    size_t at = 0;
    bytes_ = 0;
    for (const GroupPlan::KeyOutput& key : plan_.key_outputs) {
        ColumnBuilder& column = columns_[at++];
        if (key.var_slot < 0) {
            column.append(key.field, plan_.record_layout, records, count, false);
            continue;
        }
        const uint32_t offset = plan_.var_copies[static_cast<size_t>(key.var_slot)].to;
        for (int64_t i = 0; i < count; ++i) {
            if (field_is_null(key.field, plan_.record_layout, records[i])) {
                column.append_null();
                continue;
            }
            KeyBytes value;
            std::memcpy(&value, records[i] + offset, sizeof value);
            column.append_bytes(value.bytes, value.length);
        }
        bytes_ += column.bytes();
    }
    for (const AggregatePlan& aggregate : plan_.aggregates) {
        ColumnBuilder& column = columns_[at++];
        append_aggregate(aggregate, records, count, column);
        bytes_ += column.bytes();
    }
    rows_ += count;
    if (rows_ >= batch_size_.rows || bytes_ >= batch_size_.bytes) flush();
}

void GroupWriter::flush() {
    if (rows_ == 0) return;
    OutputBatch batch = finish_batch(columns_, std::move(memory_), rows_);
    // There are more groups than were expected.
    if (rows_ == batch_size_.rows) {
        for (ColumnBuilder& column : columns_) column.expect(batch_size_.rows);
    }
    rows_ = 0;
    bytes_ = 0;
    sink_.push(worker_, std::move(batch));
}

}  // namespace spillway
