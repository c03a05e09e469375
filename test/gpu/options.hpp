// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "watched.hpp"

namespace spillway::gpu_test {

struct Options {
    std::vector<std::string> filters;  // a test runs when its name contains one of them; none = all
    std::string json;                  // file for the results; empty = none
    uint64_t part = 1;                 // of the tests that are wanted, which are dealt out to `parts` parts
    uint64_t parts = 1;
    uint64_t seed = 1;
    int device = 0;
    bool full = true;
    bool watched = false;  // the suite of watched.hpp, not full
    bool list = false;
    bool broken = false;  // runs the cases of harness_test.cu that are meant to fail, and no others
};

inline const char* suite_name(const Options& options) {
    return options.full ? "full" : options.watched ? "watched" : "small";
}

inline Options& options() {
    static Options all;
    return all;
}

inline uint64_t parse_number(const std::string& name, const std::string& text) {
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    try {
        if (digits) return std::stoull(text);
    } catch (const std::out_of_range&) {
    }
    throw std::invalid_argument("Expected a number for " + name + " but received '" + text + "'.");
}

// "2/3": the second third.
inline void parse_part(const std::string& text, Options& parsed) {
    const size_t slash = text.find('/');
    parsed.part = parse_number("--part", text.substr(0, slash));
    parsed.parts = slash == std::string::npos ? 0 : parse_number("--part", text.substr(slash + 1));
    if (parsed.part < 1 || parsed.part > parsed.parts) {
        throw std::invalid_argument("Expected a part such as 1/2 for --part but received '" + text + "'.");
    }
}

inline void parse_options(int count, char** arguments, Options& parsed) {
    for (int i = 1; i < count; ++i) {
        const std::string name = arguments[i];
        if (name == "--list" || name == "--broken") {
            (name == "--list" ? parsed.list : parsed.broken) = true;
            continue;
        }
        if (name != "--filter" && name != "--json" && name != "--seed" && name != "--device" && name != "--suite" &&
            name != "--part") {
            throw std::invalid_argument(
                "Expected --list, --filter TEXT (more than once if wanted), --json FILE, --seed NUMBER, "
                "--suite small|full|watched, --part I/N or --device NUMBER but received '" +
                name + "'.");
        }
        if (++i == count) throw std::invalid_argument("Expected a value after " + name + ".");
        const std::string value = arguments[i];
        if (name == "--filter") parsed.filters.push_back(value);
        if (name == "--json") parsed.json = value;
        if (name == "--part") parse_part(value, parsed);
        if (name == "--seed") parsed.seed = parse_number(name, value);
        if (name == "--device") parsed.device = static_cast<int>(parse_number(name, value));
        if (name == "--suite") {
            if (value != "small" && value != "full" && value != "watched") {
                throw std::invalid_argument("Expected small, full or watched for --suite but received '" + value +
                                            "'.");
            }
            parsed.full = value == "full";
            parsed.watched = value == "watched";
        }
    }
}

inline bool is_wanted(const Options& options, const char* name) {
    if (options.watched && !is_watched(name)) return false;
    for (const std::string& filter : options.filters) {
        if (std::strstr(name, filter.c_str()) != nullptr) return true;
    }
    return options.filters.empty();
}

}  // namespace spillway::gpu_test
