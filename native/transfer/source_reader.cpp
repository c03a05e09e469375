// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/checked_size.hpp"
#include "transfer/batch_cursor.hpp"
#include "transfer/slice_reader.hpp"
#include "transfer/source.hpp"

namespace spillway {

namespace {

void check_loaded(const NodePlan& plan, const SourceParts& parts) {
    if (plan.group >= 0) SPILLWAY_CHECK(parts.groups[static_cast<size_t>(plan.group)]->loaded);
    for (const NodePlan& child : plan.children) check_loaded(child, parts);
}

constexpr uint64_t kToldBytes = 1 << 20;

}  // namespace

struct SourceReader::State {
    struct Column {
        const NodePlan* plan;
        NodeScratch scratch;
    };
    State(const Source& of, const SourceSpec& spec, const SourceParts& source_parts, MemoryBudget& budget,
          JobControl& job, MemoryStructure structure)
        : source(of),
          parts(source_parts),
          control(job),
          cursor(spec, source_parts, budget),
          slices(source_parts, cursor, budget, structure) {}
    ~State() { tell_bytes(); }
    State(const State&) = delete;

    // The batch, which must have these rows.
    const BatchPosition& at(int64_t batch, int64_t row, int64_t rows) {
        SPILLWAY_CHECK(batch >= 0 && batch < source.batch_count());
        const int64_t batch_rows = source.batch_rows(batch);
        SPILLWAY_CHECK(row >= 0 && rows >= 0 && row <= batch_rows && rows <= batch_rows - row);
        return cursor.at(batch);
    }

    // The job's counter is that of all readers: those of small batches would wait for each other.
    void count_bytes(uint64_t bytes) {
        untold_bytes += bytes;
        if (untold_bytes >= kToldBytes) tell_bytes();
    }
    void tell_bytes() { control.bytes_in.fetch_add(std::exchange(untold_bytes, 0), std::memory_order_relaxed); }

    uint64_t bytes(const BatchPosition& batch, int64_t row, int64_t rows) {
        uint64_t total = 0;
        for (Column& column : columns) {
            total = add_or_max(total, slices.slice_bytes({*column.plan, batch, row, rows}, column.scratch));
        }
        return total;
    }

    // What `read` gives, which reads of the batch alone. Bytes of a file that was written to meanwhile may be those of
    // no batch: that is the error then, whatever they looked like.
    template <class Read>
    auto unwritten(const BatchPosition& batch, Read read) {
        if (!batch.in_file()) return read();
        const int32_t file = batch.layout->file;
        try {
            auto result = read();
            parts.files->require_unwritten(file);
            return result;
        } catch (const Error& error) {
            if (error.code() == ErrorCode::kFileCorrupt) parts.files->require_unwritten(file);
            throw;
        }
    }

    // Into `views`; gives the bytes of these rows.
    uint64_t read(const BatchPosition& batch, int64_t row, int64_t rows) {
        for (size_t i = 0; i < columns.size(); ++i) {
            const NodePlan& plan = *columns[i].plan;
            ColumnView& view = views[i];
            slices.read({plan, batch, row, rows}, columns[i].scratch, view);
            // Consumers keep no NULL bits for such columns: a NULL that comes anyway (a NULL in the dictionary, a batch
            // without a NULL count) must not pass as a value.
            if (!plan.type->nullable && plan.type->layout != Layout::kNull && view.validity != nullptr) {
                throw corrupt_batch(batch, plan.name, "is declared non-nullable but has NULLs");
            }
        }
        return slices.take_bytes_read();
    }

    // How many of these rows need at most so many bytes: by halving, as bytes() never decreases with more rows.
    int64_t rows_within(const BatchPosition& batch, int64_t row, int64_t rows, uint64_t max_bytes) {
        if (bytes(batch, row, rows) <= max_bytes) return rows;
        int64_t fits = 1;
        for (int64_t exceeds = rows; exceeds - fits > 1;) {
            const int64_t middle = fits + (exceeds - fits) / 2;
            (bytes(batch, row, middle) <= max_bytes ? fits : exceeds) = middle;
        }
        return fits;
    }

    const Source& source;
    const SourceParts& parts;
    JobControl& control;
    BatchCursor cursor;
    SliceReader slices;
    std::vector<Column> columns;
    std::vector<ColumnView> views;
    int64_t row_bits = 0;  // -1: differs from row to row
    uint64_t untold_bytes = 0;
};

SourceReader::SourceReader(const Source& source, std::vector<int32_t> columns, MemoryBudget& budget,
                           JobControl& control, MemoryStructure structure)
    : state_(std::make_unique<State>(source, source.spec_, *source.parts_, budget, control, structure)) {
    for (const int32_t column : columns) {
        SPILLWAY_CHECK(column >= 0 && static_cast<size_t>(column) < state_->parts.plans.size());
        const NodePlan& plan = state_->parts.plans[static_cast<size_t>(column)];
        check_loaded(plan, state_->parts);
        state_->columns.push_back({&plan, {}});
        const int64_t bits = constant_row_bits(plan);
        state_->row_bits = bits < 0 || state_->row_bits < 0 ? -1 : add_or_max(state_->row_bits, bits);
    }
    state_->views.resize(columns.size());
}

SourceReader::~SourceReader() = default;

const std::vector<ColumnView>& SourceReader::read(int64_t batch, int64_t row, int64_t rows) {
    State& state = *state_;
    const BatchPosition& position = state.at(batch, row, rows);
    state.count_bytes(state.unwritten(position, [&] { return state.read(position, row, rows); }));
    return state.views;
}

int64_t SourceReader::rows_within(int64_t batch, int64_t row, int64_t rows, uint64_t max_bytes) {
    State& state = *state_;
    if (rows <= 1) return rows;
    if (state.row_bits >= 0) {
        if (state.row_bits == 0) return rows;
        const auto within = static_cast<unsigned __int128>(max_bytes) * 8 / static_cast<uint64_t>(state.row_bits);
        if (within >= static_cast<uint64_t>(rows)) return rows;
        return std::max<int64_t>(1, static_cast<int64_t>(within));
    }
    const BatchPosition& position = state.at(batch, row, rows);
    const int64_t fits = state.unwritten(position, [&] { return state.rows_within(position, row, rows, max_bytes); });
    state.slices.take_bytes_read();  // a look ahead, not input
    return fits;
}

uint64_t SourceReader::value_bytes(size_t column, int64_t batch, int64_t row, int64_t rows) {
    State& state = *state_;
    SPILLWAY_CHECK(column < state.columns.size());
    const BatchPosition& position = state.at(batch, row, rows);
    State::Column& found = state.columns[column];
    const uint64_t bytes = state.unwritten(position, [&] {
        return state.slices.value_bytes({*found.plan, position, row, rows}, found.scratch);
    });
    state.slices.take_bytes_read();  // a look ahead, not input
    return bytes;
}

uint64_t SourceReader::longest_value(size_t column, int64_t batch, int64_t row, int64_t rows) {
    State& state = *state_;
    SPILLWAY_CHECK(column < state.columns.size());
    const BatchPosition& position = state.at(batch, row, rows);
    State::Column& found = state.columns[column];
    const uint64_t bytes = state.unwritten(position, [&] {
        return state.slices.longest_value({*found.plan, position, row, rows}, found.scratch);
    });
    state.slices.take_bytes_read();  // a look ahead, not input
    return bytes;
}

}  // namespace spillway
