// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/materialize/column_gather.hpp"
#include "cpu/materialize/key_match.hpp"
#include "executor/streaming/held_columns.hpp"
#include "executor/streaming/join_result.hpp"
#include "executor/streaming/join_spec.hpp"
#include "memory/memory_budget.hpp"
#include "model/batch_sink.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Columns of a source that are read by row number; in order, each once.
std::vector<int32_t> gathered_columns(const std::vector<ResultColumn>& columns, int32_t source);
// Those of a join's side, for results and to compare keys.
std::vector<int32_t> gathered_columns(const OutOfCoreStage& stage, size_t side);

// Sources whose columns are gathered; nullptr: none of this side.
using HeldSides = HeldColumns* const[2];

// Result rows of a join, some of whose columns are gathered. What it refers to must outlive it.
struct GatheredRows {
    JoinedRows joined;
    const std::vector<ResultColumn>& columns;
    // By source: the output column with the numbers of its rows, of which one with all bits set says that there is no
    // row; -1: none.
    std::vector<int32_t> row_numbers;
    std::vector<HeldColumns*> held;          // by source; nullptr: none of its columns
    const OutOfCoreStage* hashed = nullptr;  // whose keys are to be compared
};
// texts: of text columns that are not gathered, if there are some.
GatheredRows gathered_rows(const OutOfCoreStage& stage, const HeldSides& held, const TextCodes* texts = nullptr);

// One worker's way to make batches of result rows some of whose columns are gathered by row number. Pairs of rows whose
// keys have the same hash and are not equal are dropped.
class ResultGather {
  public:
    ResultGather(GatheredRows rows, BatchSink& sink, MemoryBudget& budget, int worker);

    // `read` is called when the rows are needed no more, before the sink is given the last batch. Returns how many of
    // the rows were part of the result.
    uint64_t deliver(const GpuOutputs& outputs, uint64_t rows, const std::function<void()>& read);

  private:
    struct Part {
        size_t source = 0;
        uint8_t mask = 0;
        const std::vector<ColumnView>* views = nullptr;
    };
    struct Column {
        const ResultColumn* spec = nullptr;
        std::vector<Part> parts;
        ColumnGather gather;
    };
    struct MatchedPart {
        const std::vector<ColumnView>* views[2] = {};
    };
    void add_columns();
    void add_keys(const OutOfCoreStage& stage);
    void find_places(uint64_t begin, int64_t rows);
    void drop_false_pairs();
    void find_values(Column& column);
    uint64_t row_bytes(int64_t i) const;
    int64_t rows_that_fit(int64_t begin) const;
    int64_t rows_with_room(int64_t begin, uint64_t left);
    void begin_batch(int64_t rows);
    OutputBatch take_batch(uint64_t end);

    const GatheredRows rows_;
    BatchSink& sink_;
    MemoryBudget& budget_;
    const int worker_;
    const BatchSize batch_size_;
    std::vector<Column> columns_;          // that are gathered
    std::unique_ptr<BatchMemory> memory_;  // of the batch that has rows
    uint64_t fixed_row_bytes_ = 0;
    std::optional<KeyMatch> match_;
    std::vector<MatchedPart> matched_;

    const GpuOutputs* outputs_ = nullptr;
    uint64_t batch_begin_ = 0;                             // first of the rows that are in no batch yet
    uint64_t batch_rows_ = 0;                              // gathered since
    int64_t found_ = 0;                                    // rows of the block
    std::vector<std::vector<HeldColumns::Place>> places_;  // by source
    std::vector<uint8_t> presence_;
    std::vector<std::vector<ValuePlace>> values_;  // of each column
};

}  // namespace spillway
