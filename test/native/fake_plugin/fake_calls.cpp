// SPDX-License-Identifier: Apache-2.0
// The functions of plugin.h for tables.
#include <unistd.h>

#include "fake_gpu.hpp"

namespace fake {

namespace {

// Some work of the GPU that can be cancelled.
template <class Body>
void operate(spillway_cuda_gpu* gpu, int32_t algorithm, TableReport* report, spillway_cuda_status* status,
             Body&& body) {
    *report = {};
    guarded(gpu, status, [&] {
        for (int ms = 0; is_asked_for("slow") && ms < 20'000 && !gpu->cancelled; ++ms) ::usleep(1000);
        check(gpu);
        report->algorithm = algorithm;
        body();
        report->elapsed_ms = 1;
        report->transform_ms = 0.25;
        report->match_ms = 0.5;
        report->materialize_ms = 0.125;
        report->peak_bytes = gpu->peak_bytes;
    });
}

}  // namespace

spillway_cuda_transfer* copied(spillway_cuda_gpu* gpu, void* to, const void* from, uint64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    ++gpu->children;
    return new spillway_cuda_transfer{gpu};
}

void create_table(spillway_cuda_gpu* gpu, uint64_t rows, const ColumnSpec* columns, uint64_t column_count,
                  spillway_cuda_table** table, spillway_cuda_status* status) {
    *table = nullptr;
    guarded(gpu, status, [&] {
        Table made;
        made.rows = rows;
        for (uint64_t i = 0; i < column_count; ++i) made.columns.push_back(make_column(gpu, rows, columns[i]));
        *table = own(gpu, std::move(made));
    });
}

void free_table(spillway_cuda_table* table) {
    const std::lock_guard<std::recursive_mutex> hold(lock());
    --table->gpu->children;
    delete table;
}

void table_size(const spillway_cuda_table* table, uint64_t* rows, uint64_t* column_count) {
    *rows = table->table.rows;
    *column_count = table->table.columns.size();
}

void table_column(const spillway_cuda_table* table, uint64_t column, ColumnSpec* told) {
    *told = table->table.columns.at(column).is;
}

// As the no-partitioning join of build sides that repeat a key too often.
void refuse_walks(const TableJoin& join) {
    if (join.algorithm != JoinAlgorithm::kNoPartitioning || !is_asked_for("walks")) return;
    throw Failure{SPILLWAY_CUDA_UNSUPPORTED, "a key comes too often"};
}

void join_tables(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                 const TableJoin* join, spillway_cuda_table** result, TableReport* report,
                 spillway_cuda_status* status) {
    *result = nullptr;
    operate(gpu, static_cast<int32_t>(join->algorithm), report, status, [&] {
        refuse_walks(*join);
        *result = own(gpu, ::fake::join(gpu, build->table, probe->table, *join));
        // As the real one, of which some algorithms count what they move.
        if (join->algorithm == JoinAlgorithm::kRadixHash)
            report->moved_bytes = 12 * (build->table.rows + probe->table.rows);
    });
}

void count_join(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                const TableJoin* join, uint64_t* rows, TableReport* report, spillway_cuda_status* status) {
    *rows = 0;
    operate(gpu, static_cast<int32_t>(join->algorithm), report, status, [&] {
        refuse_walks(*join);
        *rows = ::fake::count(build->table, probe->table, *join);
    });
}

void group_table(spillway_cuda_gpu* gpu, const spillway_cuda_table* table, const TableGroupBy* group,
                 spillway_cuda_table** result, TableReport* report, spillway_cuda_status* status) {
    *result = nullptr;
    constexpr uint64_t kHashGroupsMax = 1000;  // fewer than tests have
    operate(gpu, static_cast<int32_t>(group->algorithm), report, status, [&] {
        *result = own(gpu, ::fake::group(gpu, table->table, *group));
        if (group->algorithm == GroupByAlgorithm::kHash && (*result)->table.rows > kHashGroupsMax)
            report->algorithm =
                static_cast<int32_t>(group->is_named ? GroupByAlgorithm::kHashGlobal : GroupByAlgorithm::kPartitioned);
    });
}

void begin_join(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                const TableJoin* join, spillway_cuda_pieces** pieces, uint64_t* total_rows, TableReport* report,
                spillway_cuda_status* status) {
    *pieces = nullptr;
    *total_rows = 0;
    operate(gpu, static_cast<int32_t>(join->algorithm), report, status, [&] {
        if (join->algorithm != JoinAlgorithm::kRadixHash)
            throw Failure{SPILLWAY_CUDA_UNSUPPORTED, "an algorithm without pieces"};
        *pieces = new spillway_cuda_pieces(gpu, build->table, probe->table, *join);
        *total_rows = (*pieces)->pieces.rows();
        ++gpu->children;
    });
}

void next_piece(spillway_cuda_pieces* pieces, uint64_t rows_max, spillway_cuda_table** table, TableReport* report,
                spillway_cuda_status* status) {
    *table = nullptr;
    constexpr int32_t kRadixHash = 0;
    operate(pieces->gpu, kRadixHash, report, status, [&] {
        Table rows;
        const ClaimUser user(pieces->claim);
        if (pieces->pieces.next(pieces->gpu, rows_max, rows)) *table = own(pieces->gpu, std::move(rows));
        pieces->claim->keep_peak();
    });
}

void free_pieces(spillway_cuda_pieces* pieces) {
    const std::lock_guard<std::recursive_mutex> hold(lock());
    --pieces->gpu->children;
    delete pieces;
}

}  // namespace fake
