// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/partition.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "cpu/radix_partition/write_combining.hpp"
#include "executor/cpu/morsel_reader.hpp"

namespace spillway {

namespace {

// Dictionaries are known only when the input is open: the layout was made from plain types.
void adopt_types(RowLayout& layout, const std::vector<TypePtr>& columns) {
    for (RowField& field : layout.fields) {
        if (field.column >= 0) field.type = columns[static_cast<size_t>(field.column)];
    }
    for (KeyPart& part : layout.keys) part.type = columns[static_cast<size_t>(part.spec.column)];
}

void append_views(RadixPartitioner& partitioner, int worker, RowEncoder& encoder, const std::vector<ColumnView>& views,
                  int64_t rows, uint64_t first_row) {
    for (int64_t begin = 0; begin < rows; begin += encoder.rows_max()) {
        const int64_t count = std::min(encoder.rows_max(), rows - begin);
        partitioner.append(worker, encoder.encode(views, begin, count, first_row + static_cast<uint64_t>(begin)));
    }
}

}  // namespace

std::vector<int32_t> columns_read(const PartitionSpec& spec) {
    std::vector<int32_t> columns;
    const auto add = [&](int32_t column) {
        if (column >= 0 && std::find(columns.begin(), columns.end(), column) == columns.end()) {
            columns.push_back(column);
        }
    };
    for (const KeySpec& key : spec.keys) add(key.column);
    for (int32_t column : spec.carry) add(column);
    return columns;
}

void partition_source(RadixPartitioner& partitioner, PartitionedRows& rows, Source& source, JobControl& control,
                      uint64_t first_row, const KeyInterval* kept) {
    const std::vector<int32_t> columns = columns_read(rows.spec());
    source.load_dictionaries(columns, rows.budget(), control);
    adopt_types(rows.mutable_layout(), source.columns());
    MorselQueue queue(source, rows.spec().morsel_rows);
    const auto body = [&](int worker) {
        std::optional<IntervalFilter> filter;
        const KeyPart* key = kept == nullptr ? nullptr : &rows.layout().keys[0];
        if (key != nullptr) filter.emplace(source, *key, key->spec.column, *kept, rows.budget(), control);
        MorselReader reader(source, columns, queue, rows.budget(), control, filter ? &*filter : nullptr);
        RowEncoder encoder(rows.layout(), columns, rows.budget());
        if (kept != nullptr) encoder.keep_only(*kept);
        while (reader.next()) {
            append_views(partitioner, worker, encoder, reader.views(), reader.rows(), first_row + reader.first_row());
        }
        stream_fence();
    };
    parallel_run(workers_for(rows.spec().workers, source, rows.spec().morsel_rows), body,
                 [&] { control.cancelled.store(true, std::memory_order_relaxed); });
}

PartitionSink::PartitionSink(RadixPartitioner& partitioner, PartitionedRows& rows, std::vector<TypePtr> columns,
                             BatchSize batch_size)
    : partitioner_(partitioner), rows_(rows), columns_(std::move(columns)), batch_size_(batch_size) {}
PartitionSink::~PartitionSink() = default;

// Once per sink: one stage makes all of its batches, and rows of another layout would be read as if they had this one.
void PartitionSink::learn_types(const OutputBatch& batch) {
    SPILLWAY_CHECK(batch.columns.size() == columns_.size());
    std::vector<TypePtr> types;
    for (size_t i = 0; i < columns_.size(); ++i) {
        types.push_back(batch.columns[i].type);
        SPILLWAY_CHECK(has_planned_layout(*columns_[i], *types.back()));
    }
    adopt_types(rows_.mutable_layout(), types);
    types_known_ = true;
}

RowEncoder& PartitionSink::encoder(int worker, const OutputBatch& batch) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!types_known_) learn_types(batch);
    const auto index = static_cast<size_t>(worker);
    if (index >= encoders_.size()) encoders_.resize(index + 1);
    if (!encoders_[index]) {
        std::vector<int32_t> columns(batch.columns.size());
        std::iota(columns.begin(), columns.end(), 0);
        encoders_[index] = std::make_unique<RowEncoder>(rows_.layout(), std::move(columns), rows_.budget());
    }
    return *encoders_[index];
}

void PartitionSink::push(int worker, OutputBatch&& batch) {
    RowEncoder& rows_encoder = encoder(worker, batch);
    std::vector<ColumnView> views;
    views.reserve(batch.columns.size());
    for (const OutputColumn& column : batch.columns) views.push_back(view_of(column));
    const uint64_t first = next_row_number_.fetch_add(static_cast<uint64_t>(batch.rows), std::memory_order_relaxed);
    append_views(partitioner_, worker, rows_encoder, views, batch.rows, first);
    stream_fence();
}

}  // namespace spillway
