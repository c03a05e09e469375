// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"

// The few lines of test harness that the native unit tests need: no package to install on a fresh machine.
namespace spillway::test {

// Sanitizers look at each access, ten to twenty times as slowly: a sixth of the rows or trials shows them the same
// code.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr size_t fewer_if_sanitized(size_t count) {
    return kSanitized ? count / 6 : count;
}

struct Case {
    const char* name;
    void (*run)();
};
inline std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}
struct Register {
    Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
inline void fail(const std::string& what, const char* file, int line) {
    throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + what);
}
template <class A, class B>
void expect_eq(const A& a, const B& b, const char* text, const char* file, int line) {
    if (a == b) return;
    std::ostringstream out;
    out << text << ": " << a << " != " << b;
    fail(out.str(), file, line);
}
inline void expect_error(const std::function<void()>& body, ErrorCode code, const char* file, int line) {
    try {
        body();
    } catch (const Error& error) {
        if (error.code() != code) {
            fail(std::string("expected ") + error_code_name(code) + ", got " + error_code_name(error.code()) + ": " +
                     error.message(),
                 file, line);
        }
        return;
    }
    fail(std::string("expected ") + error_code_name(code) + ", nothing was thrown", file, line);
}

inline bool contains(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}
// Empty when the error has none of that name.
inline std::string detail(const Error& error, const std::string& name) {
    for (const auto& [key, value] : error.details()) {
        if (key == name) return value;
    }
    return "";
}

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

}  // namespace spillway::test

#define TEST(name)                                                         \
    static void test_##name();                                             \
    static ::spillway::test::Register register_##name(#name, test_##name); \
    static void test_##name()
#define EXPECT(condition) ((condition) ? void(0) : ::spillway::test::fail("expected " #condition, __FILE__, __LINE__))
#define EXPECT_EQ(a, b) ::spillway::test::expect_eq((a), (b), #a " == " #b, __FILE__, __LINE__)
#define EXPECT_ERROR(code, ...) \
    ::spillway::test::expect_error([&] { __VA_ARGS__; }, ::spillway::ErrorCode::code, __FILE__, __LINE__)
