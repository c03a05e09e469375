// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <napi.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace spillway::addon {

constexpr int64_t kSafeInteger = (int64_t{1} << 53) - 1;  // largest integer that a JS number holds exactly
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

// "field 'path' must be WANTED, got GOT"
[[nodiscard]] Error field_error(const std::string& path, const std::string& wanted, const Napi::Value& got);

// How a value was reached. It becomes a text ("spec.keys[0].width") for errors alone: to make that of each field took
// as long as to read all of them.
class Path {
  public:
    explicit Path(std::string root) : root_(std::move(root)) {}
    // name: lives as long as the program.
    Path(std::shared_ptr<const Path> parent, const char* name) : parent_(std::move(parent)), name_(name) {}
    Path(std::shared_ptr<const Path> parent, uint32_t index) : parent_(std::move(parent)), index_(index) {}
    std::string text() const;

  private:
    std::shared_ptr<const Path> parent_;
    std::string root_;
    const char* name_ = nullptr;
    uint32_t index_ = 0;
};

// One value with the path that led to it ("spec.keys[0].width"): every conversion checks type and range and names the
// path when it fails.
class Field {
  public:
    Field(Napi::Value value, std::string path) : Field(value, Path(std::move(path))) {}
    Field(Napi::Value value, Path path) : value_(value), path_(std::move(path)) {}

    const Napi::Value& value() const { return value_; }
    std::string path() const { return path_.text(); }
    bool is_null() const { return value_.IsNull(); }
    [[nodiscard]] Error error(const std::string& wanted) const { return field_error(path(), wanted, value_); }

    bool boolean() const;
    std::string string() const;
    int64_t integer(int64_t min, int64_t max) const;
    int32_t int32(int32_t min, int32_t max) const { return static_cast<int32_t>(integer(min, max)); }
    // Rows or bytes.
    uint64_t count(int64_t min = 0) const { return static_cast<uint64_t>(integer(min, kSafeInteger)); }
    double number(double min, double max) const;  // finite
    uint64_t bigint() const;                      // 0 .. 2^64 - 1
    int64_t signed_bigint() const;
    std::vector<Field> array() const;
    std::vector<int32_t> int32_array(int32_t min, int32_t max) const;  // Int32Array
    // Float64Array of whole numbers in 0 .. 2^53 - 1; length a multiple of `stride`.
    std::vector<int64_t> counts(size_t stride) const;
    std::vector<uint8_t> bytes() const;  // copy of a Uint8Array

    template <class T>
    T one_of(std::initializer_list<std::pair<const char*, T>> choices) const {
        std::vector<const char*> names;
        for (const auto& choice : choices) names.push_back(choice.first);
        return choices.begin()[place_among(names.data(), names.size())].second;
    }
    // The choice whose number is the place of its name.
    template <class T, size_t N>
    T one_of(const char* const (&names)[N]) const {
        return static_cast<T>(place_among(names, N));
    }

  private:
    friend class Fields;
    size_t place_among(const char* const* names, size_t count) const;

    Napi::Value value_;
    Path path_;
};

// The fields of one object. Ask for every field, then finish(), which rejects what was not asked for: a misspelt or
// newer field must not be ignored silently.
class Fields {
  public:
    Fields(const Napi::Value& value, std::string path) : Fields(Field(value, std::move(path))) {}
    explicit Fields(const Field& field);

    Field operator[](const char* name);  // missing or undefined: error
    bool has(const char* name);          // optional field
    void finish() const;

  private:
    Napi::Object object_;
    std::shared_ptr<const Path> path_;
    std::vector<const char*> known_;
    uint32_t found_ = 0;  // by operator[]
};

}  // namespace spillway::addon
