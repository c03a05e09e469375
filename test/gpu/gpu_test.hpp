// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace spillway::cuda {
inline namespace device {
class Device;
}
inline namespace api {
class Error;
enum class ErrorCode;
}  // namespace api
}  // namespace spillway::cuda

// The harness of the GPU tests. It is a sibling of test/native/support/test.hpp: those tests share nothing but memory,
// these share a device, which one bad kernel makes useless to all that follow (see main.cu).
namespace spillway::gpu_test {

// This is the value of --seed. It is the same for all tests of a run and is printed, so that a failure can be repeated.
uint64_t test_seed();
// --suite says which suite runs. The small one runs under tools that make kernels 50 times slower, so that its tests
// have thousands of rows, not millions.
bool full_suite();
// The suite of watched.hpp, in which small sizes are all there is and one variant of a kernel stands for others.
bool watched_suite();
inline uint64_t small_or_full(uint64_t small, uint64_t full) {
    return full_suite() ? full : small;
}
// The device of --device is opened at the first call and closed after the last test. Its limit leaves a quarter of the
// GPU's memory to what tests allocate themselves.
cuda::Device& test_device();
// Both are for main() alone. A part of the tests gives back what large ones took, for other parts beside it.
void trim_test_device();
void close_test_device();

struct Case {
    const char* name;  // "room: what"
    void (*run)();
};
inline std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}
// Failures of every kind, for main() to run in the place of the tests and for a test to look at what it then says.
std::vector<Case> broken_cases();

struct Register {
    Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// What a test lacks on this machine or in this suite. Such a test has not passed; of one that goes on without it the
// report says what was left out.
struct LeftOut : std::runtime_error {
    using std::runtime_error::runtime_error;
};
void leave_out(const std::string& why);
// Ends the test, which does nothing worth while without it.
[[noreturn]] inline void leave_test_out(const std::string& why) {
    throw LeftOut(why);
}
inline void need_full_suite() {
    if (!full_suite()) leave_test_out("it is one of the full suite");
}
[[noreturn]] inline void fail(const std::string& what, const char* file, int line) {
    const std::string path(file);
    const size_t from = path.rfind("test/gpu/");  // the same text whatever folder the tests were built in
    throw Failure(path.substr(from == std::string::npos ? 0 : from) + ":" + std::to_string(line) + ": " + what);
}

template <class T, class = void>
struct HasText : std::false_type {};
template <class T>
struct HasText<T, std::void_t<decltype(std::declval<std::ostream&>() << std::declval<const T&>())>> : std::true_type {};

template <class T>
std::string text_of(const T& value) {
    std::ostringstream out;
    if constexpr (std::is_same_v<T, bool>) {
        out << (value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T>) {
        out << +static_cast<std::underlying_type_t<T>>(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
        out.precision(17);
        out << +value;  // a uint8_t is a number here
    } else if constexpr (HasText<T>::value) {
        out << value;
    } else {
        out << "(" << sizeof(T) << " bytes)";
    }
    return out.str();
}

// Row counts are 64-bit, literals are int: compared as numbers, without the conversions that make -1 a large one.
template <class A, class B>
bool equal(const A& a, const B& b) {
    if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && std::is_signed_v<A> != std::is_signed_v<B>) {
        if constexpr (std::is_signed_v<A>) return a >= 0 && static_cast<std::make_unsigned_t<A>>(a) == b;
        if constexpr (std::is_signed_v<B>) return b >= 0 && a == static_cast<std::make_unsigned_t<B>>(b);
    } else {
        return a == b;
    }
}
template <class A, class B>
void check_eq(const A& a, const B& b, const char* text, const char* file, int line) {
    if (!equal(a, b)) fail(std::string(text) + ": " + text_of(a) + " != " + text_of(b), file, line);
}

// Which exception carries a code of this type. Both may be incomplete here: who throws them includes them.
template <class Code>
struct ErrorWith;
template <>
struct ErrorWith<cuda::ErrorCode> {
    using type = cuda::Error;
};

template <class Code, class Body>
void check_throws(const Body& body, Code code, const char* text, const char* file, int line) {
    try {
        body();
    } catch (const typename ErrorWith<Code>::type& error) {
        if (error.code() == code) return;
        fail(
            std::string(text) + " threw code " + text_of(error.code()) + ", not " + text_of(code) + ": " + error.what(),
            file, line);
    }
    fail(std::string(text) + " threw nothing", file, line);
}

inline void check_cuda(cudaError_t status, const char* text, const char* file, int line) {
    if (status == cudaSuccess) return;
    // An error that does not stay is read here, so that the test is not accused of leaving it behind as well.
    cudaGetLastError();
    fail(std::string(text) + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")", file, line);
}

}  // namespace spillway::gpu_test

#define SPILLWAY_GPU_TEST_JOIN_(a, b) a##b
#define SPILLWAY_GPU_TEST_JOIN(a, b) SPILLWAY_GPU_TEST_JOIN_(a, b)
#define GPU_TEST(name)                                                                           \
    static void SPILLWAY_GPU_TEST_JOIN(gpu_test_, __LINE__)();                                   \
    static const ::spillway::gpu_test::Register SPILLWAY_GPU_TEST_JOIN(gpu_register_, __LINE__)( \
        name, SPILLWAY_GPU_TEST_JOIN(gpu_test_, __LINE__));                                      \
    static void SPILLWAY_GPU_TEST_JOIN(gpu_test_, __LINE__)()
#define CHECK(condition) \
    ((condition) ? void(0) : ::spillway::gpu_test::fail("expected " #condition, __FILE__, __LINE__))
#define CHECK_EQ(a, b) ::spillway::gpu_test::check_eq((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_THROWS(expression, code) \
    ::spillway::gpu_test::check_throws([&] { (void)(expression); }, code, #expression, __FILE__, __LINE__)
#define CHECK_CUDA(call) ::spillway::gpu_test::check_cuda((call), #call, __FILE__, __LINE__)
