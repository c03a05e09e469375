// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "support/ipc_file.hpp"
#include "transfer/footer_blocks.hpp"

namespace spillway {
namespace {

using namespace test;

bool has_view(const ColumnType& type) {
    return type.layout == Layout::kView || std::any_of(type.children.begin(), type.children.end(), has_view);
}

ColumnType type_without_views(Random& random) {
    for (;;) {
        ColumnType type = random_type(random, 3, true);
        if (!has_view(type)) return type;
    }
}

// `batches` batches of `rows` rows of one int64 column that counts.
struct Numbers : IpcRelation {
    explicit Numbers(bool stream, int64_t batches = 3, int64_t rows = 4) : IpcRelation(1, stream) {
        builder.junk = false;
        add_column(type_of(Layout::kFixed, 8));
        for (int64_t i = 0; i < batches; ++i) add_batch({integers(i * rows, rows)}, rows, -1);
    }
    void expect_all() {
        const auto all = reader();
        for (int64_t i = 0; i < source->batch_count(); ++i) expect_slice(*all, i, 0, source->batch_rows(i));
    }
};

std::string message_of(const std::function<void()>& body, ErrorCode code) {
    try {
        body();
    } catch (const Error& error) {
        EXPECT(error.code() == code);
        return error.message();
    }
    fail("nothing was thrown", __FILE__, __LINE__);
    return "";
}

}  // namespace

TEST(transfer_file_batches_of_every_type) {
    for (uint64_t seed = 1; seed <= fewer_if_sanitized(90); ++seed) {
        try {
            IpcRelation relation(seed, true);
            relation.builder.deltas = 1 + static_cast<int>(seed % 3);
            for (int column = 0; column < 3; ++column) relation.add_column(type_without_views(relation.random));
            for (const int64_t rows : {40, 0, 1, 25}) relation.add_random_batch(rows, -1);
            relation.write();
            const Source& source = relation.open_ipc();
            EXPECT_EQ(source.rows(), 66);
            EXPECT_EQ(source.batch_count(), 4);
            EXPECT_EQ(relation.facts.rows, 66);
            EXPECT_EQ(relation.facts.largest_batch_rows, 40);
            const auto reader = relation.reader();
            // Back and forth: each turn to a batch reads its header again.
            for (const int64_t batch : {0, 3, 2, 1, 3, 0}) {
                relation.expect_slice(*reader, batch, 0, source.batch_rows(batch));
            }
        } catch (const Failure& failure) {
            fail("seed " + std::to_string(seed) + ": " + failure.what(), __FILE__, __LINE__);
        }
    }
}

TEST(transfer_file_batches_of_a_footer) {
    Numbers relation(false);
    relation.write();
    relation.open_ipc();
    EXPECT_EQ(relation.source->rows(), 12);
    relation.expect_all();
    EXPECT_EQ(relation.facts.column_bytes[0], 12 * 8);
    EXPECT_EQ(int{relation.facts.node_has_nulls[0]}, 0);
}

TEST(transfer_file_batches_lie_behind_those_in_memory) {
    Numbers relation(false);
    relation.write();
    relation.spec.batches.push_back(relation.builder.batch(relation.types, {integers(50, 2)}, 2, nullptr, -1));
    relation.values.insert(relation.values.begin(), {integers(50, 2)});
    const Source& source = relation.open_ipc();
    EXPECT_EQ(source.batch_count(), 4);
    EXPECT_EQ(source.rows(), 14);
    EXPECT_EQ(source.first_row(1), 2);
    EXPECT_EQ(source.first_row(3), 10);
    EXPECT_EQ(batch_of(source, 9), 2);
    relation.expect_all();
}

TEST(transfer_file_batches_of_several_files_keep_their_numbers) {
    Numbers first(true);
    Numbers second(false);
    first.write();
    second.write();
    FileFacts facts;
    const FileBatches batches =
        open_file_batches({first.spec.columns, {first.ipc.spec, second.ipc.spec}}, first.budget, first.control, facts);
    EXPECT_EQ(batches.records.count(), 6);
    EXPECT_EQ(batches.records.number(4).file, 1);
    EXPECT_EQ(batches.records.number(4).number, 1);
    EXPECT_EQ(batches.records.extent(2), 0);  // the next one lies in another file
    EXPECT(batches.records.extent(1) > 0);
    first.values.insert(first.values.end(), second.values.begin(), second.values.end());
    first.spec.files = std::make_shared<FileBatches>(first.find_batches());
    EXPECT_EQ(facts.rows, 24);
}

TEST(transfer_file_batches_refuse_bad_blocks) {
    const auto refusal = [](const std::function<void(IpcFile&)>& change, ErrorCode code) {
        Numbers relation(false);
        relation.write();
        IpcFile copy(false);
        std::swap(copy.records, relation.ipc.records);
        change(copy);
        std::swap(copy.records, relation.ipc.records);
        relation.ipc.finish();
        return message_of([&] { relation.find_batches(); }, code);
    };
    const auto corrupt = ErrorCode::kFileCorrupt;
    EXPECT(
        contains(refusal([](IpcFile& file) { file.records.push_back(file.records[1]); }, corrupt), "in two batches"));
    EXPECT(contains(refusal([](IpcFile& file) { file.dictionaries = {}, file.records[2].offset -= 8; }, corrupt),
                    "in two batches"));
    EXPECT(contains(refusal([](IpcFile& file) { file.records[0].offset = 0; }, corrupt), "impossible batch 0"));
    EXPECT(contains(refusal([](IpcFile& file) { file.records[1].body_bytes = -1; }, corrupt), "impossible batch 1"));
    EXPECT(contains(refusal([](IpcFile& file) { file.records[1].body_bytes -= 8; }, corrupt), "longer body"));
    EXPECT(contains(
        refusal([](IpcFile& file) { file.records[1].body_bytes = int64_t{1} << 62; }, ErrorCode::kFileTruncated),
        "batch 1 lies behind its end"));
    EXPECT(contains(refusal([](IpcFile& file) { file.records[1].offset = std::numeric_limits<int64_t>::max(); },
                            ErrorCode::kFileTruncated),
                    "batch 1 lies behind its end"));
}

TEST(transfer_file_batches_may_be_listed_in_any_order) {
    Numbers relation(false);
    relation.write();
    std::reverse(relation.ipc.records.begin(), relation.ipc.records.end());
    std::reverse(relation.values.begin(), relation.values.end());
    relation.ipc.finish();
    relation.open_ipc();
    relation.expect_all();
}

TEST(transfer_file_batches_without_a_footer_are_truncated) {
    Numbers relation(false);
    relation.write();
    for (const int64_t bytes : {0, 9, 17, 100}) {
        relation.ipc.file.truncate(bytes);
        relation.ipc.spec.stamp = "";
        EXPECT_ERROR(kFileTruncated, relation.find_batches());
    }
}

// A footer may name any place as its table or its lists: none is read outside of it.
TEST(transfer_file_batches_of_a_footer_with_any_word_at_any_value) {
    Numbers relation(false);
    relation.write();
    const FileTable files({relation.ipc.file.path()});
    MemoryBudget budget(64 * kMiB);
    const FooterBlocks::Range footer = FooterBlocks(files, 0, budget).footer();
    const Bytes whole = relation.ipc.file.read(footer.offset, footer.bytes + 4);
    relation.ipc.spec.stamp = "";
    for (int64_t at = 0; at + 4 <= footer.bytes + 4; ++at) {
        for (const uint32_t value : {0u, 1u, 16u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
            Bytes bytes = whole;
            std::memcpy(bytes.data() + at, &value, 4);
            relation.ipc.file.overwrite(footer.offset, bytes);
            try {
                relation.open_ipc();
                relation.reader()->rows_within(0, 0, 0, 0);
            } catch (const Error& error) {
                const bool known = error.code() == ErrorCode::kFileCorrupt || error.code() == ErrorCode::kFileTruncated;
                if (!known) fail("word at " + std::to_string(at) + ": " + error.message(), __FILE__, __LINE__);
            }
        }
    }
}

TEST(transfer_file_batches_count_in_the_budget) {
    Numbers relation(true, 10000, 1);
    relation.write();
    MemoryBudget small(128 * kKiB);
    try {
        open_file_batches({relation.spec.columns, {relation.ipc.spec}}, small, relation.control, relation.facts);
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT(error.code() == ErrorCode::kBudgetTooSmall);
        EXPECT_EQ(detail(error, "path"), relation.ipc.spec.path);
        EXPECT_EQ(detail(error, "tier"), std::string("host"));
    }
    EXPECT_EQ(small.used(), 0u);
    const uint64_t before = relation.budget.used();
    {
        const FileBatches batches = relation.find_batches();
        EXPECT_EQ(relation.budget.used() - before, batches.counted_bytes());
        EXPECT(batches.counted_bytes() >= 10000 * 24 && batches.counted_bytes() < 10000 * 24 * 5 / 4);
    }
    EXPECT_EQ(relation.budget.used(), before);
    JobControl cancelled;
    cancelled.cancelled = true;
    EXPECT_ERROR(kAborted, open_file_batches({relation.spec.columns, {relation.ipc.spec}}, relation.budget, cancelled,
                                             relation.facts));
}

TEST(transfer_file_batches_of_a_file_that_changed) {
    Numbers relation(false);
    relation.write();
    relation.open_ipc();
    const auto reader = relation.reader();
    relation.expect_slice(*reader, 0, 0, 4);
    relation.ipc.file.append({1});
    EXPECT_ERROR(kFileChanged, relation.find_batches());  // opened again as the one that it was
    EXPECT_ERROR(kFileChanged, relation.open());          // by another query
    EXPECT_ERROR(kFileChanged, relation.reader()->read(2, 0, 4));
}

// The time of the last write can be set: a header that is another one when it is read again must be sound all the same.
TEST(transfer_file_batches_are_checked_again_when_they_are_read) {
    Numbers relation(false);
    relation.write();
    relation.spec.files = std::make_shared<FileBatches>(relation.find_batches());
    const IpcFile::Block block = relation.ipc.records[1];
    const Bytes metadata = relation.ipc.file.read(block.offset, block.metadata_bytes);
    const KeptTimes times(relation.ipc.file.path());
    const auto outcome = [&](const Bytes& bytes) -> std::string {
        relation.ipc.file.overwrite(block.offset, bytes);
        times.restore();
        relation.open();
        const auto reader = relation.reader();
        relation.expect_slice(*reader, 0, 0, 4);
        try {
            reader->read(1, 0, 4);
            return "read";
        } catch (const Error& error) {
            return error_code_name(error.code());
        }
    };
    EXPECT_EQ(outcome(metadata), std::string("read"));
    for (size_t at = 0; at + 4 <= metadata.size(); ++at) {
        for (const uint32_t value : {0u, 3u, 0x7FFFFFFFu, 0xFFFFFFF0u}) {
            Bytes bytes = metadata;
            std::memcpy(bytes.data() + at, &value, 4);
            const std::string found = outcome(bytes);
            const bool known = found == "read" || found == "FILE_CORRUPT" || found == "FILE_TRUNCATED" ||
                               found == "FILE_CHANGED" || found == "UNSUPPORTED_TYPE";
            if (!known) fail("word at " + std::to_string(at) + ": " + found, __FILE__, __LINE__);
        }
    }
    // Sound, but of other rows than the places have it: three in place of four.
    IpcRecordBatch fewer;
    fewer.rows = 3;
    fewer.nodes = {{3, 0}};
    fewer.buffers = {{0, 0}, {0, 24}};
    fewer.body_bytes = block.body_bytes;
    Bytes other = encode_record_batch_message(fewer);
    EXPECT_EQ(other.size(), metadata.size());
    EXPECT_EQ(outcome(other), std::string("FILE_CHANGED"));
}

TEST(transfer_file_batches_claim_no_rows_without_bytes) {
    const auto open = [](int64_t rows, ColumnType type) {
        IpcRelation relation(1, true);
        relation.add_column(std::move(type));
        BatchLayout layout;
        layout.rows = rows;
        layout.nodes = {{rows, 0, 0}};
        if (relation.types[0].layout == Layout::kStruct) layout.buffers.push_back({});
        relation.ipc.add_records(layout);
        relation.ipc.finish();
        relation.open_ipc();
        return relation.source->rows();
    };
    const int64_t most = std::numeric_limits<int32_t>::max();
    for (const Layout layout : {Layout::kNull, Layout::kStruct}) {
        EXPECT_EQ(open(most, type_of(layout, 0)), most);
        for (const int64_t rows : {most + 1, int64_t{1} << 52, std::numeric_limits<int64_t>::max()}) {
            const std::string message = message_of([&] { open(rows, type_of(layout, 0)); }, ErrorCode::kFileCorrupt);
            EXPECT(contains(message, "rows with 0 bytes behind them"));
        }
    }
}

// A stream that sends a growing dictionary with every batch: its versions need no table of indices.
TEST(transfer_file_batches_with_a_dictionary_that_grows) {
    IpcRelation relation(1, true);
    relation.builder.junk = false;
    relation.add_column(type_of(Layout::kDictionary, 4, {type_of(Layout::kBinary, 4)}));
    constexpr int64_t kVersions = 200;
    const auto texts = [](int64_t count) {
        std::vector<std::string> words;
        for (int64_t i = 0; i < count; ++i) words.push_back("word" + std::to_string(i));
        return strings(words);
    };
    for (int64_t version = 1; version <= kVersions; ++version) {
        BatchLayout values =
            relation.builder.batch({relation.types[0].children[0]}, {texts(version)}, version, nullptr, -1);
        relation.ipc.add_dictionary(0, false, values);
        std::vector<int32_t> code{static_cast<int32_t>(version - 1)};
        BatchLayout rows;
        rows.rows = 1;
        rows.nodes = {{1, 0, 0}};
        rows.buffers = {{}, {0, reinterpret_cast<const uint8_t*>(code.data()), 4}};
        relation.ipc.add_records(rows);
    }
    relation.ipc.finish();
    relation.ipc.spec.dictionary_ids = {0};
    const uint64_t before = relation.budget.used();
    relation.open_ipc();
    EXPECT_EQ(relation.source->columns()[0]->dictionary->values.length, kVersions);
    EXPECT_EQ(relation.facts.dictionary_rows[0], kVersions * (kVersions + 1) / 2);
    // 20,100 values in all: a table of them would take 80 KB.
    EXPECT(relation.budget.used() - before < 48 * kKiB);
    const auto reader = relation.reader();
    for (int64_t batch = 0; batch < kVersions; ++batch) {
        const ColumnView& view = reader->read(batch, 0, 1)[0];
        EXPECT_EQ(text_of(view, 0), text_of(texts(batch + 1).back(), relation.types[0].children[0]));
    }
}

TEST(transfer_file_batches_link_their_dictionaries) {
    const auto words = [](IpcRelation& relation, const std::vector<std::string>& list) {
        relation.builder.junk = false;
        relation.add_column(type_of(Layout::kDictionary, 4, {type_of(Layout::kBinary, 4)}));
        std::vector<Value> values;
        for (const Value& text : strings(list)) {
            values.emplace_back();
            values.back().items.push_back(text);
        }
        relation.add_batch({values}, static_cast<int64_t>(list.size()), -1);
        relation.write();
        relation.spec.files = std::make_shared<FileBatches>(relation.find_batches());
    };
    IpcRelation left(1, true);
    IpcRelation right(2, true);
    words(left, {"b", "a"});
    words(right, {"c", "a", "d"});
    DictionaryLink link;
    link.parts = {{left.spec.files, 0, {}}, {right.spec.files, 0, {}}};
    left.spec.links = {link};
    right.spec.links = {link};
    left.open();
    right.open();
    const auto codes = [](IpcRelation& relation, int64_t rows) {
        const auto reader = relation.reader();
        const ColumnView& view = reader->read(0, 0, rows)[0];
        std::vector<int32_t> found;
        for (int64_t i = 0; i < rows; ++i) found.push_back(load_as<int32_t>(view.data, i));
        return found;
    };
    EXPECT(codes(left, 2) == (std::vector<int32_t>{0, 1}));
    EXPECT(codes(right, 3) == (std::vector<int32_t>{2, 1, 3}));
}

// Small batches lie one behind the other in their file: a worker that takes every other one would read all of it.
TEST(transfer_morsels_of_small_batches_go_to_one_worker) {
    Numbers relation(true, 1000, 1);
    relation.write();
    const Source& source = relation.open_ipc();
    MorselQueue queue(source, 100);
    Morsel workers[2];
    std::vector<int64_t> taken[2];
    for (int turn = 0; turn < 200; ++turn) {
        EXPECT(queue.next(workers[turn % 2]));
        EXPECT_EQ(workers[turn % 2].rows, 1);
        taken[turn % 2].push_back(workers[turn % 2].batch);
    }
    for (int64_t i = 0; i < 100; ++i) {
        EXPECT_EQ(taken[0][static_cast<size_t>(i)], i);
        EXPECT_EQ(taken[1][static_cast<size_t>(i)], 100 + i);
    }
}

}  // namespace spillway
