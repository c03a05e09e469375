// SPDX-License-Identifier: Apache-2.0
#include "addon/decode/fields.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace spillway::addon {

namespace {

constexpr size_t kUsualFields = 16;

std::string number_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    char text[32];
    std::snprintf(text, sizeof text, "%.15g", number);
    return text;
}

// What was there, in the words of the JS side; long strings are cut.
std::string describe(const Napi::Value& value) {
    switch (value.Type()) {
        case napi_undefined:
            return "nothing";
        case napi_null:
            return "null";
        case napi_boolean:
            return value.As<Napi::Boolean>().Value() ? "true" : "false";
        case napi_number:
            return number_text(value.As<Napi::Number>().DoubleValue());
        case napi_string: {
            const std::string text = value.As<Napi::String>().Utf8Value();
            return text.size() > 60 ? "'" + text.substr(0, 60) + "...'" : "'" + text + "'";
        }
        case napi_bigint:
            return "a bigint";
        case napi_function:
            return "a function";
        case napi_symbol:
            return "a symbol";
        case napi_external:
            return "a handle";
        default:
            break;
    }
    if (value.IsArray()) return "an array";
    if (value.IsTypedArray()) return "a typed array";
    return "an object";
}

bool is_safe_integer(double number) {
    return number == std::trunc(number) && std::abs(number) <= static_cast<double>(kSafeInteger);
}

}  // namespace

std::string Path::text() const {
    if (!parent_) return root_;
    return parent_->text() + (name_ != nullptr ? std::string(".") + name_ : "[" + std::to_string(index_) + "]");
}

Error field_error(const std::string& path, const std::string& wanted, const Napi::Value& got) {
    return Error(ErrorCode::kInvalidArgument, "'" + path + "' must be " + wanted + ", got " + describe(got),
                 {{"field", path}});
}

bool Field::boolean() const {
    if (!value_.IsBoolean()) throw error("true or false");
    return value_.As<Napi::Boolean>().Value();
}

std::string Field::string() const {
    if (!value_.IsString()) throw error("a string");
    return value_.As<Napi::String>().Utf8Value();
}

int64_t Field::integer(int64_t min, int64_t max) const {
    const double number = value_.IsNumber() ? value_.As<Napi::Number>().DoubleValue() : std::nan("");
    if (!is_safe_integer(number) || number < static_cast<double>(min) || number > static_cast<double>(max)) {
        throw error("an integer from " + std::to_string(min) + " to " + std::to_string(max));
    }
    return static_cast<int64_t>(number);
}

size_t Field::place_among(const char* const* names, size_t count) const {
    if (value_.IsString()) {
        const std::string text = value_.As<Napi::String>().Utf8Value();
        for (size_t i = 0; i < count; ++i) {
            if (text == names[i]) return i;
        }
    }
    std::string wanted;
    for (size_t i = 0; i < count; ++i) wanted += (i == 0 ? "one of '" : ", '") + std::string(names[i]) + "'";
    throw error(wanted);
}

double Field::number(double min, double max) const {
    const double number = value_.IsNumber() ? value_.As<Napi::Number>().DoubleValue() : std::nan("");
    if (!std::isfinite(number) || number < min || number > max) {
        throw error("a number from " + number_text(min) + " to " + number_text(max));
    }
    return number;
}

int64_t Field::signed_bigint() const {
    bool lossless = false;
    const int64_t number = value_.IsBigInt() ? value_.As<Napi::BigInt>().Int64Value(&lossless) : 0;
    if (!lossless) throw error("a bigint from -(2n ** 63n) to 2n ** 63n - 1n");
    return number;
}

uint64_t Field::bigint() const {
    bool lossless = false;
    const uint64_t number = value_.IsBigInt() ? value_.As<Napi::BigInt>().Uint64Value(&lossless) : 0;
    if (!lossless) throw error("a bigint from 0n to 2n ** 64n - 1n");
    return number;
}

std::vector<Field> Field::array() const {
    if (!value_.IsArray()) throw error("an array");
    const auto array = value_.As<Napi::Array>();
    std::vector<Field> fields;
    const uint32_t length = array.Length();
    if (length == 0) return fields;
    fields.reserve(length);
    const auto path = std::make_shared<const Path>(path_);
    for (uint32_t i = 0; i < length; ++i) fields.emplace_back(array.Get(i), Path(path, i));
    return fields;
}

std::vector<int32_t> Field::int32_array(int32_t min, int32_t max) const {
    if (!value_.IsTypedArray() || value_.As<Napi::TypedArray>().TypedArrayType() != napi_int32_array) {
        throw error("an Int32Array");
    }
    const auto array = value_.As<Napi::Int32Array>();
    std::vector<int32_t> numbers(array.Data(), array.Data() + array.ElementLength());
    for (size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] >= min && numbers[i] <= max) continue;
        throw field_error(path() + "[" + std::to_string(i) + "]",
                          "an integer from " + std::to_string(min) + " to " + std::to_string(max), array.Get(i));
    }
    return numbers;
}

std::vector<int64_t> Field::counts(size_t stride) const {
    if (!value_.IsTypedArray() || value_.As<Napi::TypedArray>().TypedArrayType() != napi_float64_array) {
        throw error("a Float64Array");
    }
    const auto array = value_.As<Napi::Float64Array>();
    const size_t length = array.ElementLength();
    if (length % stride != 0) throw error("a Float64Array whose length is a multiple of " + std::to_string(stride));
    const double* data = array.Data();
    std::vector<int64_t> numbers(length);
    for (size_t i = 0; i < length; ++i) {
        if (!is_safe_integer(data[i]) || data[i] < 0) {
            throw field_error(path() + "[" + std::to_string(i) + "]", "an integer from 0 to 2^53 - 1", array.Get(i));
        }
        numbers[i] = static_cast<int64_t>(data[i]);
    }
    return numbers;
}

std::vector<uint8_t> Field::bytes() const {
    if (!value_.IsTypedArray() || value_.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
        throw error("a Uint8Array");
    }
    const auto array = value_.As<Napi::Uint8Array>();
    return std::vector<uint8_t>(array.Data(), array.Data() + array.ElementLength());
}

Fields::Fields(const Field& field) : path_(std::make_shared<const Path>(field.path_)) {
    const Napi::Value& value = field.value();
    if (!value.IsObject() || value.IsArray() || value.IsTypedArray() || value.IsFunction()) {
        throw field.error("an object");
    }
    object_ = value.As<Napi::Object>();
    known_.reserve(kUsualFields);
}

Field Fields::operator[](const char* name) {
    known_.push_back(name);
    const Napi::Value value = object_.Get(name);
    Path at(path_, name);
    if (value.IsUndefined()) {
        const std::string path = at.text();
        throw Error(ErrorCode::kInvalidArgument, "the field '" + path + "' is missing", {{"field", path}});
    }
    ++found_;
    return Field(value, std::move(at));
}

bool Fields::has(const char* name) {
    known_.push_back(name);
    return !object_.Get(name).IsUndefined();
}

void Fields::finish() const {
    const Napi::Array names = object_.GetPropertyNames();
    // As many as were asked for and found: none of them is unknown. Comparing names takes as long as all else together.
    if (names.Length() == found_) return;
    for (uint32_t i = 0; i < names.Length(); ++i) {
        const std::string name = names.Get(i).ToString().Utf8Value();
        const bool known = std::any_of(known_.begin(), known_.end(), [&](const char* other) { return name == other; });
        if (known || object_.Get(name).IsUndefined()) continue;
        const std::string path = path_->text() + "." + name;
        throw Error(ErrorCode::kInvalidArgument, "unknown field '" + path + "'", {{"field", path}});
    }
}

}  // namespace spillway::addon
