// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "report.hpp"

// How results are written.
namespace spillway::gpu_bench {

inline std::string number(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}
inline std::string milliseconds(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.4f", value);
    return text;
}

template <class T, class Format>
std::string list(const std::vector<T>& values, Format format) {
    std::string out = "[";
    for (const T& value : values) out += (out.size() > 1 ? ", " : "") + format(value);
    return out + "]";
}

// Fields of an object, in the order of their coming.
class Object {
  public:
    Object& add(const char* name, const std::string& json) {
        text_ += (text_.empty() ? "" : ", ") + gpu_test::json_text(name) + ": " + json;
        return *this;
    }
    Object& add(const char* name, uint64_t value) { return add(name, std::to_string(value)); }
    std::string close() const { return "{" + text_ + "}"; }

  private:
    std::string text_;
};

}  // namespace spillway::gpu_bench
