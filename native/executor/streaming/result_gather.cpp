// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/result_gather.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/checked_size.hpp"
#include "base/error.hpp"

namespace spillway {

namespace {

constexpr int64_t kBlockRows = ColumnGather::kRowsMax;

// The number in place of that of a row which is not there.
uint64_t no_row(uint32_t width) {
    return ~uint64_t{0} >> (64 - 8 * width);
}

uint64_t row_number(const uint8_t* numbers, uint64_t row, uint32_t width) {
    uint64_t number = 0;  // little-endian: the low bytes come first
    std::memcpy(&number, numbers + row * width, width);
    return number;
}

std::vector<KeyPart> key_parts(const OutOfCoreStage& stage, const HeldColumns& held, size_t side) {
    return RowLayout::make(held.source_columns(), stage.sides[side].keys, {}, stage.null_keys).keys;
}

}  // namespace

std::vector<int32_t> gathered_columns(const std::vector<ResultColumn>& columns, int32_t source) {
    std::set<int32_t> found;
    for (const ResultColumn& column : columns) {
        for (const ResultPart& part : column.parts) {
            if (part.source == source) found.insert(part.value);
        }
    }
    return {found.begin(), found.end()};
}

std::vector<int32_t> gathered_columns(const OutOfCoreStage& stage, size_t side) {
    const std::vector<int32_t> of_results = gathered_columns(stage.columns, static_cast<int32_t>(side));
    std::set<int32_t> columns(of_results.begin(), of_results.end());
    if (stage.keys == OutOfCoreKeys::kHashed) {
        for (const KeySpec& key : stage.sides[side].keys) columns.insert(key.column);
    }
    return {columns.begin(), columns.end()};
}

GatheredRows gathered_rows(const OutOfCoreStage& stage, const HeldSides& held, const TextCodes* texts) {
    return {{stage.join, stage.presence, texts},
            stage.columns,
            {stage.row_numbers[kBuildSide], stage.row_numbers[kProbeSide]},
            {held[kBuildSide], held[kProbeSide]},
            stage.keys == OutOfCoreKeys::kHashed ? &stage : nullptr};
}

ResultGather::ResultGather(GatheredRows rows, BatchSink& sink, MemoryBudget& budget, int worker)
    : rows_(std::move(rows)),
      sink_(sink),
      budget_(budget),
      worker_(worker),
      batch_size_{std::max<int64_t>(sink.batch_size().rows, 1), sink.batch_size().bytes},
      places_(rows_.held.size()) {
    if (sink.wants_columns()) add_columns();
    if (rows_.hashed != nullptr) add_keys(*rows_.hashed);
}

void ResultGather::add_keys(const OutOfCoreStage& stage) {
    const HeldColumns& build = *rows_.held[kBuildSide];
    const HeldColumns& probe = *rows_.held[kProbeSide];
    match_.emplace(key_parts(stage, build, kBuildSide), key_parts(stage, probe, kProbeSide));
    for (size_t p = 0; p < match_->parts(); ++p) {
        MatchedPart part;
        part.views[kBuildSide] = &build.views(stage.sides[kBuildSide].keys[p].column);
        part.views[kProbeSide] = &probe.views(stage.sides[kProbeSide].keys[p].column);
        matched_.push_back(part);
    }
}

void ResultGather::add_columns() {
    for (const ResultColumn& column : rows_.columns) {
        if (!column.is_gathered()) {
            fixed_row_bytes_ += result_width(*column.type);
            continue;
        }
        std::vector<Part> parts;
        TypePtr type;
        for (const ResultPart& part : column.parts) {
            const auto number = static_cast<size_t>(part.source);
            const HeldColumns& source = *rows_.held[number];
            parts.push_back({number, part.mask, &source.views(part.value)});
            if (type == nullptr) type = source.source_columns()[static_cast<size_t>(part.value)];
        }
        columns_.push_back({&column, std::move(parts), ColumnGather(type, budget_)});
        fixed_row_bytes_ += columns_.back().gather.fixed_bytes();
        values_.emplace_back(static_cast<size_t>(kBlockRows));
    }
}

uint64_t ResultGather::deliver(const GpuOutputs& outputs, uint64_t rows, const std::function<void()>& read) {
    outputs_ = &outputs;
    batch_begin_ = 0;
    uint64_t delivered = 0;
    for (uint64_t begin = 0; begin < rows;) {
        find_places(begin, static_cast<int64_t>(std::min<uint64_t>(kBlockRows, rows - begin)));
        const uint64_t end = begin + static_cast<uint64_t>(found_);
        if (match_) drop_false_pairs();
        delivered += static_cast<uint64_t>(found_);
        for (size_t i = 0; i < columns_.size(); ++i) find_values(columns_[i]);
        for (int64_t done = 0; done < found_ && sink_.wants_columns();) {
            const int64_t step = rows_with_room(done, rows - begin);
            for (Column& column : columns_) column.gather.append(done, step);
            done += step;
            batch_rows_ += static_cast<uint64_t>(step);
            const bool full = done < found_ || batch_rows_ == static_cast<uint64_t>(batch_size_.rows);
            const bool last = done == found_ && end == rows;
            if (full && !last) sink_.push(worker_, take_batch(begin + static_cast<uint64_t>(done)));
        }
        begin = end;
    }
    std::optional<OutputBatch> batch;
    if (batch_rows_ > 0) batch = take_batch(rows);
    read();
    if (batch) sink_.push(worker_, std::move(*batch));
    return delivered;
}

// Where the rows [begin, begin + rows) come from, of each source that has row numbers.
void ResultGather::find_places(uint64_t begin, int64_t rows) {
    found_ = rows;
    presence_.assign(static_cast<size_t>(rows), cuda::kBuildPresent | cuda::kProbePresent | cuda::kKeyPresent);
    const cuda::StagedJoinSpec& join = rows_.joined.join;
    if (rows_.joined.presence >= 0) {
        const uint8_t* const bits = outputs_->values(static_cast<size_t>(rows_.joined.presence)) + begin;
        presence_.assign(bits, bits + rows);
    }
    for (size_t source = 0; source < rows_.held.size(); ++source) {
        if (rows_.held[source] == nullptr) continue;
        const auto output = static_cast<size_t>(rows_.row_numbers[source]);
        const uint32_t width = join.output_width(join.output[output]);
        const uint8_t* const numbers = outputs_->values(output);
        const bool of_build = join.output[output].side == cuda::OutputSide::kBuild;
        const uint8_t present = of_build ? cuda::kBuildPresent : cuda::kProbePresent;
        auto& places = places_[source];
        places.assign(static_cast<size_t>(rows), HeldColumns::Place{-1, 0});
        for (int64_t i = 0; i < rows; ++i) {
            if ((presence_[i] & present) == 0) continue;  // its number has no meaning
            const uint64_t number = row_number(numbers, begin + static_cast<uint64_t>(i), width);
            if (number != no_row(width)) places[i] = rows_.held[source]->place(number);
        }
    }
}

void ResultGather::drop_false_pairs() {
    int64_t kept = 0;
    for (int64_t i = 0; i < found_; ++i) {
        const HeldColumns::Place build = places_[kBuildSide][i];
        const HeldColumns::Place probe = places_[kProbeSide][i];
        bool equal = true;
        for (size_t p = 0; p < matched_.size() && equal; ++p) {
            const auto& views = matched_[p].views;
            equal = match_->equal(p, {&(*views[kBuildSide])[static_cast<size_t>(build.batch)], build.row},
                                  {&(*views[kProbeSide])[static_cast<size_t>(probe.batch)], probe.row});
        }
        if (!equal) continue;
        places_[kBuildSide][kept] = build;
        places_[kProbeSide][kept] = probe;
        ++kept;
    }
    found_ = kept;
}

// The first part that is there counts.
void ResultGather::find_values(Column& column) {
    std::vector<ValuePlace>& values = values_[static_cast<size_t>(&column - columns_.data())];
    for (int64_t i = 0; i < found_; ++i) {
        ValuePlace place;
        for (const Part& part : column.parts) {
            if ((presence_[i] & part.mask) != part.mask) continue;
            const HeldColumns::Place at = places_[part.source][i];
            if (at.batch < 0) continue;
            place = {&(*part.views)[static_cast<size_t>(at.batch)], at.row};
            break;
        }
        values[i] = place;
    }
    column.gather.find(values.data(), found_);
}

uint64_t ResultGather::row_bytes(int64_t i) const {
    uint64_t bytes = fixed_row_bytes_;
    for (const Column& column : columns_) {
        if (column.gather.is_variable()) bytes += column.gather.value_bytes(i);
    }
    return bytes;
}

// How many rows of the block from `begin` on the batch has room for: none when it is full, one at least when it is
// empty.
int64_t ResultGather::rows_that_fit(int64_t begin) const {
    uint64_t used = batch_rows_ * fixed_row_bytes_;
    for (const Column& column : columns_) {
        if (column.gather.is_variable()) used += column.gather.bytes() - batch_rows_ * column.gather.fixed_bytes();
    }
    const auto rows_left = static_cast<int64_t>(static_cast<uint64_t>(batch_size_.rows) - batch_rows_);
    const int64_t most = std::min(found_ - begin, rows_left);
    for (int64_t i = 0; i < most; ++i) {
        used += row_bytes(begin + i);
        if (used > batch_size_.bytes) return i == 0 && batch_rows_ == 0 ? 1 : i;
    }
    return most;
}

// As rows_that_fit(), but also gets memory for the rows, and returns fewer where there is none: a column whose buffer
// doubled may have taken what another one needs. An empty batch takes memory for all of the `left` rows that may
// follow, and for no more: many batches are short.
int64_t ResultGather::rows_with_room(int64_t begin, uint64_t left) {
    const auto expected = static_cast<int64_t>(std::min(left, static_cast<uint64_t>(batch_size_.rows)));
    if (batch_rows_ == 0) begin_batch(expected);
    for (int64_t step = rows_that_fit(begin);;) {
        try {
            for (Column& column : columns_) column.gather.reserve(begin, step);
            return step;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::kBudgetTooSmall || (batch_rows_ == 0 && step <= 1)) throw;
        }
        if (batch_rows_ > 0) return 0;
        step /= 2;
        // Columns that got theirs keep it.
        if (memory_->has_block()) {
            for (Column& column : columns_) column.gather.expect(step);
        } else {
            begin_batch(step);
        }
    }
}

// Memory for a batch of so many rows, as far as is known what they take.
void ResultGather::begin_batch(int64_t rows) {
    uint64_t bytes = 0;
    for (Column& column : columns_) {
        column.gather.expect(rows);
        bytes = add_or_max(bytes, column.gather.expected_bytes());
    }
    for (const ResultColumn& column : rows_.columns) {
        if (!column.is_gathered()) {
            bytes = add_or_max(bytes, expected_column_bytes(*column.type, static_cast<uint64_t>(rows)));
        }
    }
    memory_ = std::make_unique<BatchMemory>(budget_, bytes);
    for (Column& column : columns_) column.gather.use(*memory_);
}

// Rows [batch_begin_, end) of the outputs, less those that were dropped.
OutputBatch ResultGather::take_batch(uint64_t end) {
    const GpuOutputs outputs = outputs_->part(batch_begin_, end);
    OutputBatch batch;
    batch.rows = static_cast<int64_t>(batch_rows_);
    auto gathered = columns_.begin();
    for (const ResultColumn& column : rows_.columns) {
        batch.columns.push_back(column.is_gathered()
                                    ? (gathered++)->gather.finish()
                                    : result_column(rows_.joined, column, outputs, batch_rows_, *memory_, budget_));
    }
    batch.memory = memory_->take_block();
    batch_begin_ = end;
    batch_rows_ = 0;
    return batch;
}

}  // namespace spillway
