// SPDX-License-Identifier: Apache-2.0
// Tables, joins and group-bys as the host calls them: through the functions of plugin.h.
#include <cstdint>
#include <string>
#include <vector>

#include "api/plugin.h"
#include "device/device.hpp"
#include "gpu_test.hpp"

namespace spillway::cuda {

using gpu_test::small_or_full;
using gpu_test::test_device;

namespace {

struct Plugin {
    Plugin() { call.open_device(test_device().ordinal(), uint64_t{1} << 30, uint64_t{64} << 20, &gpu, &status); }
    ~Plugin() { call.close_device(gpu, &status); }

    bool ok() const { return status.code == SPILLWAY_CUDA_OK; }
    spillway_cuda_table* create(uint64_t rows, const std::vector<ColumnSpec>& columns) {
        spillway_cuda_table* table = nullptr;
        call.create_table(gpu, rows, columns.data(), columns.size(), &table, &status);
        return table;
    }
    // By way of pageable memory.
    template <class Value>
    void write(spillway_cuda_table* table, uint32_t column, ColumnPart part, const std::vector<Value>& values) {
        TableCopy copy = copy_of(column, part, values.size() * sizeof(Value));
        copy.host = const_cast<Value*>(values.data());
        copied([&](spillway_cuda_lane* lane) { call.send_rows(lane, 0, table, &copy, 1, &status); });
    }
    template <class Value>
    std::vector<Value> read(const spillway_cuda_table* table, uint32_t column, ColumnPart part, uint64_t count) {
        std::vector<Value> values(count);
        TableCopy copy = copy_of(column, part, count * sizeof(Value));
        copy.host = values.data();
        copied([&](spillway_cuda_lane* lane) { call.fetch_rows(lane, 0, table, &copy, 1, &status); });
        return values;
    }
    static TableCopy copy_of(uint32_t column, ColumnPart part, uint64_t bytes) {
        TableCopy copy;
        copy.column = column;
        copy.part = part;
        copy.bytes = bytes;
        return copy;
    }
    // The status is that of the copies, or of the wait for them.
    template <class Copies>
    void copied(Copies&& copies) {
        spillway_cuda_lane* lane = nullptr;
        call.open_lane(gpu, &lane, &status);
        if (!ok()) return;
        copies(lane);
        if (ok()) call.wait_lane(lane, 0, &status);
        call.close_lane(lane);
    }
    uint64_t rows(const spillway_cuda_table* table) const {
        uint64_t count = 0;
        uint64_t columns = 0;
        call.table_size(table, &count, &columns);
        return count;
    }

    const spillway_cuda_functions& call = *spillway_cuda_get_functions();
    spillway_cuda_gpu* gpu = nullptr;
    spillway_cuda_status status{};
    TableReport report{};
};

ColumnSpec fixed(uint32_t width, bool nullable = false) {
    return {ColumnKind::kFixed, width, nullable, 0};
}

double phases_ms(const TableReport& report) {
    return report.transform_ms + report.match_ms + report.materialize_ms;
}

// Keys 0 .. rows - 1 and three times the key.
spillway_cuda_table* numbers(Plugin& plugin, uint64_t rows, uint64_t domain) {
    std::vector<int64_t> keys(rows);
    std::vector<int32_t> values(rows);
    for (uint64_t i = 0; i < rows; ++i) {
        keys[i] = static_cast<int64_t>(i % domain);
        values[i] = static_cast<int32_t>(keys[i] * 3);
    }
    spillway_cuda_table* const table = plugin.create(rows, {fixed(8), fixed(4)});
    if (table == nullptr) return nullptr;
    plugin.write(table, 0, ColumnPart::kValues, keys);
    plugin.write(table, 1, ColumnPart::kValues, values);
    return table;
}

}  // namespace

GPU_TEST("plugin: parts of a table go there and back, and nothing beyond them") {
    Plugin plugin;
    const std::vector<uint64_t> offsets = {0, 3, 3, 8};
    const std::string bytes = "abcdefgh";
    ColumnSpec text{ColumnKind::kBytes, 0, true, bytes.size()};
    spillway_cuda_table* const table = plugin.create(3, {fixed(6), text});
    CHECK(plugin.ok());
    plugin.write(table, 0, ColumnPart::kValues, std::vector<char>(18, 'z'));
    plugin.write(table, 1, ColumnPart::kValues, std::vector<char>(bytes.begin(), bytes.end()));
    plugin.write(table, 1, ColumnPart::kOffsets, offsets);
    plugin.write(table, 1, ColumnPart::kValidity, std::vector<uint32_t>{5});
    CHECK(plugin.ok());
    CHECK(plugin.read<uint64_t>(table, 1, ColumnPart::kOffsets, 4) == offsets);
    CHECK(plugin.read<char>(table, 1, ColumnPart::kValues, 8) == std::vector<char>(bytes.begin(), bytes.end()));
    CHECK(plugin.read<char>(table, 0, ColumnPart::kValues, 18) == std::vector<char>(18, 'z'));
    ColumnSpec told{};
    plugin.call.table_column(table, 1, &told);
    CHECK(told.kind == ColumnKind::kBytes && told.nullable && told.bytes == 8);
    plugin.read<char>(table, 0, ColumnPart::kValues, 19);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
    plugin.read<char>(table, 0, ColumnPart::kOffsets, 1);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
    plugin.read<char>(table, 2, ColumnPart::kValues, 1);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
    plugin.call.free_table(table);
}

GPU_TEST("plugin: packed values go there and back through a lane") {
    Plugin plugin;
    const uint64_t rows = small_or_full(3000, 300'000);
    const uint64_t blocks = (rows + kPackedValues - 1) / kPackedValues;
    spillway_cuda_table* const table = plugin.create(rows, {fixed(8), fixed(3)});
    spillway_cuda_pinned* words = nullptr;
    spillway_cuda_pinned* headers = nullptr;
    void* host = nullptr;
    void* told = nullptr;
    plugin.call.allocate_pinned(plugin.gpu, blocks * kPackedValues * 8, "words of a test", &words, &host,
                                &plugin.status);
    plugin.call.allocate_pinned(plugin.gpu, blocks * sizeof(PackedBlock), "blocks of a test", &headers, &told,
                                &plugin.status);
    CHECK(plugin.ok());
    std::vector<int64_t> values(rows);
    for (uint64_t i = 0; i < rows; ++i) values[i] = static_cast<int64_t>(i * 2654435761U % 100'003) - 50'000;
    plugin.write(table, 0, ColumnPart::kValues, values);
    TableCopy copy = Plugin::copy_of(0, ColumnPart::kValues, rows * 8);
    copy.packed = true;
    copy.host = host;
    copy.blocks = static_cast<PackedBlock*>(told);
    plugin.copied([&](spillway_cuda_lane* lane) {
        plugin.call.fetch_rows(lane, 3, table, &copy, 1, &plugin.status);
        if (plugin.ok()) plugin.call.wait_lane(lane, 3, &plugin.status);
    });
    CHECK(plugin.ok());
    for (uint64_t b = 0; b < blocks; ++b) CHECK(copy.blocks[b].bits <= 17);
    plugin.write(table, 0, ColumnPart::kValues, std::vector<int64_t>(rows, 7));
    plugin.copied([&](spillway_cuda_lane* lane) { plugin.call.send_rows(lane, 0, table, &copy, 1, &plugin.status); });
    CHECK(plugin.ok());
    CHECK(plugin.read<int64_t>(table, 0, ColumnPart::kValues, rows) == values);

    const auto is_refused = [&](TableCopy wrong) {
        plugin.copied(
            [&](spillway_cuda_lane* lane) { plugin.call.send_rows(lane, 0, table, &wrong, 1, &plugin.status); });
        return plugin.status.code == SPILLWAY_CUDA_INVALID;
    };
    TableCopy wrong = copy;
    wrong.column = 1;  // of 3 bytes
    CHECK(is_refused(wrong));
    wrong = copy;
    wrong.bytes -= 1;
    CHECK(is_refused(wrong));
    wrong = copy;
    wrong.host = static_cast<uint8_t*>(host) + 8;
    CHECK(is_refused(wrong));
    wrong = copy;
    wrong.host = values.data();  // pageable
    CHECK(is_refused(wrong));
    plugin.copied([&](spillway_cuda_lane* lane) {
        plugin.call.send_rows(lane, SPILLWAY_CUDA_LANE_SLOTS, table, &copy, 1, &plugin.status);
    });
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);
    plugin.call.free_pinned(words);
    plugin.call.free_pinned(headers);
    plugin.call.free_table(table);
}

GPU_TEST("plugin: a join and a group-by of its result, without a copy in between") {
    Plugin plugin;
    const uint64_t domain = small_or_full(500, 500'000);
    spillway_cuda_table* const build = numbers(plugin, domain, domain);
    spillway_cuda_table* const probe = numbers(plugin, 4 * domain, domain);
    CHECK(build != nullptr && probe != nullptr);
    const std::vector<KeyPart> key = {{0, KeyPartKind::kSigned, 8}};
    const std::vector<TableJoinColumn> columns = {{TableSide::kBuild, 1, 0}, {TableSide::kProbe, 0, 0}};
    TableJoin join;
    join.expected_rows = 4 * domain;
    join.build_keys = key;
    join.probe_keys = key;
    join.output = columns;
    uint64_t counted = 0;
    plugin.call.count_join(plugin.gpu, build, probe, &join, &counted, &plugin.report, &plugin.status);
    CHECK(plugin.ok());
    CHECK_EQ(counted, 4 * domain);
    spillway_cuda_pieces* pieces = nullptr;
    uint64_t total_rows = 0;
    plugin.call.begin_join(plugin.gpu, build, probe, &join, &pieces, &total_rows, &plugin.report, &plugin.status);
    CHECK(plugin.ok());
    CHECK_EQ(total_rows, 4 * domain);
    CHECK(plugin.report.moved_bytes > 0);
    for (uint64_t left = total_rows;;) {
        spillway_cuda_table* piece = nullptr;
        plugin.call.next_piece(pieces, domain, &piece, &plugin.report, &plugin.status);
        CHECK(plugin.ok());
        if (piece == nullptr) {
            CHECK_EQ(left, uint64_t{0});
            break;
        }
        CHECK(plugin.rows(piece) > 0 && plugin.rows(piece) <= domain);
        left -= plugin.rows(piece);
        plugin.call.free_table(piece);
    }
    plugin.call.free_pieces(pieces);
    spillway_cuda_table* joined = nullptr;
    plugin.call.join_tables(plugin.gpu, build, probe, &join, &joined, &plugin.report, &plugin.status);
    CHECK(plugin.ok());
    CHECK_EQ(plugin.rows(joined), 4 * domain);
    CHECK(plugin.report.peak_bytes > 0);

    const std::vector<KeyPart> group_key = {{1, KeyPartKind::kSigned, 8}};
    const std::vector<TableAggregate> aggregates = {{TableAggregateKind::kCountRows}, {TableAggregateKind::kSum}};
    TableGroupBy group;
    group.expected_groups = domain;
    group.keys = group_key;
    group.aggregates = aggregates;
    spillway_cuda_table* groups = nullptr;
    plugin.call.group_table(plugin.gpu, joined, &group, &groups, &plugin.report, &plugin.status);
    CHECK(plugin.ok());
    CHECK_EQ(plugin.rows(groups), domain);
    const auto keys = plugin.read<int64_t>(groups, 0, ColumnPart::kValues, domain);
    const auto counts = plugin.read<int64_t>(groups, 1, ColumnPart::kValues, domain);
    const auto sums = plugin.read<int64_t>(groups, 2, ColumnPart::kValues, domain);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < domain; ++i) wrong += counts[i] == 4 && sums[i] == 12 * keys[i] ? 0 : 1;
    CHECK_EQ(wrong, uint64_t{0});
    for (spillway_cuda_table* table : {build, probe, joined, groups}) plugin.call.free_table(table);
}

GPU_TEST("plugin: reports say what phases take, what moves and which algorithm ran") {
    Plugin plugin;
    const uint64_t rows = small_or_full(20'000, 2'000'000);
    spillway_cuda_table* const table = numbers(plugin, rows, rows);
    CHECK(table != nullptr);
    const std::vector<KeyPart> key = {{0, KeyPartKind::kSigned, 8}};
    const std::vector<TableJoinColumn> columns = {{TableSide::kBuild, 1, 0}, {TableSide::kProbe, 0, 0}};
    TableJoin join;
    join.expected_rows = rows;
    join.key_range = rows;
    join.build_keys = key;
    join.probe_keys = key;
    join.output = columns;
    const TableReport& report = plugin.report;
    for (const auto algorithm :
         {JoinAlgorithm::kRadixHash, JoinAlgorithm::kNoPartitioning, JoinAlgorithm::kPerfectHash}) {
        join.algorithm = algorithm;
        spillway_cuda_table* joined = nullptr;
        plugin.call.join_tables(plugin.gpu, table, table, &join, &joined, &plugin.report, &plugin.status);
        CHECK(plugin.ok());
        CHECK_EQ(plugin.rows(joined), rows);
        CHECK_EQ(report.algorithm, static_cast<int32_t>(algorithm));
        // Events and the caller's clock tick differently: a microsecond of either.
        CHECK(phases_ms(report) <= report.elapsed_ms + 0.002);
        // Results without holes are whole when they are written.
        CHECK(report.match_ms > 0 && report.materialize_ms >= 0);
        CHECK(algorithm == JoinAlgorithm::kRadixHash ? report.transform_ms > 0 : report.transform_ms >= 0);
        // Keys of both sides are read, 12 bytes per match written; the radix join packs both sides' rows of at least 8
        // bytes and reads them again.
        CHECK(report.moved_bytes >= rows * (algorithm == JoinAlgorithm::kRadixHash ? 2 * 24 + 12 : 2 * 8 + 12));
        plugin.call.free_table(joined);
    }

    // As many groups as rows are too many for tables in shared memory.
    const std::vector<TableAggregate> count = {{TableAggregateKind::kCountRows}};
    TableGroupBy group;
    group.expected_groups = rows;
    group.keys = key;
    group.aggregates = count;
    spillway_cuda_table* groups = nullptr;
    plugin.call.group_table(plugin.gpu, table, &group, &groups, &plugin.report, &plugin.status);
    CHECK(plugin.ok());
    CHECK_EQ(plugin.rows(groups), rows);
    CHECK(report.match_ms > 0 && report.materialize_ms > 0);
    CHECK(phases_ms(report) <= report.elapsed_ms + 0.002);
    CHECK(report.moved_bytes >= rows * (8 + 8 + 8));  // keys read, groups written
    if (rows > 1'000'000)
        CHECK(report.algorithm == static_cast<int32_t>(GroupByAlgorithm::kPartitioned) && report.transform_ms > 0);
    for (spillway_cuda_table* one : {table, groups}) plugin.call.free_table(one);
}

GPU_TEST("plugin: an operation refuses columns that are not there, and a cancelled one ends") {
    Plugin plugin;
    spillway_cuda_table* const table = numbers(plugin, 100, 10);
    const std::vector<KeyPart> key = {{7, KeyPartKind::kSigned, 8}};
    TableJoin join;
    join.build_keys = key;
    join.probe_keys = key;
    spillway_cuda_table* result = nullptr;
    plugin.call.join_tables(plugin.gpu, table, table, &join, &result, &plugin.report, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID && result == nullptr);
    const std::vector<KeyPart> there = {{0, KeyPartKind::kSigned, 8}};
    join.build_keys = there;
    join.probe_keys = there;
    plugin.call.set_cancelled(plugin.gpu, 1);
    plugin.call.join_tables(plugin.gpu, table, table, &join, &result, &plugin.report, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_CANCELLED && result == nullptr);
    plugin.call.set_cancelled(plugin.gpu, 0);
    plugin.call.close_device(plugin.gpu, &plugin.status);
    CHECK(plugin.status.code == SPILLWAY_CUDA_INVALID);  // a table is left
    plugin.call.free_table(table);
}

}  // namespace spillway::cuda
