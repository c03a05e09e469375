// SPDX-License-Identifier: Apache-2.0
// Rows packed as joins beyond GPU memory spill them: what was packed and unpacked is what there was.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "primitive/mix.cuh"
#include "stream/pack_rows.hpp"
#include "support/device_array.hpp"
#include "support/generators.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::CodeField;
using cuda::CodeLayout;
using cuda::FieldExtremes;
using cuda::FragmentSet;
using cuda::RowLayout;
using cuda::RowPiece;

constexpr uint32_t kGuardWord = 0xabadcafeU;
constexpr uint64_t kGuardWords = 64;

uint64_t low_mask(uint32_t bits) {
    return bits >= 64 ? ~0ULL : (1ULL << bits) - 1;
}
uint32_t bits_of(uint64_t value) {
    uint32_t bits = 0;
    for (; value != 0; value >>= 1) ++bits;
    return bits;
}
uint64_t sign_of(uint32_t width) {
    return 1ULL << (width * 8 - 1);
}

uint64_t partition_of(uint64_t key, uint32_t key_words, uint32_t radix_bits) {
    if (radix_bits == 0) return 0;
    const uint64_t top = key_words == 1 ? uint64_t{cuda::mix32(static_cast<uint32_t>(key))} << 32 : cuda::mix64(key);
    return top >> (64 - radix_bits);
}

// Fragments of rows whose fields span so many bits each, around values that are as likely negative as not.
class SampleRows {
  public:
    SampleRows(uint32_t key_bytes, const std::vector<uint32_t>& widths, uint32_t radix_bits,
               const std::vector<uint64_t>& fragment_rows)
        : layout(CodeLayout::make(RowLayout::make(key_bytes, widths, cuda::kPartialWordsMax),
                                  static_cast<int>(radix_bits))) {
        for (size_t f = 0; f < fragment_rows.size(); ++f) add(f, fragment_rows[f]);
    }

    const CodeLayout layout;
    std::vector<uint32_t> words;
    std::vector<RowPiece> pieces;
    std::vector<FieldExtremes> extremes;  // [pieces * fields], of numbers in the order of unsigned ones

    uint64_t rows() const { return words.size() / layout.row_words; }

  private:
    void add(size_t fragment, uint64_t rows) {
        const uint64_t begin = this->rows();
        words.resize(words.size() + rows * layout.row_words);
        const uint64_t stream = random64(test_seed(), 1000 + fragment);
        // A key can have few bits and be of a given partition only if there are enough others of its kind.
        const uint32_t key_bits = layout.key_words * 32;
        const uint32_t spans[] = {key_bits, layout.radix_bits + 9, layout.radix_bits == 0 ? 0 : key_bits, 20, 27};
        const uint64_t partition = partition_of(stream, layout.key_words, layout.radix_bits);
        pieces.push_back({begin, rows, partition});
        for (uint32_t f = 0; f < layout.fields; ++f) {
            const uint32_t width = layout.field[f].width;
            const uint32_t span =
                f == 0 ? spans[fragment % 5] : static_cast<uint32_t>((random64(stream, f) >> 7) % (width * 8 + 1));
            FieldExtremes found;
            for (uint64_t row = 0; row < rows; ++row) {
                const uint64_t value = f == 0
                                           ? key(stream, span, row, partition)
                                           : (random64(stream, 50 + f) + (random64(stream + f, row) & low_mask(span))) &
                                                 low_mask(width * 8);
                const uint64_t ordered = value ^ sign_of(width);
                found.least = std::min(found.least, ordered);
                found.greatest = std::max(found.greatest, ordered);
                store(begin + row, f, value);
            }
            extremes.push_back(found);
        }
    }

    uint64_t key(uint64_t stream, uint32_t span, uint64_t row, uint64_t partition) const {
        const uint64_t mask = low_mask(layout.key_words * 32);
        for (uint64_t attempt = 0;; ++attempt) {
            const uint64_t key = (stream + (random64(stream ^ row, attempt) & low_mask(span))) & mask;
            if (partition_of(key, layout.key_words, layout.radix_bits) == partition) return key;
            if (attempt > 1ULL << 20) fail("no key of this partition was found", __FILE__, __LINE__);
        }
    }

    void store(uint64_t row, uint32_t f, uint64_t value) {
        const CodeField field = layout.field[f];
        if (f == 0) {
            value = layout.key_words == 1 ? cuda::mix32(static_cast<uint32_t>(value)) : cuda::mix64(value);
        }
        uint8_t* const to = reinterpret_cast<uint8_t*>(words.data() + row * layout.row_words) + field.offset;
        std::memcpy(to, &value, field.width);
    }
};

// Words behind the end that nobody may touch.
DeviceArray<uint32_t> guarded(uint64_t words) {
    return upload(std::vector<uint32_t>(words + kGuardWords, kGuardWord));
}
void check_guards(const DeviceArray<uint32_t>& array, const std::string& what) {
    for (const uint32_t word : download(array.data() + array.size() - kGuardWords, kGuardWords)) {
        if (word != kGuardWord) fail(what + ": written beyond the end", __FILE__, __LINE__);
    }
}

std::vector<FieldExtremes> found_extremes(const SampleRows& sample, const DeviceArray<uint32_t>& rows) {
    std::vector<uint64_t> begin;
    std::vector<uint64_t> end;
    for (const RowPiece& piece : sample.pieces) {
        begin.push_back(piece.begin);
        end.push_back(piece.begin + piece.rows);
    }
    const DeviceArray<uint64_t> begin_there = upload(begin);
    const DeviceArray<uint64_t> end_there = upload(end);
    const DeviceArray<FieldExtremes> found(begin.size() * sample.layout.fields);
    cuda::find_extremes(test_device(), sample.layout, rows.data(), begin_there.data(), end_there.data(), begin.size(),
                        sample.rows(), found.data());
    test_device().synchronize();
    return download(found);
}

// Packs all fragments, unpacks them in another order, and compares.
void check_packing(const SampleRows& sample, const std::string& what) {
    cuda::Device& device = test_device();
    const CodeLayout& layout = sample.layout;
    cuda::Parcels parcels(device);
    const DeviceArray<uint32_t> rows = upload(sample.words);
    const std::vector<FieldExtremes> extremes = found_extremes(sample, rows);
    FragmentSet set;
    for (size_t p = 0; p < sample.pieces.size(); ++p) {
        for (uint32_t f = 0; f < layout.fields; ++f) {
            const FieldExtremes& expected = sample.extremes[p * layout.fields + f];
            CHECK_EQ(extremes[p * layout.fields + f].least, expected.least);
            CHECK_EQ(extremes[p * layout.fields + f].greatest, expected.greatest);
        }
        set.add(layout, sample.pieces[p], extremes.data() + p * layout.fields);
    }
    CHECK(set.words <= cuda::packed_words_max(layout.row_words, sample.rows(), sample.pieces.size()));
    const DeviceArray<uint32_t> packed = guarded(set.words);
    cuda::pack_rows(device, parcels, layout, rows.data(), set, packed.data());
    device.synchronize();
    check_guards(packed, what + ", packed");

    FragmentSet back;
    std::vector<uint32_t> expected;
    for (size_t p = sample.pieces.size(); p-- > 0;) {
        back.add(set, p, set.first_word[p], expected.size() / layout.row_words);
        const auto first = sample.words.begin() + static_cast<int64_t>(sample.pieces[p].begin * layout.row_words);
        expected.insert(expected.end(), first, first + static_cast<int64_t>(sample.pieces[p].rows * layout.row_words));
    }
    CHECK_EQ(back.words, set.words);
    const DeviceArray<uint32_t> unpacked = guarded(expected.size());
    cuda::unpack_rows(device, parcels, layout, packed.data(), back, unpacked.data());
    device.synchronize();
    check_guards(unpacked, what + ", unpacked");
    const std::vector<uint32_t> found = download(unpacked.data(), expected.size());
    for (size_t w = 0; w < expected.size(); ++w) {
        if (found[w] != expected[w]) {
            fail(what + ": row " + std::to_string(w / layout.row_words) + " differs", __FILE__, __LINE__);
        }
    }
}

const std::vector<std::vector<uint32_t>> kWidths = {{},     {1},    {2},          {4},          {8},     {16},
                                                    {1, 1}, {2, 1}, {8, 4, 2, 1}, {1, 2, 4, 8}, {16, 4}, {4, 16, 1}};

}  // namespace

GPU_TEST("stream pack: fields of every width, fragments of every length") {
    const std::vector<uint64_t> lengths = {1, 31, 32, 33, 1023, 1024, 1025, small_or_full(2049, 40000), 5, 64};
    for (const uint32_t key_bytes : {4U, 8U}) {
        for (size_t w = 0; w < kWidths.size(); ++w) {
            for (const uint32_t radix_bits : {0U, 4U, 9U}) {
                if (!full_suite() && (w + radix_bits + key_bytes / 4) % 3 != 0) continue;
                const SampleRows sample(key_bytes, kWidths[w], radix_bits, lengths);
                check_packing(sample, "keys of " + std::to_string(key_bytes) + " bytes, widths " + std::to_string(w) +
                                          ", " + std::to_string(radix_bits) + " bits");
            }
        }
    }
}

GPU_TEST("stream pack: rows that are wider than those of joins") {
    const std::vector<uint32_t> sums(static_cast<size_t>(cuda::kGroupAggregatesMax), 8);
    const std::vector<std::vector<uint32_t>> wide = {{8, 8, 8, 8},
                                                     {8, 1, 8, 4, 8, 2, 8, 8},
                                                     {4, 8, 8, 8, 8, 8, 8, 2, 8, 8, 8, 8, 8, 8, 8, 8, 1},
                                                     std::vector<uint32_t>(24, 8),
                                                     sums};
    const std::vector<uint64_t> lengths = {1, 33, 1025, small_or_full(1100, 20000), 5};
    for (const uint32_t key_bytes : {4U, 8U}) {
        for (size_t w = 0; w < wide.size(); ++w) {
            for (const uint32_t radix_bits : {0U, 5U}) {
                if (!full_suite() && (w + radix_bits + key_bytes / 4) % 2 != 0) continue;
                check_packing(SampleRows(key_bytes, wide[w], radix_bits, lengths),
                              "wide rows " + std::to_string(w) + ", keys of " + std::to_string(key_bytes) + " bytes");
            }
        }
    }
    CHECK_THROWS(RowLayout::make(8, sums), cuda::ErrorCode::kInvalid);
    // Fields of 16 bytes are two.
    std::vector<uint32_t> fields(13, 16);
    fields.resize(28, 1);
    CHECK_THROWS(CodeLayout::make(RowLayout::make(8, fields, cuda::kPartialWordsMax), 0), cuda::ErrorCode::kInternal);
}

GPU_TEST("stream pack: many fragments of few rows") {
    std::vector<uint64_t> lengths;
    for (uint64_t f = 0; f < small_or_full(200, 3000); ++f) lengths.push_back(1 + random64(test_seed(), f) % 70);
    check_packing(SampleRows(8, {8}, 6, lengths), "many fragments");
    check_packing(SampleRows(4, {1}, 3, lengths), "many fragments of padded rows");
}

GPU_TEST("stream pack: some fragments that have most rows") {
    std::vector<uint64_t> lengths;
    for (uint64_t f = 0; f < 600; ++f) lengths.push_back(1 + random64(test_seed(), f) % 7);
    for (const size_t f : {0U, 255U, 256U, 599U}) lengths[f] = small_or_full(3001, 70001) + f;
    check_packing(SampleRows(8, {8}, 6, lengths), "four long fragments");
    check_packing(SampleRows(4, {2, 1}, 3, lengths), "four long fragments of padded rows");
}

GPU_TEST("stream pack: fields of 0 and of all bits") {
    const CodeLayout layout = CodeLayout::make(RowLayout::make(8, {8, 1}), 0);
    CHECK_EQ(layout.fields, 3);
    CHECK_EQ(layout.row_words, 5);
    const uint64_t least[] = {0, sign_of(8), ~0ULL};
    for (const uint64_t base : least) {
        FragmentSet set;
        // The same row 40 times takes no words at all.
        const FieldExtremes same[3] = {{base, base}, {base, base}, {7, 7}};
        set.add(layout, {0, 40, 0}, same);
        CHECK_EQ(set.words, 0);
        CHECK_EQ(set.group_words[0], 0);
        const FieldExtremes all[3] = {{0, ~0ULL}, {0, ~0ULL}, {0, 255}};
        set.add(layout, {40, 40, 0}, all);
        CHECK_EQ(set.group_words[1], 64 + 64 + 8);
        CHECK_EQ(set.first_word[1], 0);
        CHECK_EQ(set.words, (2 * 136 + 31) / 32 * 32);
    }
}

GPU_TEST("stream pack: keys are coded in the shorter way") {
    for (const int radix_bits : {0, 1, 7, 12}) {
        const CodeLayout layout = CodeLayout::make(RowLayout::make(8, {4}), radix_bits);
        const auto mixed_bits = static_cast<uint32_t>(64 - radix_bits);
        for (uint32_t bits = 0; bits <= 64; ++bits) {
            FragmentSet set;
            const FieldExtremes extremes[2] = {{5, 5 + (low_mask(bits) - (bits == 64 ? 5 : 0))}, {1, 4}};
            set.add(layout, {0, 33, 0}, extremes);
            const uint32_t wide = bits_of(extremes[0].greatest - extremes[0].least);
            const bool mixed = (set.bits[0] & cuda::kKeyMixed) != 0;
            CHECK_EQ(mixed, mixed_bits < wide);
            CHECK_EQ(set.bits[0] & ~cuda::kKeyMixed, std::min(wide, mixed_bits));
            CHECK_EQ(set.bits[1], 2);
            CHECK_EQ(set.base[1], 1);
            CHECK_EQ(set.group_words[0], std::min(wide, mixed_bits) + 2);
            CHECK(set.words >= 2 * set.group_words[0]);
            CHECK(set.words <= cuda::packed_words_max(layout.row_words, 33, 1));
        }
    }
}

}  // namespace spillway::gpu_test
