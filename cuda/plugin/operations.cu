// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/guard.hpp"
#include "device/host_clock.hpp"
#include "device/phase_times.hpp"
#include "plugin/handles.hpp"
#include "plugin/operations.hpp"
#include "relation/group_table.hpp"
#include "relation/join_pieces.hpp"
#include "relation/join_tables.hpp"

namespace spillway::cuda {

namespace {

// A number of plugin.h as the enumerator of equal value.
template <class Enum>
Enum enumerator(int32_t number, Enum last, const char* what) {
    require(number >= 0 && number <= static_cast<int32_t>(last), what);
    return static_cast<Enum>(number);
}

void require_column(uint32_t column, const DeviceTable& table) {
    require(column < table.columns.size(), "an operation names a column that the table does not have");
}

std::vector<KeyPart> key_parts(const spillway_cuda_key_part* parts, uint64_t count, const DeviceTable& table) {
    std::vector<KeyPart> made;
    for (uint64_t i = 0; i < count; ++i) {
        require_column(parts[i].column, table);
        made.push_back({parts[i].column, enumerator(parts[i].kind, KeyPartKind::kBytes, "a key is of no known kind"),
                        parts[i].width});
    }
    return made;
}

TableJoin join_of(const spillway_cuda_join& given, const DeviceTable& build, const DeviceTable& probe) {
    TableJoin join;
    join.algorithm = enumerator(given.algorithm, JoinAlgorithm::kSharedHistogram, "a join is of no known algorithm");
    join.kind.emit = enumerator(given.emit, JoinEmit::kProbeOnce, "a join gives rows of no known side");
    join.kind.anti = given.anti != 0;
    join.kind.keep_unmatched_build = given.keep_unmatched_build != 0;
    join.kind.keep_unmatched_probe = given.keep_unmatched_probe != 0;
    join.build_keys = key_parts(given.build_keys, given.key_count, build);
    join.probe_keys = key_parts(given.probe_keys, given.key_count, probe);
    join.nulls_equal = given.nulls_equal != 0;
    join.expected_rows = given.expected_rows;
    join.first_key = given.first_key;
    join.key_range = given.key_range;
    for (uint64_t i = 0; i < given.column_count; ++i) {
        const spillway_cuda_join_column& column = given.columns[i];
        const TableSide side = enumerator(column.side, TableSide::kEither, "a result column is of no known side");
        if (side != TableSide::kProbe) require_column(column.build_column, build);
        if (side != TableSide::kBuild) require_column(column.probe_column, probe);
        join.output.push_back({side, column.build_column, column.probe_column});
    }
    return join;
}

TableGroupBy group_of(const spillway_cuda_group& given, const DeviceTable& table) {
    TableGroupBy group;
    group.algorithm =
        enumerator(given.algorithm, GroupByAlgorithm::kDictionarySorted, "a group-by is of no known algorithm");
    group.keys = key_parts(given.keys, given.key_count, table);
    group.expected_groups = given.expected_groups;
    for (uint64_t i = 0; i < given.aggregate_count; ++i) {
        const spillway_cuda_aggregate& aggregate = given.aggregates[i];
        TableAggregate made;
        made.kind = enumerator(aggregate.kind, TableAggregateKind::kCountDistinct, "an aggregate is of no known kind");
        if (made.kind != TableAggregateKind::kCountRows) require_column(aggregate.column, table);
        made.column = aggregate.column;
        made.value_kind =
            enumerator(aggregate.value_kind, TableValueKind::kBytes, "an aggregate's values are of no known kind");
        made.result_width = aggregate.result_width;
        made.decimal_scale = aggregate.decimal_scale;
        group.aggregates.push_back(made);
    }
    return group;
}

// A table that was made before its operation failed after all.
void drop_unless_ok(spillway_cuda_table** result, const spillway_cuda_status* status) {
    if (status->code == SPILLWAY_CUDA_OK) return;
    delete *result;
    *result = nullptr;
}

// Runs an operation with the device to itself and reports on it. What it refuses (kInvalid) is no defect of the caller,
// whose arguments were checked before: it is something that has no implementation.
template <class Operation>
void run(spillway_cuda_gpu* gpu, int32_t algorithm, spillway_cuda_report* report, spillway_cuda_status* status,
         Operation&& operation) {
    *report = {};
    bool running = false;
    guarded(status, [&] {
        std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        PhaseTimes phases(gpu->device);
        const HostClock clock;
        operation([&] { running = true; });
        gpu->device.synchronize();
        report->elapsed_ms = clock.passed_ms();
        report->peak_bytes = gpu->device.memory().peak_bytes();
        report->transform_ms = phases.milliseconds(Phase::kTransform);
        report->match_ms = phases.milliseconds(Phase::kMatch);
        report->materialize_ms = phases.milliseconds(Phase::kMaterialize);
        report->moved_bytes = phases.moved_bytes();
        report->algorithm = phases.algorithm() < 0 ? algorithm : phases.algorithm();
    });
    if (running && status->code == SPILLWAY_CUDA_INVALID) status->code = SPILLWAY_CUDA_UNSUPPORTED;
}

}  // namespace

void join_tables_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                      const spillway_cuda_join* join, spillway_cuda_table** result, spillway_cuda_report* report,
                      spillway_cuda_status* status) {
    *result = nullptr;
    run(gpu, join->algorithm, report, status, [&](auto&& begins) {
        const TableJoin wanted = join_of(*join, build->table, probe->table);
        begins();
        DeviceTable rows = join_tables(gpu->device, build->table, probe->table, wanted);
        *result = std::make_unique<spillway_cuda_table>(gpu, std::move(rows)).release();
    });
    drop_unless_ok(result, status);
}

void count_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const spillway_cuda_join* join, uint64_t* rows, spillway_cuda_report* report,
                     spillway_cuda_status* status) {
    *rows = 0;
    run(gpu, join->algorithm, report, status, [&](auto&& begins) {
        const TableJoin wanted = join_of(*join, build->table, probe->table);
        begins();
        *rows = count_join(gpu->device, build->table, probe->table, wanted);
    });
}

void group_table_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* table, const spillway_cuda_group* group,
                      spillway_cuda_table** result, spillway_cuda_report* report, spillway_cuda_status* status) {
    *result = nullptr;
    run(gpu, group->algorithm, report, status, [&](auto&& begins) {
        const TableGroupBy wanted = group_of(*group, table->table);
        begins();
        DeviceTable groups = group_table(gpu->device, table->table, wanted);
        *result = std::make_unique<spillway_cuda_table>(gpu, std::move(groups)).release();
    });
    drop_unless_ok(result, status);
}

void begin_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const spillway_cuda_join* join, spillway_cuda_pieces** pieces, uint64_t* total_rows,
                     spillway_cuda_report* report, spillway_cuda_status* status) {
    *pieces = nullptr;
    *total_rows = 0;
    run(gpu, join->algorithm, report, status, [&](auto&& begins) {
        TableJoin wanted = join_of(*join, build->table, probe->table);
        begins();
        PoolClaim memory = gpu->device.memory().claim(0, "a result in pieces");
        const PoolClaim::User user(memory);
        auto begun = std::make_unique<spillway_cuda_pieces>(gpu, build->table, probe->table, std::move(wanted),
                                                            std::move(memory));
        begun->memory.reset_peak();
        *total_rows = begun->pieces.total_rows();
        *pieces = begun.release();
    });
    if (status->code == SPILLWAY_CUDA_OK) return;
    free_pieces(*pieces);
    *pieces = nullptr;
    *total_rows = 0;
}

void next_piece_call(spillway_cuda_pieces* pieces, uint64_t rows_max, spillway_cuda_table** table,
                     spillway_cuda_report* report, spillway_cuda_status* status) {
    *table = nullptr;
    spillway_cuda_gpu* const gpu = pieces->child.gpu();
    run(gpu, static_cast<int32_t>(JoinAlgorithm::kRadixHash), report, status, [&](auto&& begins) {
        begins();
        const PoolClaim::User user(pieces->memory);
        std::optional<DeviceTable> rows = pieces->pieces.next(rows_max);
        pieces->memory.keep_peak();
        if (rows) *table = std::make_unique<spillway_cuda_table>(gpu, std::move(*rows)).release();
    });
    drop_unless_ok(table, status);
}

void free_pieces(spillway_cuda_pieces* pieces) {
    delete pieces;
}

}  // namespace spillway::cuda
