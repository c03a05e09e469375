// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/chunk_columns.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bit_range.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "cuda/memory_model/stream_memory.hpp"

namespace spillway {

namespace {

constexpr uint64_t kTupleRows = 256;  // of keys that become byte strings at a time
constexpr int64_t kKeyRows = 1024;    // of keys that are normalized at a time: their words stay in the L1 cache

void bits_to_bytes(const uint8_t* bits, int64_t bit, uint64_t rows, uint8_t* out) {
    for (uint64_t i = 0; i < rows; ++i) out[i] = get_bit(bits, bit + static_cast<int64_t>(i)) ? 1 : 0;
}

// Little-endian: the low bytes come first.
void write_row_numbers(uint64_t first_row, uint64_t rows, uint32_t width, uint8_t* out) {
    for (uint64_t i = 0; i < rows; ++i, out += width) {
        const uint64_t number = first_row + i;
        if (width == sizeof number) {
            std::memcpy(out, &number, sizeof number);
        } else {
            std::memcpy(out, &number, sizeof(uint32_t));
        }
    }
}

// Integers that need neither a sign nor room.
bool is_word(const KeySpec& key, const ColumnType& type, uint32_t key_bytes) {
    return key.kind == KeyKind::kInteger && type.layout == Layout::kFixed &&
           static_cast<uint32_t>(type.byte_width) == key_bytes;
}

}  // namespace

bool is_text(const ColumnType& type) {
    return type.layout == Layout::kBinary || type.layout == Layout::kView;
}

bool is_text_key(const KeySpec& key) {
    const KeyKind kind = key.kind == KeyKind::kDictionaryValue ? key.kind_of_value : key.kind;
    return kind == KeyKind::kBytes;
}

uint32_t packed_key_width(const KeySpec& key) {
    return is_text_key(key) && key.width == 0 ? kTextCodeBytes : static_cast<uint32_t>(key.width);
}

std::vector<KeyPlace> packed_key_places(const std::vector<KeySpec>& keys) {
    std::vector<KeyPlace> places;
    uint64_t at = 0;
    for (const KeySpec& key : keys) {
        const uint64_t in_word = at % sizeof(uint64_t);
        if (in_word != 0 && in_word + packed_key_width(key) > sizeof(uint64_t)) at += sizeof(uint64_t) - in_word;
        places.push_back(
            {static_cast<uint32_t>(at / sizeof(uint64_t)), static_cast<uint32_t>(at % sizeof(uint64_t)) * 8});
        at += packed_key_width(key);
    }
    return places;
}

uint32_t packed_key_words(const std::vector<KeySpec>& keys, int32_t null_byte) {
    const KeyPlace last = packed_key_places(keys).back();
    const uint32_t bytes = last.shift / 8 + packed_key_width(keys.back());
    const uint32_t flags = null_byte < 0 ? 0 : static_cast<uint32_t>(null_byte) / sizeof(uint64_t) + 1;
    return std::max(last.word + (bytes + 7) / 8, flags);
}

ChunkColumns::ChunkColumns(const Source& source, const OutOfCoreSide& side, const ChunkKeys& keys, uint64_t chunk_rows,
                           ChunkTexts texts)
    : side_(side),
      as_(keys),
      chunk_rows_(chunk_rows),
      key_bytes_(keys.bytes),
      null_byte_(side.null_byte),
      texts_(texts) {
    add_keys(source, side.keys, keys);
    validity_at_ = cuda::column_bytes(key_bytes_, chunk_rows);
    chunk_bytes_ = validity_at_ + (nullable_ ? cuda::column_bytes(1, cuda::validity_bytes(chunk_rows)) : 0);
    for (const ChunkColumn& column : side.columns) {
        Column made;
        made.from = column;
        made.at = chunk_bytes_;
        if (column.column == kRowNumberColumn) {
            made.width = column.row_number_bytes;
        } else if (column.column == kKeyWordColumn) {
            SPILLWAY_CHECK(columns_.size() == more_words_++);
            made.width = sizeof(uint64_t);
        } else {
            const TypePtr& type = source.columns()[static_cast<size_t>(column.column)];
            made.view = view_of(column.column);
            if (column.distinct) made.distinct.emplace(tuples_with(*column.distinct, type, made.view));
            if (is_text_extreme(column.part)) {
                SPILLWAY_CHECK(texts_.extremes != nullptr);
                if (!groups_) groups_.emplace(tuple_parts());
            }
            made.width = chunk_width(column, *type);
        }
        SPILLWAY_CHECK(made.width > 0);
        columns_.push_back(std::move(made));
        chunk_bytes_ += cuda::column_bytes(made.width, chunk_rows);
    }
    const bool packed = keys.mode == OutOfCoreKeys::kPacked;
    // The other side may have a word more, of flags: that of this side is 0.
    key_words_ = packed && !side.keys.empty() ? packed_key_words(side.keys) : 1;
    const uint32_t words = packed && !side.keys.empty() ? packed_key_words(side.keys, null_byte_) : 1;
    SPILLWAY_CHECK(words <= 1 + more_words_ && (more_words_ == 0 || key_bytes_ == sizeof(uint64_t)));
    SPILLWAY_CHECK(more_words_ < kKeyWordsMax);
    SPILLWAY_CHECK(more_words_ > 0 || null_byte_ < static_cast<int32_t>(key_bytes_));
}

ChunkColumns ChunkColumns::of(const Source& source) const {
    ChunkColumns made(source, side_, as_, chunk_rows_, texts_);
    SPILLWAY_CHECK(made.chunk_bytes_ == chunk_bytes_ && made.read_ == read_);
    return made;
}

void ChunkColumns::add_keys(const Source& source, const std::vector<KeySpec>& keys, const ChunkKeys& as) {
    const bool packed = as.mode == OutOfCoreKeys::kPacked;
    const std::vector<KeyPlace> places = packed_key_places(keys);
    for (const KeySpec& key : keys) {
        const TypePtr& type = source.columns()[static_cast<size_t>(key.column)];
        Key made;
        made.part.spec = key;
        made.part.type = type;
        made.view = view_of(key.column);
        made.place = places[keys_.size()];
        keys_.push_back(std::move(made));
        const bool may_be_unknown = packed && texts_.known_only && is_text_key(key) && key.width == 0;
        nullable_ = nullable_ || may_be_unknown || (type->nullable && null_byte_ < 0);
        plain_ = packed && null_byte_ < 0 && keys.size() == 1 && is_word(key, *type, key_bytes_);
    }
    if (packed) {
        SPILLWAY_CHECK(as.null_keys != NullKeys::kEqual);
        return;
    }
    SPILLWAY_CHECK(!keys_.empty() && null_byte_ < 0);
    if (as.mode == OutOfCoreKeys::kNumbered) {
        SPILLWAY_CHECK(key_bytes_ == sizeof(uint32_t) && texts_.codes != nullptr);
        tuples_.emplace(tuple_parts(), texts_.known_only);
        if (as.null_keys == NullKeys::kEqual) nullable_ = false;
        return;
    }
    SPILLWAY_CHECK(key_bytes_ == sizeof(uint64_t) && as.null_keys != NullKeys::kDrop);
    encoded_ = RowLayout::make(source.columns(), keys, {}, as.null_keys);
    SPILLWAY_CHECK(as.mode == OutOfCoreKeys::kHashed || encoded_->mode == KeyMode::kWord);
    if (as.null_keys == NullKeys::kEqual) nullable_ = false;
}

ChunkWriter ChunkColumns::writer(MemoryBudget& budget) const {
    ChunkWriter made;
    if (encoded_) made.encoder = std::make_unique<RowEncoder>(*encoded_, read_, budget);
    if (texts_.codes != nullptr) made.texts = std::make_unique<TextNumbers>(*texts_.codes, budget);
    return made;
}

std::vector<KeyTuples::Key> ChunkColumns::tuple_parts() const {
    std::vector<KeyTuples::Key> parts;
    for (const Key& key : keys_) parts.push_back({key.part, key.view});
    return parts;
}

// The keys of a row and a value of it.
KeyTuples ChunkColumns::tuples_with(const KeySpec& spec, const TypePtr& type, size_t view) const {
    SPILLWAY_CHECK(texts_.codes != nullptr && texts_.seen != nullptr);
    std::vector<KeyTuples::Key> parts = tuple_parts();
    KeyTuples::Key value;
    value.part.spec = spec;
    value.part.type = type;
    value.view = view;
    parts.push_back(std::move(value));
    return KeyTuples(std::move(parts));
}

size_t ChunkColumns::view_of(int32_t column) {
    const auto found = std::find(read_.begin(), read_.end(), column);
    if (found != read_.end()) return static_cast<size_t>(found - read_.begin());
    read_.push_back(column);
    return read_.size() - 1;
}

std::vector<const void*> ChunkColumns::columns(const uint8_t* chunk) const {
    std::vector<const void*> made;
    for (const Column& column : columns_) made.push_back(chunk + column.at);
    return made;
}

ChunkRows ChunkColumns::rows(uint8_t* chunk, uint64_t at) const {
    ChunkRows made{chunk + at * key_bytes_, chunk + validity_at_, at, {}};
    for (const Column& column : columns_) made.columns.push_back(chunk + column.at + at * column.width);
    return made;
}

const uint8_t* ChunkColumns::plain_values(size_t column, const std::vector<ColumnView>& views) const {
    if (column == 0) return plain_ && more_words_ == 0 ? views[keys_[0].view].data : nullptr;
    const Column& of = columns_[column - 1];
    const ChunkColumn& from = of.from;
    if (from.column < 0 || from.validity || from.part != ChunkPart::kWhole || from.distinct) return nullptr;
    const ColumnView& view = views[of.view];
    const bool fixed = view.type->layout == Layout::kFixed || view.type->layout == Layout::kDictionary;
    return fixed && (from.fill == ChunkFill::kNone || view.validity == nullptr) ? view.data : nullptr;
}

void ChunkColumns::clear_key_validity(uint8_t* chunk, uint64_t at, uint64_t rows) const {
    if (nullable_) std::memset(chunk + validity_at_ + at / 8, 0, cuda::validity_bytes(rows));
}

bool ChunkColumns::all_have_keys(const uint8_t* chunk, uint64_t at, uint64_t rows) const {
    return !nullable_ || all_bits_set(chunk + validity_at_, static_cast<int64_t>(at), static_cast<int64_t>(rows));
}

void ChunkColumns::write(const std::vector<ColumnView>& views, uint64_t rows, uint64_t first_row, ChunkWriter& writer,
                         const ChunkRows& to) const {
    if (nullable_) write_key_validity(views, rows, to.validity, to.at);
    if (to.key == nullptr) {
        SPILLWAY_CHECK(plain_values(0, views) != nullptr);
    } else if (tuples_) {
        number_keys(views, rows, writer, to.key);
    } else if (writer.encoder != nullptr) {
        encode_keys(views, rows, *writer.encoder, to.key);
    } else {
        write_keys(views, rows, writer, to);
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
        if (columns_[i].from.column == kKeyWordColumn || to.columns[i] == nullptr) continue;  // it came with the keys
        write_column(columns_[i], views, rows, first_row, writer, to.columns[i]);
    }
}

void ChunkColumns::write_column(const Column& column, const std::vector<ColumnView>& views, uint64_t rows,
                                uint64_t first_row, ChunkWriter& writer, uint8_t* out) const {
    if (column.from.column == kRowNumberColumn) {
        write_row_numbers(first_row, rows, column.width, out);
        return;
    }
    if (column.distinct) return write_distinct(column, views, rows, writer, out);
    if (is_text_extreme(column.from.part)) return write_extremes(column, views, rows, writer, out);
    const ColumnView& view = views[column.view];
    if (!column.from.validity && is_text(*view.type)) {
        write_texts(view, 0, rows, writer, out);
    } else if (!column.from.validity) {
        write_chunk_values(view, column.from, rows, out);
    } else if (view.validity == nullptr) {
        std::memset(out, 1, rows);
    } else {
        bits_to_bytes(view.validity, view.validity_bit, rows, out);
    }
}

void ChunkColumns::write_texts(const ColumnView& view, uint64_t first, uint64_t rows, ChunkWriter& writer,
                               uint8_t* out) const {
    SPILLWAY_CHECK(writer.texts != nullptr);
    std::memset(out, 0, rows * sizeof(uint32_t));
    writer.texts->number(view, static_cast<int64_t>(first), static_cast<int64_t>(rows), false,
                         [out](int64_t row, uint32_t number) {
                             std::memcpy(out + static_cast<uint64_t>(row) * sizeof number, &number, sizeof number);
                         });
}

void ChunkColumns::number_keys(const std::vector<ColumnView>& views, uint64_t rows, ChunkWriter& writer,
                               uint8_t* out) const {
    const uint64_t bytes = tuples_->bytes();
    std::vector<uint8_t> tuples(kTupleRows * bytes);
    uint32_t numbers[kTupleRows];
    for (uint64_t done = 0; done < rows; done += kTupleRows) {
        const uint64_t count = std::min(kTupleRows, rows - done);
        tuples_->write(views, static_cast<int64_t>(done), static_cast<int64_t>(count), writer.texts.get(),
                       tuples.data());
        if (texts_.known_only) {
            texts_.codes->find_all(tuples.data(), bytes, count, numbers);
        } else {
            texts_.codes->add_all(tuples.data(), bytes, count, numbers);
        }
        std::memcpy(out + done * sizeof(uint32_t), numbers, count * sizeof(uint32_t));
    }
}

// Behind the tuple is the number of the column: what was seen of one says nothing of another.
void ChunkColumns::write_distinct(const Column& column, const std::vector<ColumnView>& views, uint64_t rows,
                                  ChunkWriter& writer, uint8_t* out) const {
    const uint64_t bytes = column.distinct->bytes();
    const auto number = static_cast<uint32_t>(&column - columns_.data());
    const ColumnView& values = views[column.view];
    std::vector<uint8_t> tuples(kTupleRows * bytes);
    const uint64_t seen_bytes = bytes + sizeof number;
    std::vector<uint8_t> seen(kTupleRows * seen_bytes);
    uint32_t codes[kTupleRows];
    uint8_t is_new[kTupleRows];
    for (uint64_t done = 0; done < rows; done += kTupleRows) {
        const uint64_t count = std::min(kTupleRows, rows - done);
        column.distinct->write(views, static_cast<int64_t>(done), static_cast<int64_t>(count), writer.texts.get(),
                               tuples.data());
        uint64_t valid = 0;
        for (uint64_t i = 0; i < count; ++i) {
            if (!values.is_valid(static_cast<int64_t>(done + i))) continue;
            uint8_t* const to = seen.data() + valid++ * seen_bytes;
            std::memcpy(to, tuples.data() + i * bytes, bytes);
            std::memcpy(to + bytes, &number, sizeof number);
        }
        texts_.seen->add_all(seen.data(), seen_bytes, valid, codes, is_new);
        const uint8_t* next = is_new;
        for (uint64_t i = 0; i < count; ++i) {
            out[done + i] = values.is_valid(static_cast<int64_t>(done + i)) ? *next++ : 0;
        }
    }
}

// The number of the column tells groups of one from those of another, as it does above.
void ChunkColumns::write_extremes(const Column& column, const std::vector<ColumnView>& views, uint64_t rows,
                                  ChunkWriter& writer, uint8_t* out) const {
    const bool is_least = column.from.part == ChunkPart::kLeastText;
    const uint64_t bytes = groups_->bytes();
    const auto number = static_cast<uint32_t>(&column - columns_.data());
    const ColumnView& values = views[column.view];
    std::vector<uint8_t> tuples(kTupleRows * bytes);
    std::vector<uint8_t> group(bytes + sizeof number);
    std::memcpy(group.data() + bytes, &number, sizeof number);
    uint32_t codes[kTupleRows];
    for (uint64_t done = 0; done < rows; done += kTupleRows) {
        const uint64_t count = std::min(kTupleRows, rows - done);
        groups_->write(views, static_cast<int64_t>(done), static_cast<int64_t>(count), writer.texts.get(),
                       tuples.data());
        write_texts(values, done, count, writer, reinterpret_cast<uint8_t*>(codes));
        for (uint64_t i = 0; i < count; ++i, out += sizeof(uint64_t)) {
            uint64_t word = 0;
            if (values.is_valid(static_cast<int64_t>(done + i))) {
                if (bytes > 0) std::memcpy(group.data(), tuples.data() + i * bytes, bytes);
                word = texts_.extremes->offer({group.data(), group.size()}, codes[i], is_least);
            }
            std::memcpy(out, &word, sizeof word);
        }
    }
}

void ChunkColumns::encode_keys(const std::vector<ColumnView>& views, uint64_t rows, RowEncoder& encoder,
                               uint8_t* out) const {
    const auto count = static_cast<int64_t>(rows);
    for (int64_t done = 0; done < count; done += encoder.rows_max()) {
        const EncodedRows& encoded = encoder.encode(views, done, std::min(encoder.rows_max(), count - done), 0);
        for (int64_t i = 0; i < encoded.rows; ++i, out += sizeof(uint64_t)) {
            const uint64_t word = encoded.hash(i);
            std::memcpy(out, &word, sizeof word);
        }
    }
}

void ChunkColumns::write_keys(const std::vector<ColumnView>& views, uint64_t rows, ChunkWriter& writer,
                              const ChunkRows& to) const {
    if (plain_ && more_words_ == 0) {
        std::memcpy(to.key, views[keys_[0].view].data, rows * key_bytes_);
        return;
    }
    uint8_t* const bits = texts_.known_only && nullable_ ? to.validity : nullptr;
    uint64_t words[kKeyWordsMax * kKeyRows];
    for (uint64_t done = 0; done < rows; done += kKeyRows) {
        const int64_t count = std::min<int64_t>(kKeyRows, static_cast<int64_t>(rows - done));
        const RowSelection selection{static_cast<int64_t>(done), nullptr, count};
        if (keys_.empty()) std::fill_n(words, count, uint64_t{0});
        for (uint32_t w = key_words_; w <= more_words_; ++w) std::fill_n(words + w * kKeyRows, count, uint64_t{0});
        for (size_t k = 0; k < keys_.size(); ++k) {
            add_key(k, views[keys_[k].view], selection, writer, words, bits, to.at + done);
        }
        if (null_byte_ >= 0) add_flags(views, selection, words);
        store_words(words, count, to, done);
    }
}

// After all keys, the first of which in a word overwrites what was there.
void ChunkColumns::add_flags(const std::vector<ColumnView>& views, const RowSelection& selection,
                             uint64_t* words) const {
    const auto at_byte = static_cast<uint32_t>(null_byte_);
    uint64_t* const to = words + at_byte / sizeof(uint64_t) * kKeyRows;
    for (size_t k = 0; k < keys_.size(); ++k) {
        const ColumnView& view = views[keys_[k].view];
        if (view.validity == nullptr) continue;
        const uint64_t flag = uint64_t{1} << (8 * (at_byte % sizeof(uint64_t)) + k);
        for (int64_t i = 0; i < selection.count; ++i) {
            if (!view.is_valid(selection.begin + i)) to[i] |= flag;
        }
    }
}

void ChunkColumns::add_key(size_t key, const ColumnView& view, const RowSelection& selection, ChunkWriter& writer,
                           uint64_t* words, uint8_t* bits, uint64_t at) const {
    const auto& [part, number, place] = keys_[key];
    const int64_t count = selection.count;
    uint64_t* const to = words + place.word * kKeyRows;
    const bool begins = place.shift == 0;  // what was in the word before is of other rows
    if (is_text_key(part.spec) && part.spec.width > 0) {
        SPILLWAY_CHECK(begins && writer.texts != nullptr);
        const ShortTextKeys into{to, kKeyRows, static_cast<uint32_t>(part.spec.width)};
        writer.texts->write_short(view, selection.begin, count, texts_.known_only, into);
        return;
    }
    if (is_text_key(part.spec)) {
        return add_text_key(key, view, selection, writer, words, bits, at);
    }
    if (part.spec.width <= static_cast<int32_t>(sizeof(uint64_t))) {
        if (begins) return normalize_words(part, view, selection, to);
        uint64_t values[kKeyRows];
        normalize_words(part, view, selection, values);
        for (int64_t i = 0; i < count; ++i) to[i] |= values[i] << place.shift;
        return;
    }
    // It has words of its own.
    const auto bytes = static_cast<size_t>(part.spec.width);
    const size_t own_words = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    for (size_t w = 0; w < own_words; ++w) std::fill_n(to + w * kKeyRows, count, uint64_t{0});
    for (int64_t i = 0; i < count; ++i) {
        if (!view.is_valid(selection[i])) continue;
        const uint8_t* const value = fixed_key(part, view, selection[i]);
        for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
            const size_t word = done / sizeof(uint64_t);
            std::memcpy(to + word * kKeyRows + i, value + done, std::min(sizeof(uint64_t), bytes - done));
        }
    }
}

// This is what add_key() does with text.
void ChunkColumns::add_text_key(size_t key, const ColumnView& view, const RowSelection& selection, ChunkWriter& writer,
                                uint64_t* words, uint8_t* bits, uint64_t at) const {
    SPILLWAY_CHECK(writer.texts != nullptr);
    const KeyPlace place = keys_[key].place;
    uint64_t* const to = words + place.word * kKeyRows;
    if (place.shift == 0) std::fill_n(to, selection.count, uint64_t{0});
    writer.texts->number(view, selection.begin, selection.count, texts_.known_only, [&](int64_t row, uint32_t number) {
        if (bits != nullptr && number == TextCodes::kNone) clear_bit(bits, static_cast<int64_t>(at) + row);
        to[row] |= uint64_t{number} << place.shift;
    });
}

void ChunkColumns::store_words(uint64_t* words, int64_t rows, const ChunkRows& to, uint64_t at) const {
    const auto count = static_cast<size_t>(rows);
    for (uint32_t w = 1; w <= more_words_; ++w) {
        const uint64_t* const word = words + w * kKeyRows;
        std::memcpy(to.columns[w - 1] + at * sizeof(uint64_t), word, count * sizeof(uint64_t));
    }
    for (size_t i = 0; more_words_ > 0 && i < count; ++i) {
        uint64_t mixed = 0;
        for (uint32_t w = more_words_; w > 0; --w) mixed = mix64(words[w * kKeyRows + i] ^ mixed);
        words[i] ^= mixed;
    }
    uint8_t* const keys = to.key + at * key_bytes_;
    if (key_bytes_ == sizeof(uint64_t)) {
        std::memcpy(keys, words, count * sizeof(uint64_t));
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        const auto narrow = static_cast<uint32_t>(words[i]);
        std::memcpy(keys + i * sizeof narrow, &narrow, sizeof narrow);
    }
}

void ChunkColumns::write_key_validity(const std::vector<ColumnView>& views, uint64_t rows, uint8_t* bits,
                                      uint64_t at) const {
    const auto count = static_cast<int64_t>(rows);
    const auto first = static_cast<int64_t>(at);
    bool written = false;
    for (const Key& key : keys_) {
        const ColumnView& view = views[key.view];
        if (view.validity == nullptr) continue;
        if (!written) {
            copy_bits(view.validity, view.validity_bit, count, bits, first);
        } else {
            for (int64_t i = 0; i < count; ++i) {
                if (!view.is_valid(i)) clear_bit(bits, first + i);
            }
        }
        written = true;
    }
    if (!written) fill_bits(bits, first, count, true);
}

}  // namespace spillway
