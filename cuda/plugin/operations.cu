// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/guard.hpp"
#include "device/host_clock.hpp"
#include "device/phase_times.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"
#include "relation/group_table.hpp"
#include "relation/join_tables.hpp"

namespace spillway::cuda { inline namespace plugin {

namespace {

void require_column(uint32_t column, const DeviceTable& table) {
    require(column < table.columns.size(), "an operation names a column that the table does not have");
}

void require_keys(const ListView<KeyPart>& keys, const DeviceTable& table) {
    for (const KeyPart& key : keys) {
        require_column(key.column, table);
        require(key.kind <= KeyPartKind::kBytes, "a key is of no known kind");
    }
}

void check(const TableJoin& join, const DeviceTable& build, const DeviceTable& probe) {
    require(static_cast<int>(join.algorithm) < kJoinAlgorithms, "a join is of no known algorithm");
    require(join.kind.emit <= JoinEmit::kProbeOnce, "a join gives rows of no known side");
    require_keys(join.build_keys, build);
    require_keys(join.probe_keys, probe);
    require(join.build_keys.size() == join.probe_keys.size(), "a join's sides have as many keys");
    for (const TableJoinColumn& column : join.output) {
        require(column.side <= TableSide::kEither, "a result column is of no known side");
        if (column.side != TableSide::kProbe) require_column(column.build_column, build);
        if (column.side != TableSide::kBuild) require_column(column.probe_column, probe);
    }
}

void check(const TableGroupBy& group, const DeviceTable& table) {
    require(static_cast<int>(group.algorithm) < kGroupByAlgorithms, "a group-by is of no known algorithm");
    require_keys(group.keys, table);
    for (const TableAggregate& aggregate : group.aggregates) {
        require(aggregate.kind <= TableAggregateKind::kCountDistinct, "an aggregate is of no known kind");
        require(aggregate.value_kind <= TableValueKind::kBytes, "an aggregate's values are of no known kind");
        if (aggregate.kind != TableAggregateKind::kCountRows) require_column(aggregate.column, table);
    }
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
void run(spillway_cuda_gpu* gpu, int32_t algorithm, TableReport* report, spillway_cuda_status* status,
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
                      const TableJoin* join, spillway_cuda_table** result, TableReport* report,
                      spillway_cuda_status* status) {
    *result = nullptr;
    run(gpu, static_cast<int32_t>(join->algorithm), report, status, [&](auto&& begins) {
        check(*join, build->table, probe->table);
        begins();
        DeviceTable rows = join_tables(gpu->device, build->table, probe->table, *join);
        *result = std::make_unique<spillway_cuda_table>(gpu, std::move(rows)).release();
    });
    drop_unless_ok(result, status);
}

void count_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const TableJoin* join, uint64_t* rows, TableReport* report, spillway_cuda_status* status) {
    *rows = 0;
    run(gpu, static_cast<int32_t>(join->algorithm), report, status, [&](auto&& begins) {
        check(*join, build->table, probe->table);
        begins();
        *rows = count_join(gpu->device, build->table, probe->table, *join);
    });
}

void group_table_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* table, const TableGroupBy* group,
                      spillway_cuda_table** result, TableReport* report, spillway_cuda_status* status) {
    *result = nullptr;
    run(gpu, static_cast<int32_t>(group->algorithm), report, status, [&](auto&& begins) {
        check(*group, table->table);
        begins();
        DeviceTable groups = group_table(gpu->device, table->table, *group);
        *result = std::make_unique<spillway_cuda_table>(gpu, std::move(groups)).release();
    });
    drop_unless_ok(result, status);
}

void begin_join_call(spillway_cuda_gpu* gpu, const spillway_cuda_table* build, const spillway_cuda_table* probe,
                     const TableJoin* join, spillway_cuda_pieces** pieces, uint64_t* total_rows, TableReport* report,
                     spillway_cuda_status* status) {
    *pieces = nullptr;
    *total_rows = 0;
    run(gpu, static_cast<int32_t>(join->algorithm), report, status, [&](auto&& begins) {
        check(*join, build->table, probe->table);
        begins();
        PoolClaim memory = gpu->device.memory().claim(0, "a result in pieces");
        const PoolClaim::User user(memory);
        auto begun = std::make_unique<spillway_cuda_pieces>(gpu, build->table, probe->table, *join, std::move(memory));
        begun->memory.reset_peak();
        *total_rows = begun->pieces.total_rows();
        *pieces = begun.release();
    });
    if (status->code == SPILLWAY_CUDA_OK) return;
    free_pieces(*pieces);
    *pieces = nullptr;
    *total_rows = 0;
}

void next_piece_call(spillway_cuda_pieces* pieces, uint64_t rows_max, spillway_cuda_table** table, TableReport* report,
                     spillway_cuda_status* status) {
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

}}  // namespace spillway::cuda::plugin
