// SPDX-License-Identifier: Apache-2.0
// Build rows of joins beyond GPU memory: pages of partitions, and the index of their rows.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "row_index/row_index.hpp"
#include "stream/row_pages.hpp"
#include "support/device_array.hpp"
#include "support/error_of.hpp"
#include "support/generators.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::ErrorCode;
using cuda::IndexedPartition;
using cuda::IndexView;
using cuda::RowIndex;
using cuda::RowPages;
using cuda::RowPiece;
using cuda::RowPieces;
using Words = std::vector<uint32_t>;

// Rows on the host beside those in pages.
class PagesCheck {
  public:
    PagesCheck(uint32_t row_words, uint64_t page_rows, uint64_t pages, uint64_t partitions)
        : pages_(test_device(), parcels_, row_words, page_rows, pages, partitions),
          row_words_(row_words),
          expected_(partitions) {}

    RowPages& pages() { return pages_; }
    cuda::Parcels& parcels() { return parcels_; }
    const Words& expected(uint64_t partition) const { return expected_[partition]; }
    uint64_t rows(uint64_t partition) const { return expected_[partition].size() / row_words_; }

    // A batch with a gap before each piece; word(row, w) is what a row holds.
    template <class Word>
    void append(const std::vector<uint64_t>& partition_rows, const Word& word) {
        Words words;
        std::vector<RowPiece> pieces;
        for (uint64_t p = 0; p < partition_rows.size(); ++p) {
            words.resize(words.size() + 4 * row_words_, 0xdeadbeefU);
            if (partition_rows[p] == 0) continue;
            pieces.push_back({words.size() / row_words_, partition_rows[p], p});
            for (uint64_t row = 0; row < partition_rows[p]; ++row) {
                for (uint32_t w = 0; w < row_words_; ++w) {
                    words.push_back(word(p, rows_made_, w));
                    expected_[p].push_back(words.back());
                }
                ++rows_made_;
            }
        }
        const DeviceArray<uint32_t> rows = upload(words);
        const RowPieces batch = {rows.data(), row_words_, pieces};
        pages_.append(batch, pieces);
        test_device().synchronize();  // before the rows go
    }
    void release(uint64_t partition) {
        pages_.release(partition);
        expected_[partition].clear();
    }
    uint64_t place(uint64_t partition, uint64_t row) const {
        const uint64_t page_rows = pages_.page_rows();
        return pages_.pages(partition)[row / page_rows] * page_rows + row % page_rows;
    }
    Words gathered(uint64_t partition, uint64_t first, uint64_t rows) {
        const DeviceArray<uint32_t> to(rows * row_words_);
        pages_.gather(partition, first, rows, to.data());
        test_device().synchronize();
        return download(to);
    }
    void check() {
        for (uint64_t p = 0; p < expected_.size(); ++p) {
            CHECK_EQ(pages_.rows(p), rows(p));
            CHECK_EQ(pages_.pages(p).size(), (rows(p) + pages_.page_rows() - 1) / pages_.page_rows());
            CHECK(gathered(p, 0, rows(p)) == expected_[p]);
        }
    }

  private:
    cuda::Parcels parcels_{test_device()};
    RowPages pages_;
    const uint32_t row_words_;
    std::vector<Words> expected_;
    uint64_t rows_made_ = 0;
};

uint32_t random_word(uint64_t, uint64_t row, uint32_t w) {
    return static_cast<uint32_t>(random64(test_seed() + w, row));
}

// Bits of a mixed key behind those of the partition.
uint64_t bucket_of(const uint32_t* row, uint32_t key_words, uint32_t radix_bits, uint32_t bucket_bits) {
    uint64_t key = key_words == 1 ? uint64_t{row[0]} << 32 : row[0] | uint64_t{row[1]} << 32;
    key <<= radix_bits;
    return bucket_bits == 0 ? 0 : key >> (64 - bucket_bits);
}

std::vector<Words> sorted_rows(const Words& words, uint32_t row_words) {
    std::vector<Words> rows;
    for (size_t at = 0; at < words.size(); at += row_words) {
        rows.emplace_back(words.begin() + static_cast<int64_t>(at),
                          words.begin() + static_cast<int64_t>(at + row_words));
    }
    std::sort(rows.begin(), rows.end());
    return rows;
}

// Every row of the partitions is where its bucket is, once; others are not indexed.
void check_index(PagesCheck& check, const RowIndex& index, const std::vector<uint64_t>& indexed, uint64_t partitions,
                 uint32_t radix_bits) {
    IndexView view = index.view();
    const auto directory = download(view.partition, partitions);
    uint64_t buckets = 0;
    uint64_t lists = 0;
    for (const uint64_t p : indexed) {
        CHECK(directory[p].bucket_bits != cuda::kNotIndexed);
        const uint64_t own_buckets = (1ULL << directory[p].bucket_bits) + 1;
        buckets = std::max<uint64_t>(buckets, directory[p].first_bucket + own_buckets);
        lists = std::max<uint64_t>(lists, directory[p].first_page + check.pages().pages(p).size());
    }
    CHECK(buckets <= cuda::index_buckets_max(check.pages().capacity_rows(), partitions));
    const Words bucket = download(view.bucket, buckets);
    const Words page = download(view.page, lists);
    view.page = page.data();
    for (uint64_t p = 0; p < partitions; ++p) {
        if (std::find(indexed.begin(), indexed.end(), p) == indexed.end()) {
            CHECK_EQ(directory[p].bucket_bits, cuda::kNotIndexed);
            continue;
        }
        const IndexedPartition& of = directory[p];
        const uint32_t* const begin = bucket.data() + of.first_bucket;
        const auto offset = [begin](uint64_t b) { return begin[b] & ~cuda::kEqualKeys; };
        CHECK_EQ(offset(0), 0);
        CHECK_EQ(begin[1ULL << of.bucket_bits], check.rows(p));
        const Words rows = check.gathered(p, 0, check.rows(p));
        CHECK(sorted_rows(rows, view.row_words) == sorted_rows(check.expected(p), view.row_words));
        for (uint64_t b = 0; b < 1ULL << of.bucket_bits; ++b) {
            CHECK(offset(b) <= offset(b + 1));
            const uint32_t* const first = rows.data() + uint64_t{offset(b)} * view.row_words;
            bool equal = true;
            for (uint32_t row = offset(b); row < offset(b + 1); ++row) {
                const uint32_t* const words = rows.data() + uint64_t{row} * view.row_words;
                equal = equal && std::equal(words, words + view.key_words, first);
                CHECK_EQ(bucket_of(words, view.key_words, radix_bits, of.bucket_bits), b);
                CHECK_EQ(view.place(of, row), check.place(p, row));
            }
            // As there are only a few long buckets, each one whose rows have the same key says so. Short ones never do.
            const bool is_long = offset(b + 1) - offset(b) > cuda::kLongBucketRows;
            CHECK_EQ((begin[b] & cuda::kEqualKeys) != 0, is_long && equal);
        }
    }
}

struct IndexCase {
    const char* name;
    uint32_t key_words;
    uint32_t row_words;
    uint32_t radix_bits;
    uint64_t distinct;  // keys of a partition; 0: all are
};

void check_index_case(const IndexCase& of) {
    const uint64_t partitions = 1ULL << of.radix_bits;
    const uint64_t some = small_or_full(700, 20000);
    const uint64_t page_rows = small_or_full(32, 256);
    // Partitions have no row, one row, as many as a page and one more, and many.
    const uint64_t sizes[] = {some, 0, 1, page_rows, page_rows + 1, some / 3, 4, 5};
    std::vector<uint64_t> partition_rows;
    for (uint64_t p = 0; p < partitions; ++p) partition_rows.push_back(sizes[p % 8]);
    const uint64_t pages = (some * 3 / page_rows + 8) * (partitions / 8 + 1) + partitions;
    PagesCheck check(of.row_words, page_rows, pages, partitions);
    // The partition's bits first, then those of the key.
    const auto word = [&](uint64_t p, uint64_t row, uint32_t w) {
        const uint64_t number = of.distinct == 0 ? row : row % of.distinct;
        const uint64_t random =
            w < of.key_words ? random64(test_seed(), number) >> of.radix_bits : random64(test_seed() + w, row);
        if (w >= of.key_words) return static_cast<uint32_t>(random);
        const uint64_t key = of.radix_bits == 0 ? random : random | p << (64 - of.radix_bits);
        return static_cast<uint32_t>(of.key_words == 1 || w == 1 ? key >> 32 : key);
    };
    check.append(partition_rows, word);
    check.append(partition_rows, word);
    const auto layout = cuda::RowLayout::make(of.key_words * 4, std::vector<uint32_t>(of.row_words - of.key_words, 4));
    RowIndex index(test_device(), check.parcels(), check.pages(), layout, static_cast<int>(of.radix_bits), 2 * some);
    std::vector<uint64_t> all;
    for (uint64_t p = 0; p < partitions; ++p) all.push_back(p);
    std::vector<uint64_t> few;
    for (uint64_t p = partitions / 2; p < partitions; p += 3) few.push_back(p);
    // The same partitions again, too: rows may be in any order before.
    for (const auto* indexed : {&all, &few, &all}) {
        index.build(*indexed);
        test_device().synchronize();
        check_index(check, index, *indexed, partitions, of.radix_bits);
    }
    check.pages().release(partitions - 1);
    few.pop_back();
    index.build(few);
    test_device().synchronize();
    check_index(check, index, few, partitions, of.radix_bits);
}

}  // namespace

GPU_TEST("stream pages: rows of partitions, in the order in which they came") {
    const uint64_t some = small_or_full(150, 5000);
    for (const uint32_t row_words : {1U, 2U, 3U, 4U, 5U, 8U, 10U, 33U, 58U}) {
        for (const uint64_t page_rows : {8, 16, 1024}) {
            PagesCheck check(row_words, page_rows, 6 * some / page_rows + 12, 4);
            const uint64_t free_pages = check.pages().free_pages();
            CHECK_EQ(check.pages().capacity_rows(), free_pages * page_rows);
            check.check();
            check.append({some, 0, 1, page_rows}, random_word);
            check.append({0, 0, some, 1}, random_word);
            check.append({page_rows - 1, 3, 0, page_rows}, random_word);
            check.check();
            for (const uint64_t first : {uint64_t{0}, page_rows - 1, page_rows, some / 2}) {
                if (first >= check.rows(0)) continue;
                const uint64_t rows = std::min<uint64_t>(2 * page_rows + 3, check.rows(0) - first);
                const Words& all = check.expected(0);
                const Words part(all.begin() + static_cast<int64_t>(first * row_words),
                                 all.begin() + static_cast<int64_t>((first + rows) * row_words));
                CHECK(check.gathered(0, first, rows) == part);
            }
            // Pages that come back serve other partitions.
            check.release(0);
            check.append({0, some, 7, some}, random_word);
            check.append({some / 2, 0, 0, 0}, random_word);
            check.check();
            for (uint64_t p = 0; p < 4; ++p) check.release(p);
            CHECK_EQ(check.pages().free_pages(), free_pages);
        }
    }
}

GPU_TEST("stream pages: all of them, and one row more") {
    PagesCheck check(2, 16, 10, 3);
    CHECK_EQ(check.pages().pages_for(0, 0), 0);
    CHECK_EQ(check.pages().pages_for(0, 16), 1);
    CHECK_EQ(check.pages().pages_for(0, 17), 2);
    check.append({100, 33, 0}, random_word);
    CHECK_EQ(check.pages().pages_for(0, 12), 0);
    CHECK_EQ(check.pages().pages_for(0, 13), 1);
    CHECK_EQ(check.pages().free_pages(), 0);
    check.append({12, 15, 0}, random_word);
    check.check();
    CHECK_EQ(check.pages().pages_for(2, 1), 1);
    CHECK_THROWS(check.append({0, 0, 1}, random_word), ErrorCode::kInternal);
    cuda::Parcels parcels(test_device());
    CHECK_THROWS(RowPages(test_device(), parcels, 2, 48, 10, 3), ErrorCode::kInvalid);
    CHECK_THROWS(RowPages(test_device(), parcels, 2, 0, 10, 3), ErrorCode::kInvalid);
}

GPU_TEST("stream pages: every row is found under its bucket") {
    const IndexCase cases[] = {
        {"keys of 8 bytes", 2, 4, 3, 0},          {"keys of 4 bytes", 1, 3, 3, 0}, {"keys alone", 2, 2, 0, 0},
        {"keys of 4 bytes alone", 1, 1, 4, 0},    {"wide rows", 2, 8, 2, 0},       {"rows of 5 words", 1, 5, 1, 0},
        {"every key several times", 2, 4, 3, 40}, {"one key", 1, 2, 2, 1},         {"many partitions", 2, 3, 6, 0}};
    for (const IndexCase& of : cases) {
        const uint64_t blocks = test_device().memory().blocks();
        try {
            check_index_case(of);
        } catch (const Failure& failure) {
            throw Failure(std::string(of.name) + ": " + failure.what());
        }
        CHECK_EQ(test_device().memory().blocks(), blocks);
    }
}

}  // namespace spillway::gpu_test
