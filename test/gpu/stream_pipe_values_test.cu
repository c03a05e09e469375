// SPDX-License-Identifier: Apache-2.0
// What pipes make of result rows: keys, values and NULLs of every form, by windows and chunks of all sizes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "stream/chunk_pipe.hpp"
#include "support/error_of.hpp"
#include "support/generators.hpp"
#include "support/host_table.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ChunkPipe;
using cuda::PipeColumnKind;
using cuda::PipeKey;
using cuda::PipeKeyForm;
using cuda::PipePart;
using cuda::PipeSpec;
using cuda::PipeValue;

// Numbers of the columns of a result.
enum : int16_t { kPresence, kSmall, kReal, kWide, kWideValid, kOther, kLong };
enum : uint8_t { kLeft = 1, kRight = 2 };

// Rows as an outer join gives them: a byte says which sides are there.
struct ResultRows {
    explicit ResultRows(uint64_t rows) {
        const uint32_t widths[] = {1, 2, 4, 8, 1, 8, 16};
        for (const uint32_t width : widths) {
            table.columns.push_back(payload_column(rows, width, test_seed(), table.columns.size()));
        }
        for (uint8_t& presence : table.columns[kPresence].bytes) presence &= kLeft | kRight;
        for (uint8_t& valid : table.columns[kWideValid].bytes) valid &= 1;
        const float special[] = {
            -0.0F, std::numeric_limits<float>::quiet_NaN(), -std::nanf("7"),
            1.5F,  std::numeric_limits<float>::infinity(),  std::numeric_limits<float>::denorm_min()};
        uint64_t next = 0;
        for (uint64_t row = 0; row < rows; row += 3) {
            std::memcpy(table.columns[kReal].bytes.data() + row * 4, &special[next++ % 6], 4);
        }
    }

    template <class T>
    T value(int16_t column, uint64_t row) const {
        return table.columns[static_cast<size_t>(column)].value<T>(row);
    }
    bool has(uint8_t side, uint64_t row) const { return (value<uint8_t>(kPresence, row) & side) == side; }

    HostTable table;
};

PipeValue value_of(const std::vector<PipePart>& parts, uint32_t width) {
    PipeValue value;
    value.parts.assign(parts.begin(), parts.end());
    value.width = width;
    return value;
}

PipeKey key_of_value(const PipeValue& value, PipeKeyForm form, uint8_t width, uint8_t offset) {
    PipeKey key;
    key.value = value;
    key.form = form;
    key.width = width;
    key.offset = offset;
    return key;
}

// A specification, and the rows of chunks that it must give: the key first.
struct PipeCase {
    PipeSpec spec;
    HostTable expected;
    std::vector<bool> has_key;

    void add_column(const PipeValue& value, PipeColumnKind kind, uint64_t fill) {
        spec.columns.push_back({value, kind, fill});
    }
    void expect_widths() {
        expected.columns.resize(1 + spec.columns.size());
        expected.columns[0].width = spec.key_bytes;
        for (size_t c = 0; c < spec.columns.size(); ++c) expected.columns[c + 1].width = spec.columns[c].width();
    }
};

// An operator that keeps what it reads.
class Keeper final : public cuda::StreamOperator {
  public:
    explicit Keeper(const PipeSpec& spec) : StreamOperator(test_device()) {
        table.columns.resize(1 + spec.columns.size());
        table.columns[0].width = spec.key_bytes;
        for (size_t c = 0; c < spec.columns.size(); ++c) table.columns[c + 1].width = spec.columns[c].width();
    }

    HostTable table;
    std::vector<bool> has_key;
    std::vector<uint64_t> chunk_rows;

  private:
    void begin_input(int, cuda::ChunkOwner& owner, cuda::ResultSink*) override { CHECK(owner.is_on_device()); }
    void read(const cuda::Chunk& chunk) override {
        chunk_rows.push_back(chunk.rows);
        for (size_t c = 0; c < table.columns.size(); ++c) {
            const std::vector<uint8_t> bytes =
                bytes_of(c == 0 ? chunk.key : chunk.columns.at(c - 1), chunk.rows * table.columns[c].width);
            table.columns[c].bytes.insert(table.columns[c].bytes.end(), bytes.begin(), bytes.end());
        }
        std::vector<uint8_t> bits(cuda::validity_bytes(chunk.rows), 0xff);
        if (chunk.key_valid != nullptr) bits = bytes_of(chunk.key_valid, bits.size());
        for (uint64_t row = 0; row < chunk.rows; ++row) has_key.push_back((bits[row / 8] >> row % 8 & 1) != 0);
    }
    void end_input() override {}

    std::vector<uint8_t> bytes_of(const void* from, uint64_t bytes) {
        std::vector<uint8_t> copy(bytes);
        CHECK_CUDA(cudaMemcpyAsync(copy.data(), from, bytes, cudaMemcpyDefault, device_.stream()));
        device_.synchronize();
        return copy;
    }
};

// As a ResultWriter gives its rows: all from the same buffer, in the order of the device's stream.
void give_rows(const HostTable& rows, const std::vector<uint64_t>& cuts, ChunkPipe& pipe) {
    std::vector<cuda::Allocation> columns;
    std::vector<const void*> addresses;
    const uint64_t rows_max = *std::max_element(cuts.begin(), cuts.end());
    for (const HostColumn& column : rows.columns) {
        columns.push_back(test_device().memory().allocate(rows_max * column.width, "result rows"));
        addresses.push_back(columns.back().as());
    }
    uint64_t first = 0;
    for (size_t cut = 0; first < rows.rows(); ++cut) {
        const uint64_t count = std::min(cuts[cut % cuts.size()], rows.rows() - first);
        for (size_t c = 0; c < rows.columns.size(); ++c) {
            const uint32_t width = rows.columns[c].width;
            CHECK_CUDA(cudaMemcpyAsync(columns[c].as(), rows.columns[c].bytes.data() + first * width, count * width,
                                       cudaMemcpyDefault, test_device().stream()));
        }
        pipe.take(addresses, count);
        first += count;
    }
}

void check_case(const ResultRows& rows, const PipeCase& wanted, const std::vector<uint64_t>& cuts,
                uint64_t chunk_row_count) {
    std::vector<uint32_t> widths;
    for (const HostColumn& column : rows.table.columns) widths.push_back(column.width);
    Keeper keeper(wanted.spec);
    {
        ChunkPipe pipe(test_device(), wanted.spec, widths, chunk_row_count);
        pipe.begin(keeper, 0, nullptr);
        give_rows(rows.table, cuts, pipe);
        pipe.end();
        CHECK_EQ(pipe.rows(), rows.table.rows());
    }
    CHECK_EQ(keeper.chunk_rows.size(), (rows.table.rows() + chunk_row_count - 1) / chunk_row_count);
    for (size_t i = 0; i + 1 < keeper.chunk_rows.size(); ++i) CHECK_EQ(keeper.chunk_rows[i], chunk_row_count);
    CHECK(keeper.has_key == wanted.has_key);
    for (size_t c = 0; c < keeper.table.columns.size(); ++c) {
        if (keeper.table.columns[c].bytes == wanted.expected.columns[c].bytes) continue;
        fail("column " + std::to_string(c) + ": " + row_difference(keeper.table, wanted.expected), __FILE__, __LINE__);
    }
}

void check_all_cuts(const ResultRows& rows, const PipeCase& wanted) {
    check_case(rows, wanted, {500}, 500);
    check_case(rows, wanted, {7, 1, 40}, 500);
    check_case(rows, wanted, {1300}, 100);
    check_case(rows, wanted, {65, 333}, 129);
}

uint32_t float_key(float value) {
    if (std::isnan(value)) return 0x7fc00000;
    value += 0.0F;
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint64_t double_key(float value) {
    if (std::isnan(value)) return 0x7ff8000000000000;
    const double wide = static_cast<double>(value) + 0.0;
    uint64_t bits = 0;
    std::memcpy(&bits, &wide, sizeof bits);
    return bits;
}

uint64_t row_count() {
    return small_or_full(2000, 100'003);
}

}  // namespace

GPU_TEST("stream pipe: keys of several values, and rows that have none") {
    const ResultRows rows(row_count());
    PipeCase wanted;
    wanted.spec.presence = kPresence;
    wanted.spec.keys.push_back(key_of_value(value_of({{kSmall, -1, 0, kLeft}}, 2), PipeKeyForm::kSigned, 4, 0));
    wanted.spec.keys.push_back(key_of_value(value_of({{kReal, -1, 0, 0}}, 4), PipeKeyForm::kFloat, 4, 4));
    wanted.expect_widths();
    for (uint64_t row = 0; row < rows.table.rows(); ++row) {
        const bool has_key = rows.has(kLeft, row);
        const auto small = static_cast<uint32_t>(int32_t{rows.value<int16_t>(kSmall, row)});
        const uint64_t real = float_key(rows.value<float>(kReal, row));
        wanted.expected.columns[0].push<uint64_t>((has_key ? small : 0) | real << 32);
        wanted.has_key.push_back(has_key);
    }
    check_all_cuts(rows, wanted);
}

GPU_TEST("stream pipe: keys that say which of their values are NULL") {
    const ResultRows rows(row_count());
    PipeCase wanted;
    wanted.spec.presence = kPresence;
    wanted.spec.null_byte = 6;
    // Four bytes from the middle of eight, to a place between others.
    wanted.spec.keys.push_back(key_of_value(value_of({{kSmall, -1, 0, kLeft}}, 2), PipeKeyForm::kUnsigned, 2, 0));
    wanted.spec.keys.push_back(
        key_of_value(value_of({{kWide, kWideValid, 3, kRight}}, 4), PipeKeyForm::kUnsigned, 4, 2));
    wanted.spec.keys.push_back(key_of_value(value_of({{kPresence, -1, 0, 0}}, 1), PipeKeyForm::kBits, 1, 7));
    wanted.expect_widths();
    for (uint64_t row = 0; row < rows.table.rows(); ++row) {
        uint64_t key = uint64_t{rows.value<uint8_t>(kPresence, row)} << 56;
        key |= rows.has(kLeft, row) ? rows.value<uint16_t>(kSmall, row) : uint64_t{1} << 48;
        const bool has_wide = rows.has(kRight, row) && rows.value<uint8_t>(kWideValid, row) != 0;
        const uint64_t wide = rows.value<uint64_t>(kWide, row) >> 24 & 0xffffffff;
        key |= has_wide ? wide << 16 : uint64_t{2} << 48;
        wanted.expected.columns[0].push<uint64_t>(key);
        wanted.has_key.push_back(true);
    }
    check_all_cuts(rows, wanted);
}

GPU_TEST("stream pipe: keys of several words, and flags of NULLs in the last") {
    const ResultRows rows(row_count());
    PipeCase wanted;
    wanted.spec.presence = kPresence;
    wanted.spec.key_columns = 3;
    wanted.spec.null_byte = 26;
    // Values of 16 bytes have two words, the other ones share the last with the flags.
    PipeKey wide = key_of_value(value_of({{kLong, -1, 0, kLeft}}, 16), PipeKeyForm::kBits, 16, 0);
    wide.word = 0;
    PipeKey other = key_of_value(value_of({{kWide, kWideValid, 0, kRight}}, 8), PipeKeyForm::kUnsigned, 8, 0);
    other.word = 2;
    PipeKey small = key_of_value(value_of({{kSmall, -1, 0, 0}}, 2), PipeKeyForm::kUnsigned, 2, 0);
    small.word = 3;
    for (const PipeKey& key : {wide, other, small}) wanted.spec.keys.push_back(key);
    for (int word = 0; word < 3; ++word) wanted.add_column({}, PipeColumnKind::kKeyWord, 0);
    wanted.add_column(value_of({{kOther, -1, 0, 0}}, 8), PipeColumnKind::kValue, 0);
    wanted.expect_widths();
    for (uint64_t row = 0; row < rows.table.rows(); ++row) {
        uint64_t words[4] = {};
        const bool has_long = rows.has(kLeft, row);
        if (has_long) std::memcpy(words, rows.table.columns[kLong].bytes.data() + row * 16, 16);
        const bool has_wide = rows.has(kRight, row) && rows.value<uint8_t>(kWideValid, row) != 0;
        if (has_wide) words[2] = rows.value<uint64_t>(kWide, row);
        words[3] =
            rows.value<uint16_t>(kSmall, row) | (has_long ? 0 : uint64_t{1} << 16) | (has_wide ? 0 : uint64_t{2} << 16);
        const uint64_t mixed = cuda::mix64(words[1] ^ cuda::mix64(words[2] ^ cuda::mix64(words[3])));
        wanted.expected.columns[0].push<uint64_t>(words[0] ^ mixed);
        for (size_t word = 1; word < 4; ++word) wanted.expected.columns[word].push<uint64_t>(words[word]);
        wanted.expected.columns[4].push<uint64_t>(rows.value<uint64_t>(kOther, row));
        wanted.has_key.push_back(true);
    }
    check_all_cuts(rows, wanted);
}

GPU_TEST("stream pipe: floats widened to keys, and keys of four bytes") {
    const ResultRows rows(row_count());
    PipeCase wide;
    wide.spec.keys.push_back(key_of_value(value_of({{kReal, -1, 0, 0}}, 4), PipeKeyForm::kFloat, 8, 0));
    wide.expect_widths();
    PipeCase narrow;
    narrow.spec.key_bytes = 4;
    narrow.spec.keys.push_back(key_of_value(value_of({{kSmall, kWideValid, 0, 0}}, 2), PipeKeyForm::kSigned, 4, 0));
    narrow.expect_widths();
    for (uint64_t row = 0; row < rows.table.rows(); ++row) {
        wide.expected.columns[0].push<uint64_t>(double_key(rows.value<float>(kReal, row)));
        wide.has_key.push_back(true);
        const bool valid = rows.value<uint8_t>(kWideValid, row) != 0;
        narrow.expected.columns[0].push<uint32_t>(
            valid ? static_cast<uint32_t>(int32_t{rows.value<int16_t>(kSmall, row)}) : 0);
        narrow.has_key.push_back(valid);
    }
    check_all_cuts(rows, wide);
    check_all_cuts(rows, narrow);
}

GPU_TEST("stream pipe: values, halves of them, and what stands for NULL") {
    const ResultRows rows(row_count());
    // That of the left side if it is there, else of the right one.
    const PipeValue either = value_of({{kWide, kWideValid, 0, kLeft}, {kOther, -1, 0, kRight}}, 8);
    PipeCase wanted;
    wanted.spec.presence = kPresence;
    wanted.add_column(either, PipeColumnKind::kValue, 0x8000000000000001);
    wanted.add_column(either, PipeColumnKind::kLow, 7);
    wanted.add_column(either, PipeColumnKind::kHigh, 0xfffffff5);
    wanted.add_column(either, PipeColumnKind::kPresence, 0);
    wanted.add_column(value_of({{kLong, -1, 0, kRight}}, 16), PipeColumnKind::kValue, 9);
    wanted.add_column(value_of({{kLong, -1, 7, 0}}, 2), PipeColumnKind::kValue, 0);
    wanted.add_column(value_of({{kReal, -1, 0, kLeft | kRight}}, 4), PipeColumnKind::kValue, 0x1122334455);
    wanted.expect_widths();
    auto& columns = wanted.expected.columns;
    const uint64_t nine[2] = {9, 0};
    for (uint64_t row = 0; row < rows.table.rows(); ++row) {
        const bool left = rows.has(kLeft, row);
        const bool valid = left ? rows.value<uint8_t>(kWideValid, row) != 0 : rows.has(kRight, row);
        const auto value = rows.value<uint64_t>(left ? kWide : kOther, row);
        columns[0].push<uint64_t>(0);
        wanted.has_key.push_back(true);
        columns[1].push<uint64_t>(valid ? value : 0x8000000000000001);
        columns[2].push<uint32_t>(valid ? static_cast<uint32_t>(value) : 7);
        columns[3].push<uint32_t>(valid ? static_cast<uint32_t>(value >> 32) : 0xfffffff5);
        columns[4].push<uint8_t>(valid ? 1 : 0);
        const uint8_t* const wide = rows.table.columns[kLong].bytes.data() + row * 16;
        columns[5].push_bytes(rows.has(kRight, row) ? static_cast<const void*>(wide) : nine);
        columns[6].push_bytes(wide + 7);
        uint32_t real = 0x22334455;
        if (rows.has(kLeft | kRight, row)) real = rows.value<uint32_t>(kReal, row);
        columns[7].push<uint32_t>(real);
    }
    check_all_cuts(rows, wanted);
}

GPU_TEST("stream pipe: specifications that mean nothing are refused") {
    const auto refuses = [&](auto&& change) {
        PipeSpec spec;
        spec.presence = 0;
        spec.keys.push_back(key_of_value(value_of({{1, 0, 0, 1}}, 8), PipeKeyForm::kBits, 8, 0));
        spec.columns.push_back({value_of({{1, 0, 0, 1}}, 8), PipeColumnKind::kLow, 0});
        uint64_t chunk_rows = 64;
        { ChunkPipe works(test_device(), spec, {1, 8}, chunk_rows); }
        change(spec, chunk_rows);
        const auto make = [&] { ChunkPipe(test_device(), spec, {1, 8}, chunk_rows); };
        CHECK_EQ(error_of(make).code(), cuda::ErrorCode::kInvalid);
    };
    refuses([](PipeSpec& spec, uint64_t&) { spec.presence = 1; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.presence = 2; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.presence = -2; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.key_bytes = 16; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.key_bytes = 4; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.null_byte = 8; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].offset = 1; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].width = 4; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].form = static_cast<PipeKeyForm>(4); });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].value.parts.clear(); });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].value.parts[0].column = 2; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].value.parts[0].column = -1; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].value.parts[0].validity = 1; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.keys[0].value.parts[0].offset = 1; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.columns[0].value.width = 3; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.columns[0].value.width = 16; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.columns[0].value.width = 4; });
    refuses([](PipeSpec& spec, uint64_t&) { spec.columns[0].kind = static_cast<PipeColumnKind>(4); });
    refuses([](PipeSpec&, uint64_t& chunk_rows) { chunk_rows = 0; });
    refuses([](PipeSpec&, uint64_t& chunk_rows) { chunk_rows = ~uint64_t{0}; });
    refuses([](PipeSpec& spec, uint64_t&) {
        const uint32_t columns = cuda::kRowColumnsMax + 1;
        std::memcpy(static_cast<void*>(&spec.columns), &columns, sizeof columns);
    });
}

}  // namespace spillway::gpu_test
