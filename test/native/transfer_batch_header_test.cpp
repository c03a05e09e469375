// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>

#include "support/ipc_file.hpp"
#include "transfer/batch_header.hpp"

namespace spillway {
namespace {

using namespace test;

constexpr int64_t kBody = 4096;

// A record batch of two columns (an int64 with NULLs and a string) and what reads its header.
struct Header {
    Header() {
        types.push_back(type_of(Layout::kFixed, 8));
        types.push_back(type_of(Layout::kBinary, 4));
        for (size_t i = 0; i < types.size(); ++i) types[i].name = "column" + std::to_string(i);
        for (const ColumnType& type : types) plans.push_back(plan_column(type, type, counts));
        batch.rows = 10;
        batch.nodes = {{10, 3}, {10, 0}};
        batch.buffers = {{0, 2}, {8, 80}, {88, 0}, {88, 44}, {136, 21}};
        batch.body_bytes = 160;
    }
    Bytes metadata() const { return encode_record_batch_message(batch); }
    // The copy ends where the bytes do, so that a sanitizer sees what is read behind them.
    BatchLayout read(const Bytes& bytes) const {
        const std::unique_ptr<uint8_t[]> copy(new uint8_t[bytes.size()]);
        std::copy(bytes.begin(), bytes.end(), copy.get());
        const MessagePrefix prefix = message_prefix(copy.get(), static_cast<int64_t>(bytes.size()), path);
        const MessageView view(MetadataBytes(copy.get() + prefix.bytes, prefix.flatbuffer_bytes, path));
        const MessageHead head = read_message_head(view);
        require_known_version(view, head, false);
        BatchLayout layout;
        std::vector<int64_t> starts;
        if (head.type == MessageHead::kSchema) throw damaged_file(path, "a schema");
        const int64_t body_bytes = std::min(head.body_bytes, kBody);
        read_batch_layout(view, head, {plans, counts}, kBody, body_bytes, layout, starts);
        return layout;
    }
    BatchLayout read() const { return read(metadata()); }

    std::vector<ColumnType> types;
    std::vector<NodePlan> plans;
    SchemaCounts counts;
    IpcRecordBatch batch;
    std::string path = "/tmp/header.arrow";
};

// Whatever the bytes say, nothing leaves the body.
void expect_inside(const BatchLayout& layout) {
    EXPECT_EQ(layout.nodes.size(), 2u);
    EXPECT_EQ(layout.buffers.size(), 5u);
    EXPECT(layout.rows >= 0);
    for (const BatchLayout::Node& node : layout.nodes) EXPECT(node.length >= 0 && node.null_count >= 0);
    for (const BatchLayout::Region& region : layout.buffers) {
        EXPECT(region.offset >= kBody && region.length >= 0 && region.length <= 2 * kBody - region.offset);
    }
}

void expect_refused(const Header& header, const Bytes& bytes, const std::string& what) {
    try {
        expect_inside(header.read(bytes));
    } catch (const Error& error) {
        const bool known = error.code() == ErrorCode::kFileCorrupt || error.code() == ErrorCode::kUnsupportedType;
        if (!known) fail(what + ": " + error.message(), __FILE__, __LINE__);
        EXPECT_EQ(detail(error, "path"), header.path);
    }
}

std::string refusal(const Header& header) {
    try {
        header.read();
    } catch (const Error& error) {
        EXPECT(error.code() == ErrorCode::kFileCorrupt);
        return error.message();
    }
    return "";
}

}  // namespace

TEST(transfer_header_is_read_with_offsets_in_the_file) {
    const Header header;
    const BatchLayout layout = header.read();
    EXPECT_EQ(layout.rows, 10);
    EXPECT_EQ(layout.nodes[0].length, 10);
    EXPECT_EQ(layout.nodes[0].null_count, 3);
    EXPECT_EQ(layout.buffers[0].offset, kBody);
    EXPECT_EQ(layout.buffers[3].offset, kBody + 88);
    EXPECT_EQ(layout.buffers[4].length, 21);
    EXPECT(layout.variadic_counts.empty());
}

TEST(transfer_header_cut_at_every_byte) {
    const Header header;
    const Bytes whole = header.metadata();
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
        // As the prefix has it, and with a prefix that fits what is left.
        Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
        EXPECT_ERROR(kFileCorrupt, header.read(cut));
        if (bytes < 8) continue;
        const auto length = static_cast<uint32_t>(bytes - 8);
        std::memcpy(cut.data() + 4, &length, 4);
        expect_refused(header, cut, "cut at " + std::to_string(bytes));
    }
}

TEST(transfer_header_with_any_word_at_any_value) {
    const Header header;
    const Bytes whole = header.metadata();
    const uint32_t hostile[] = {0, 1, 4, 0x7F, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu, 0xFFFFFFF8u};
    for (size_t at = 0; at + 4 <= whole.size(); ++at) {
        for (const uint32_t value : hostile) {
            Bytes bytes = whole;
            std::memcpy(bytes.data() + at, &value, 4);
            expect_refused(header, bytes, "word at " + std::to_string(at) + " is " + std::to_string(value));
        }
    }
}

TEST(transfer_header_of_flipped_bits) {
    const Header header;
    const Bytes whole = header.metadata();
    for (uint64_t seed = 1; seed <= fewer_if_sanitized(60000); ++seed) {
        Random random(seed);
        Bytes bytes = whole;
        for (int64_t flips = 1 + below(random, 6); flips > 0; --flips) {
            const auto at = static_cast<size_t>(below(random, static_cast<int64_t>(bytes.size())));
            bytes[at] ^= static_cast<uint8_t>(1u << below(random, 8));
        }
        expect_refused(header, bytes, "seed " + std::to_string(seed));
    }
}

TEST(transfer_header_says_what_is_wrong) {
    Header rows;
    rows.batch.rows = -1;
    EXPECT(contains(refusal(rows), "a batch has a negative number of rows"));
    Header length;
    length.batch.nodes[1].length = -1;
    EXPECT(contains(refusal(length), "a column has a negative length"));
    Header node;
    node.batch.nodes.pop_back();
    EXPECT(contains(refusal(node), "a batch has 1 nodes, 5 buffers"));
    Header buffer;
    buffer.batch.buffers.push_back({0, 0});
    EXPECT(contains(refusal(buffer), "a batch has 2 nodes, 6 buffers"));
    for (const IpcBuffer& outside : std::vector<IpcBuffer>{
             {-1, 1}, {0, -1}, {0, 161}, {161, 0}, {160, 1}, {8, std::numeric_limits<int64_t>::max()}}) {
        Header region;
        region.batch.buffers[4] = outside;
        EXPECT(contains(refusal(region), "a buffer lies outside of its batch"));
    }
    Header ends_with_it;
    ends_with_it.batch.buffers[4] = {0, 160};
    EXPECT_EQ(ends_with_it.read().buffers[4].length, 160);
}

// Without a number the bitmap decides, and without a bitmap there is no NULL.
TEST(transfer_header_with_an_unknown_number_of_nulls) {
    Header header;
    header.batch.nodes = {{10, -1}, {10, -1}};
    const BatchLayout layout = header.read();
    EXPECT_EQ(layout.nodes[0].null_count, 10);
    EXPECT_EQ(layout.nodes[1].null_count, 0);
    Header none;
    none.batch.nodes[0].null_count = 0;
    EXPECT_EQ(none.read().nodes[0].null_count, 0);
}

TEST(transfer_header_prefixes_with_and_without_marker) {
    const Header header;
    const Bytes marked = header.metadata();
    const Bytes old(marked.begin() + 4, marked.end());  // of before 2019
    EXPECT_EQ(header.read(old).rows, 10);
    Bytes longer = marked;
    uint32_t length;
    std::memcpy(&length, longer.data() + 4, 4);
    ++length;
    std::memcpy(longer.data() + 4, &length, 4);
    EXPECT_ERROR(kFileCorrupt, header.read(longer));
}

}  // namespace spillway
