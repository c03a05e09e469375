// SPDX-License-Identifier: Apache-2.0
// Result rows as chunks of the next operator, value by value, as pipe_spec.hpp describes it.
#include "fake_pipe.hpp"

#include <algorithm>
#include <cmath>

#include "fake_stream.hpp"

namespace fake {

namespace {

// As mix64() of native/base/hash.hpp.
uint64_t mix64(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

template <class T>
T load(const uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

uint64_t bits_of_float(double value, uint32_t width) {
    uint64_t bits = 0;
    if (width == 4) {
        const float narrow = static_cast<float>(value);
        std::memcpy(&bits, &narrow, sizeof narrow);
        return std::isnan(value) ? 0x7fc00000 : value == 0 ? 0 : bits;
    }
    std::memcpy(&bits, &value, sizeof value);
    return std::isnan(value) ? 0x7ff8000000000000 : value == 0 ? 0 : bits;
}

uint64_t widened(const PipeKey& key, const uint8_t* from) {
    const uint32_t width = key.value.width;
    uint64_t bits = 0;
    std::memcpy(&bits, from, width);
    if (key.form == PipeKeyForm::kFloat) {
        return bits_of_float(width == 4 ? static_cast<double>(load<float>(from)) : load<double>(from), key.width);
    }
    const bool negative = (from[width - 1] & 0x80) != 0;
    for (uint32_t byte = width; key.form == PipeKeyForm::kSigned && negative && byte < key.width; ++byte) {
        bits |= uint64_t{0xff} << (8 * byte);
    }
    return bits;
}

}  // namespace

int32_t PipedRows::open(void* context, uint64_t rows, void** columns, PackedBlock**) {
    auto& self = *static_cast<PipedRows*>(context);
    Window window{rows, {}};
    for (const uint32_t width : self.widths_) window.columns.emplace_back(rows * width);
    for (size_t c = 0; c < window.columns.size(); ++c) columns[c] = window.columns[c].data();
    self.open_.push_back(std::move(window));
    return 0;
}

void PipedRows::close(void* context) {
    auto& self = *static_cast<PipedRows*>(context);
    const Window window = std::move(self.open_.front());
    self.open_.pop_front();
    self.rows_ += window.rows;
    for (size_t c = 0; c < window.columns.size(); ++c) {
        self.columns_[c].insert(self.columns_[c].end(), window.columns[c].begin(), window.columns[c].end());
    }
}

const uint8_t* PipedRows::at(int32_t column, uint64_t row) const {
    const auto index = static_cast<size_t>(column);
    return columns_[index].data() + row * widths_[index];
}

const uint8_t* PipedRows::find(const PipeValue& value, int32_t presence, uint64_t row) const {
    for (const PipePart& part : value.parts) {
        if (presence >= 0 && (*at(presence, row) & part.mask) != part.mask) continue;
        if (part.validity >= 0 && *at(part.validity, row) == 0) return nullptr;
        return at(part.column, row) + part.offset;
    }
    return nullptr;
}

void PipedRows::check(const PipeValue& value) const {
    require(value.parts.is_valid() && is_value_width(value.width), "a pipe with an impossible value");
    const auto count = static_cast<int>(widths_.size());
    for (const PipePart& part : value.parts) {
        require(part.column >= 0 && part.column < count && part.validity < count, "a pipe that reads no such column");
        require(part.offset + value.width <= widths_[static_cast<size_t>(part.column)], "a pipe beyond a column");
        require(part.validity < 0 || widths_[static_cast<size_t>(part.validity)] == 1, "validity of whole bytes");
    }
}

void PipedRows::check(const PipeSpec& pipe) const {
    require(pipe.keys.is_valid() && pipe.columns.is_valid(), "a pipe with an impossible list");
    require(pipe.presence < static_cast<int>(widths_.size()), "a pipe that reads no such column");
    require(pipe.presence < 0 || widths_[static_cast<size_t>(pipe.presence)] == 1, "presence of whole bytes");
    const uint32_t bytes = pipe.key_bytes + 8 * pipe.key_columns;
    require(pipe.key_columns < kPipeKeyWordsMax && (pipe.key_columns == 0 || pipe.key_bytes == 8), "words of 8 bytes");
    require(pipe.null_byte < static_cast<int>(bytes), "a key without its byte of NULLs");
    for (const PipeKey& key : pipe.keys) {
        check(key.value);
        require(key.value.width <= key.width && 8U * key.word + key.offset + key.width <= bytes,
                "a key that does not fit");
        require(key.width == 16 || key.offset + key.width <= 8, "a key that crosses a word");
        require(key.form != PipeKeyForm::kFloat || key.value.width >= 4, "a float of 4 or 8 bytes");
    }
    for (size_t c = 0; c < pipe.columns.size(); ++c) {
        const PipeColumn& column = pipe.columns[c];
        require((column.kind == PipeColumnKind::kKeyWord) == (c < pipe.key_columns), "words of the key come first");
        if (c < pipe.key_columns) continue;
        check(column.value);
        const bool half = column.kind == PipeColumnKind::kLow || column.kind == PipeColumnKind::kHigh;
        require(!half || column.value.width == 8, "halves of 8 bytes");
    }
}

bool PipeSource::write_key(uint64_t row, uint64_t (&words)[kPipeKeyWordsMax]) const {
    bool has_key = true;
    for (size_t k = 0; k < pipe_.keys.size(); ++k) {
        const uint8_t* const value = rows_.find(pipe_.keys[k].value, pipe_.presence, row);
        uint64_t* const word = words + pipe_.keys[k].word;
        if (value != nullptr && pipe_.keys[k].width == 16) {
            std::memcpy(word, value, 16);
        } else if (value != nullptr) {
            *word |= widened(pipe_.keys[k], value) << (8 * pipe_.keys[k].offset);
        } else if (pipe_.null_byte >= 0) {
            words[pipe_.null_byte / 8] |= uint64_t{1} << (8 * static_cast<uint32_t>(pipe_.null_byte % 8) + k);
        } else {
            has_key = false;
        }
    }
    uint64_t mixed = 0;
    for (uint32_t w = pipe_.key_columns; w > 0; --w) mixed = mix64(words[w] ^ mixed);
    words[0] ^= mixed;
    return has_key;
}

void PipeSource::write_column(const PipeColumn& column, uint64_t row, uint8_t* to) const {
    const uint8_t* const value = rows_.find(column.value, pipe_.presence, row);
    if (column.kind == PipeColumnKind::kPresence) {
        *to = value != nullptr ? 1 : 0;
    } else if (value != nullptr) {
        std::memcpy(to, value + (column.kind == PipeColumnKind::kHigh ? 4 : 0), column.width());
    } else {
        std::memset(to, 0, column.width());
        std::memcpy(to, &column.fill, std::min<size_t>(column.width(), sizeof column.fill));
    }
}

int32_t PipeSource::next(void* context, Chunk* chunk) {
    auto& self = *static_cast<PipeSource*>(context);
    const uint64_t rows = std::min(self.chunk_rows_, self.rows_.rows() - self.done_);
    if (rows == 0) return 0;
    const PipeSpec& pipe = self.pipe_;
    Memory& memory = self.given_.emplace_back();
    memory.key.resize(rows * pipe.key_bytes);
    memory.key_valid.resize((rows + 31) / 32);
    for (const PipeColumn& column : pipe.columns) memory.columns.emplace_back(rows * column.width());
    for (uint64_t i = 0; i < rows; ++i, ++self.done_) {
        uint64_t words[kPipeKeyWordsMax] = {};
        const bool has_key = self.write_key(self.done_, words);
        if (has_key) memory.key_valid[i / 32] |= 1U << (i % 32);
        std::memcpy(&memory.key[i * pipe.key_bytes], words, pipe.key_bytes);
        for (size_t c = 0; c < pipe.columns.size(); ++c) {
            if (c < pipe.key_columns) {
                std::memcpy(&memory.columns[c][i * sizeof *words], words + c + 1, sizeof *words);
                continue;
            }
            self.write_column(pipe.columns[c], self.done_, &memory.columns[c][i * pipe.columns[c].width()]);
        }
    }
    *chunk = {};
    chunk->rows = rows;
    chunk->key = memory.key.data();
    if (pipe.may_lack_keys()) chunk->key_valid = memory.key_valid.data();
    for (const auto& column : memory.columns) chunk->columns.push_back(column.data());
    return 1;
}

void PipeSource::release(void* context) {
    static_cast<PipeSource*>(context)->given_.pop_front();
}

}  // namespace fake
