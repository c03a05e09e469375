// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/pipeline.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "cpu/materialize/vector_keys.hpp"
#include "cpu/row/placed_rows.hpp"
#include "cpu/row/row_encoder.hpp"
#include "executor/cpu/morsel_reader.hpp"

namespace spillway {

struct Pipeline::Join {
    std::vector<VectorColumn> key_columns;
    RowLayout layout;  // of the keys of rows that are looked up
    std::unique_ptr<ResidentTables> tables;
    const JoinSpec* spec = nullptr;
    bool counted = false;  // the last one, and its matches need not be named
    bool unique = false;   // a row has one partner at most
    bool read = false;     // somebody reads columns of the build rows that are found
};

Pipeline::Pipeline(const std::vector<PartitionedRows*>& builds, Source& source, const PipelineSpec& spec, bool counting,
                   MemoryBudget& budget, JobControl& control, size_t pass)
    : source_(source),
      spec_(spec),
      counting_(counting),
      interval_(spec.passes ? &spec.passes->intervals[pass] : nullptr),
      budget_(budget),
      control_(control) {
    const auto add = [&](const PipelineColumn& column) {
        if (column.join < 0) view_of_column(column.column);
    };
    for (const PipelineJoin& join : spec.joins) std::for_each(join.key_columns.begin(), join.key_columns.end(), add);
    std::for_each(spec.outputs.begin(), spec.outputs.end(), add);
    source.load_dictionaries(source_columns_, budget, control);
    for (size_t j = 0; j < spec.joins.size(); ++j) {
        const PipelineJoin& from = spec.joins[j];
        auto join = std::make_unique<Join>();
        std::vector<TypePtr> types;
        for (const PipelineColumn& column : from.key_columns) {
            join->key_columns.push_back(resolve(column));
            types.push_back(join->key_columns.back().type);
        }
        join->spec = &from.spec;
        join->layout = RowLayout::make(types, from.keys, {}, from.null_keys);
        join->counted = counting && j + 1 == spec.joins.size() && from.spec.emit == JoinEmit::kPairs &&
                        !from.spec.keep_unmatched_probe;
        join->tables = std::make_unique<ResidentTables>(*builds[j], from.spec, join->layout,
                                                        table_use(from.spec, join->counted), control);
        joins_.push_back(std::move(join));
    }
    for (const PipelineColumn& column : spec.outputs) outputs_.push_back(resolve(column));
}

Pipeline::~Pipeline() = default;

size_t Pipeline::view_of_column(int32_t column) {
    const auto known = std::find(source_columns_.begin(), source_columns_.end(), column);
    const auto view = static_cast<size_t>(known - source_columns_.begin());
    if (known == source_columns_.end()) source_columns_.push_back(column);
    return view;
}

VectorColumn Pipeline::resolve(const PipelineColumn& column) {
    VectorColumn resolved;
    resolved.join = column.join;
    if (column.join < 0) {
        resolved.view = view_of_column(column.column);
        resolved.type = source_.columns()[static_cast<size_t>(column.column)];
        return resolved;
    }
    Join& join = *joins_[static_cast<size_t>(column.join)];
    join.read = true;
    resolved.layout = &join.tables->rows().layout();
    resolved.field = &resolved.layout->fields[static_cast<size_t>(column.column)];
    resolved.type = resolved.field->type;
    resolved.absent_rows = join.spec->keep_unmatched_probe;
    if (resolved.absent_rows && !resolved.type->nullable) {
        auto nullable = std::make_shared<ColumnType>(*resolved.type);
        nullable->nullable = true;
        resolved.type = nullable;
    }
    return resolved;
}

void Pipeline::make_tables() {
    for (const auto& join : joins_) {
        join->tables->make();
        join->unique = join->tables->unique();
    }
}

int Pipeline::workers() const {
    return workers_for(spec_.workers, source_, spec_.morsel_rows);
}

// The vectors of one worker: one behind each join, filled until it is full.
class Pipeline::Worker {
  public:
    Worker(Pipeline& pipeline, PipelineEnd& end) : pipeline_(pipeline), end_(end) {
        for (size_t j = 0; j < pipeline.joins_.size(); ++j) {
            steps_.push_back(std::make_unique<Step>(*pipeline.joins_[j], j, pipeline.budget_));
        }
        whole_.build_rows.resize(steps_.size());
        uint64_t bytes = 0;
        for (const auto& step : steps_) bytes += sizeof(Step) + step->builds.size() * sizeof(Step::Addresses);
        memory_ = pipeline.budget_.reserve(bytes, "vectors of a pipeline");
    }

    void run(const std::vector<ColumnView>& views, int64_t rows) {
        views_ = &views;
        for (int64_t begin = 0; begin < rows; begin += RowVector::kRowsMax) {
            whole_.first_row = begin;
            whole_.rows = std::min(RowVector::kRowsMax, rows - begin);
            push(0, whole_);
        }
        // The views end here.
        for (size_t j = 0; j < steps_.size(); ++j) flush(j);
    }

  private:
    struct Step {
        Step(Join& of, size_t number, MemoryBudget& budget) : join(of), builds(number + 1) {
            if (of.tables->perfect() != nullptr) {
                words.emplace(of.layout.keys[0], of.key_columns[0], budget);
            } else {
                keys.emplace(of.key_columns, budget);
                encoder.emplace(of.layout, columns_of(of), budget);
            }
            // Where nobody reads the rows that are found they are not named, but a partner is there.
            static constexpr uint8_t kPartner = 0;
            std::fill_n(matches, RowVector::kRowsMax, &kPartner);
            out.build_rows.resize(number + 1);
            for (size_t k = 0; k <= number; ++k) out.build_rows[k] = builds[k].addresses;
            out.source_rows = source_rows;
            passed.build_rows.resize(number + 1);
            by_partition.resize(of.tables->count() > 1 ? of.tables->count() : 0);
        }
        static std::vector<int32_t> columns_of(const Join& join) {
            std::vector<int32_t> columns(join.key_columns.size());
            for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<int32_t>(i);
            return columns;
        }
        struct Addresses {
            const uint8_t* addresses[RowVector::kRowsMax];
        };
        struct PartitionRows {
            std::vector<const uint8_t*> keys;
            std::vector<int32_t> positions;
        };

        Join& join;
        std::optional<VectorKeys> words;  // of a perfect table; the three that follow: of others
        std::optional<VectorGather> keys;
        std::optional<RowEncoder> encoder;
        PlacedRows placed;
        std::vector<PartitionRows> by_partition;
        // What was found for each row of the vector that is looked up.
        const uint8_t* key_rows[RowVector::kRowsMax];
        uint32_t found[RowVector::kRowsMax];
        const ProbeTarget* targets[RowVector::kRowsMax];
        // Matches that were not yet appended: positions in the vector that is looked up, and build rows.
        int32_t positions[RowVector::kRowsMax];
        const uint8_t* matches[RowVector::kRowsMax];
        int64_t matched = 0;
        // What came out.
        RowVector out;
        int64_t source_rows[RowVector::kRowsMax];
        std::vector<Addresses> builds;
        RowVector passed;
    };

    void push(size_t j, const RowVector& rows) {
        if (rows.rows == 0) return;
        if (j == steps_.size()) return end_.add(rows, *views_);
        Step& step = *steps_[j];
        if (step.words) {
            look_up_words(j, rows);
        } else if (look_up(step, rows)) {
            emit(j, rows);
        }
    }

    void flush(size_t j) {
        Step& step = *steps_[j];
        push(j + 1, step.out);
        step.out.rows = 0;
    }

    // Looks the rows up in a perfect table and sends their matches on.
    void look_up_words(size_t j, const RowVector& rows) {
        Step& step = *steps_[j];
        const ResidentTables& tables = *step.join.tables;
        const PerfectTable& table = *tables.perfect();
        const uint8_t* words = step.words->read(rows, *views_);
        uint32_t numbers[RowVector::kRowsMax];
        const int64_t count = table.find_words(words, step.words->count(), step.positions, numbers);
        if (step.join.counted) return end_.count(rows_of(step, numbers, count));
        step.words->to_rows(step.positions, count);
        const JoinSpec& spec = *step.join.spec;
        if (step.join.unique && spec.emit == JoinEmit::kPairs && !spec.keep_unmatched_probe) {
            if (step.join.read) name_matches(step, tables.target(0), numbers, count);
            step.matched = count;
            return append(j, rows);
        }
        std::fill_n(step.found, rows.rows, kNoRow);
        std::fill_n(step.targets, rows.rows, &tables.target(0));
        for (int64_t i = 0; i < count; ++i) step.found[step.positions[i]] = numbers[i];
        emit(j, rows);
    }

    static uint64_t rows_of(const Step& step, const uint32_t* numbers, int64_t count) {
        auto rows = static_cast<uint64_t>(count);
        if (step.join.unique) return rows;
        const PerfectTable& table = *step.join.tables->perfect();
        for (int64_t i = 0; i < count; ++i) {
            for (uint32_t n = table.next_equal(numbers[i]); n != kNoRow; n = table.next_equal(n)) ++rows;
        }
        return rows;
    }

    static void name_matches(Step& step, const ProbeTarget& target, const uint32_t* numbers, int64_t count) {
        const uint32_t prefetched = prefetched_bytes(step);
        for (int64_t i = 0; i < count; ++i) {
            const uint8_t* row = target.build->row(numbers[i]);
            step.matches[i] = row;
            for (uint32_t line = 0; line < prefetched; line += 64) __builtin_prefetch(row + line);
        }
    }

    // 1,024 rows of so many lines are in the L2 cache together.
    static uint32_t prefetched_bytes(const Step& step) {
        return std::min<uint32_t>(step.join.tables->rows().layout().row_bytes, 256);
    }

    // Fills found and targets of the step; false: the rows were counted, and that is all.
    bool look_up(Step& step, const RowVector& rows) {
        const std::vector<ColumnView>& views = step.keys->gather(rows, *views_);
        uint64_t counted = 0;
        for (int64_t done = 0; done < rows.rows;) {
            const int64_t count = std::min(step.encoder->rows_max(), rows.rows - done);
            const EncodedRows& encoded = step.encoder->encode(views, done, count, 0);
            for (int64_t placed = 0; placed < encoded.rows;) {
                const int64_t end = step.placed.place(encoded, placed, pipeline_.budget_);
                counted += look_up_placed(step, encoded, placed, end, done);
                placed = end;
            }
            done += count;
        }
        if (step.join.counted) end_.count(counted);
        return !step.join.counted;
    }

    uint64_t look_up_placed(Step& step, const EncodedRows& encoded, int64_t begin, int64_t end, int64_t first) {
        const ResidentTables& tables = *step.join.tables;
        const bool many = tables.count() > 1;
        int32_t keys = 0;
        uint64_t counted = 0;
        int32_t where[RowVector::kRowsMax];
        for (int64_t i = begin; i < end; ++i) {
            const uint8_t* row = step.placed.row(i - begin);
            const auto position = static_cast<int32_t>(first + i);
            if (encoded.null_key != nullptr && encoded.null_key[i] != 0) {
                step.found[position] = kNoRow;
            } else if (many) {
                auto& rows = step.by_partition[tables.partition_of(first_word(row))];
                rows.keys.push_back(row);
                rows.positions.push_back(position);
            } else {
                step.key_rows[keys] = row;
                where[keys++] = position;
            }
        }
        if (!many) return find(step, 0, step.key_rows, where, keys);
        for (size_t p = 0; p < step.by_partition.size(); ++p) {
            auto& rows = step.by_partition[p];
            if (rows.keys.empty()) continue;
            counted += find(step, p, rows.keys.data(), rows.positions.data(), static_cast<int32_t>(rows.keys.size()));
            rows.keys.clear();
            rows.positions.clear();
        }
        return counted;
    }

    static uint64_t find(Step& step, size_t partition, const uint8_t* const* keys, const int32_t* positions,
                         int32_t count) {
        const ProbeTarget& target = step.join.tables->target(partition);
        if (step.join.counted) return target.table->count_matches(keys, count);
        uint32_t first[RowVector::kRowsMax];
        target.table->find(keys, count, first);
        for (int32_t i = 0; i < count; ++i) {
            step.found[positions[i]] = first[i];
            step.targets[positions[i]] = &target;
        }
        return 0;
    }

    void emit(size_t j, const RowVector& rows) {
        Step& step = *steps_[j];
        const JoinSpec& spec = *step.join.spec;
        if (spec.emit == JoinEmit::kProbeOnce) {
            for (int64_t i = 0; i < rows.rows; ++i) {
                step.positions[step.matched] = static_cast<int32_t>(i);
                step.matches[step.matched] = nullptr;
                step.matched += (step.found[i] != kNoRow) != spec.anti ? 1 : 0;
            }
            return append(j, rows);
        }
        if (step.join.unique) {
            emit_unique(step, rows, spec.keep_unmatched_probe);
        } else {
            emit_all(j, rows, spec.keep_unmatched_probe);
        }
        append(j, rows);
    }

    static void emit_unique(Step& step, const RowVector& rows, bool keep_unmatched) {
        const uint32_t prefetched = prefetched_bytes(step);
        int64_t matched = 0;
        for (int64_t i = 0; i < rows.rows; ++i) {
            const uint32_t number = step.found[i];
            const bool is_match = number != kNoRow;
            const uint8_t* row = is_match ? step.targets[i]->build->row(number) : nullptr;
            step.positions[matched] = static_cast<int32_t>(i);
            step.matches[matched] = row;
            for (uint32_t line = 0; is_match && line < prefetched; line += 64) __builtin_prefetch(row + line);
            matched += is_match || keep_unmatched ? 1 : 0;
        }
        step.matched = matched;
    }

    void emit_all(size_t j, const RowVector& rows, bool keep_unmatched) {
        Step& step = *steps_[j];
        const auto add = [&](int64_t i, const uint8_t* row) {
            step.positions[step.matched] = static_cast<int32_t>(i);
            step.matches[step.matched++] = row;
            if (step.matched == RowVector::kRowsMax) append(j, rows);
        };
        for (int64_t i = 0; i < rows.rows; ++i) {
            uint32_t number = step.found[i];
            if (number == kNoRow) {
                if (keep_unmatched) add(i, nullptr);
                continue;
            }
            const ProbeTarget& target = *step.targets[i];
            for (; number != kNoRow; number = target.table->next_equal(number)) add(i, target.build->row(number));
        }
    }

    // Matches go behind what came out before; what is full goes on.
    void append(size_t j, const RowVector& rows) {
        Step& step = *steps_[j];
        const int64_t matched = std::exchange(step.matched, 0);
        if (matched == rows.rows && step.out.rows == 0 && is_each_row_once(step, matched)) {
            return pass(j, rows);
        }
        for (int64_t done = 0; done < matched;) {
            const int64_t at = step.out.rows;
            const int64_t count = std::min(matched - done, RowVector::kRowsMax - at);
            const int32_t* positions = step.positions + done;
            for (int64_t i = 0; i < count; ++i) step.source_rows[at + i] = rows.source_row(positions[i]);
            for (size_t k = 0; k < j; ++k) {
                if (!steps_[k]->join.read) continue;
                const uint8_t* const* from = rows.build_rows[k];
                const uint8_t** to = step.builds[k].addresses + at;
                for (int64_t i = 0; i < count; ++i) to[i] = from[positions[i]];
            }
            if (step.join.read) std::copy_n(step.matches + done, count, step.builds[j].addresses + at);
            step.out.rows += count;
            done += count;
            if (step.out.rows == RowVector::kRowsMax) flush(j);
        }
    }

    static bool is_each_row_once(const Step& step, int64_t matched) {
        return matched > 0 && step.join.unique && step.positions[matched - 1] == matched - 1;
    }

    // Every row found its one partner, as foreign keys do: nothing is copied.
    void pass(size_t j, const RowVector& rows) {
        Step& step = *steps_[j];
        RowVector& passed = step.passed;
        passed.rows = rows.rows;
        passed.first_row = rows.first_row;
        passed.source_rows = rows.source_rows;
        for (size_t k = 0; k < j; ++k) passed.build_rows[k] = rows.build_rows[k];
        passed.build_rows[j] = step.matches;
        push(j + 1, passed);
    }

    Pipeline& pipeline_;
    PipelineEnd& end_;
    Reservation memory_;  // of the steps
    std::vector<std::unique_ptr<Step>> steps_;
    RowVector whole_;
    const std::vector<ColumnView>* views_ = nullptr;
};

void Pipeline::stream(MorselQueue& queue, PipelineEnd& end, const std::function<bool()>& stopped) {
    std::optional<IntervalFilter> filter;
    if (interval_ != nullptr) {
        // Rows of the passes' join: nothing else of them is read where none has a key of this pass.
        const Join& join = *joins_[spec_.passes->join];
        const VectorColumn& key = join.key_columns[0];
        if (key.join < 0) {
            filter.emplace(source_, join.layout.keys[0], source_columns_[key.view], *interval_, budget_, control_);
        }
    }
    MorselReader reader(source_, source_columns_, queue, budget_, control_, filter ? &*filter : nullptr);
    Worker worker(*this, end);
    while (!stopped() && reader.next()) worker.run(reader.views(), reader.rows());
}

}  // namespace spillway
