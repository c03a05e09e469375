// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace spillway {

// kFileCorrupt: the metadata of a file that is no sound Arrow IPC file.
[[nodiscard]] Error damaged_file(const std::string& path, const std::string& reason);
// kFileTruncated: it ends before what it says it holds.
[[nodiscard]] Error truncated_file(const std::string& path, const std::string& reason);

// A table of a flatbuffer whose head was checked, and a vector all of whose elements lie inside. Positions are bytes
// from the begin of the flatbuffer.
struct FlatTable {
    int64_t position = 0;
    int64_t bytes = 0;
    int64_t vtable = 0;
    int64_t vtable_bytes = 0;
};
struct FlatVector {
    int64_t first = 0;  // position of the first element
    int64_t count = 0;
};

// Reads a flatbuffer that may hold anything: every access is checked against its bytes, and throws kFileCorrupt that
// names the file where one lies outside. Bytes: size(), at(position, bytes) for a place inside of them, and path().
template <class Bytes>
class Flatbuffer {
  public:
    explicit Flatbuffer(Bytes bytes) : bytes_(std::move(bytes)) {}

    FlatTable root() const { return table(target(0)); }

    FlatTable table(int64_t position) const {
        FlatTable table;
        table.position = position;
        table.vtable = position - int64_t{load<int32_t>(position)};
        table.vtable_bytes = load<uint16_t>(table.vtable);
        table.bytes = load<uint16_t>(table.vtable + 2);
        require(table.vtable, table.vtable_bytes);
        require(position, table.bytes);
        return table;
    }

    // Position of a field of `field_bytes`; 0 when it was left out.
    int64_t field(const FlatTable& table, int index, int64_t field_bytes) const {
        const int64_t slot = 4 + int64_t{2} * index;
        if (slot + 2 > table.vtable_bytes) return 0;
        const int64_t offset = load<uint16_t>(table.vtable + slot);
        if (offset == 0) return 0;
        if (offset + field_bytes > table.bytes) fail("a field lies outside of its table");
        return table.position + offset;
    }

    // The table that a field refers to. Throws when it was left out; what: for the error, "a message has no header".
    FlatTable child(const FlatTable& of, int index, const char* what) const {
        const int64_t position = field(of, index, 4);
        if (position == 0) fail(what);
        return table(target(position));
    }

    // A vector of elements of element_bytes (at most 2^30); an empty one when it was left out.
    FlatVector vector(const FlatTable& of, int index, int64_t element_bytes) const {
        const int64_t position = field(of, index, 4);
        if (position == 0) return {};
        const int64_t start = target(position);
        const int64_t count = load<uint32_t>(start);
        require(start + 4, count * element_bytes);  // both below 2^32: no overflow
        return {start + 4, count};
    }

    // Is a string this one? None is copied, however long it is.
    bool has_text(const FlatTable& of, int index, std::string_view text) const {
        const FlatVector letters = vector(of, index, 1);
        const auto wanted = static_cast<int64_t>(text.size());
        return letters.count == wanted && std::memcmp(bytes_.at(letters.first, wanted), text.data(), text.size()) == 0;
    }

    // A number of a table, `fallback` when it was left out.
    template <class T>
    T number(const FlatTable& of, int index, T fallback) const {
        const int64_t position = field(of, index, sizeof(T));
        return position == 0 ? fallback : load<T>(position);
    }

    template <class T>
    T load(int64_t position) const {
        require(position, sizeof(T));
        T value;
        std::memcpy(&value, bytes_.at(position, sizeof value), sizeof value);
        return value;
    }

    [[noreturn]] void fail(const std::string& reason) const { throw damaged_file(bytes_.path(), reason); }
    // What is sound and not read: "'path' " and this.
    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(ErrorCode::kUnsupportedType, "'" + bytes_.path() + "' " + what, {{"path", bytes_.path()}});
    }
    const std::string& path() const { return bytes_.path(); }

  private:
    void require(int64_t position, int64_t bytes) const {
        if (position < 0 || bytes > bytes_.size() || position > bytes_.size() - bytes) {
            fail("an offset points outside of the metadata");
        }
    }
    int64_t target(int64_t position) const { return position + int64_t{load<uint32_t>(position)}; }

    Bytes bytes_;
};

// Bytes of a flatbuffer in memory. path: of its file, for errors; must outlive this.
class MetadataBytes {
  public:
    MetadataBytes(const uint8_t* data, int64_t size, const std::string& path)
        : data_(data), size_(size), path_(&path) {}
    int64_t size() const { return size_; }
    const uint8_t* at(int64_t position, int64_t) const { return data_ + position; }
    const std::string& path() const { return *path_; }

  private:
    const uint8_t* data_;
    int64_t size_;
    const std::string* path_;
};

using MessageView = Flatbuffer<MetadataBytes>;

}  // namespace spillway
