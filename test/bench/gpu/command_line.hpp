// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>

namespace spillway::gpu_bench {

// What each option does with its name and value.
using KnownOptions = std::map<std::string, std::function<void(const std::string& name, const std::string& value)>>;

// Applies the pairs of option and value from arguments[first] on. Throws std::invalid_argument.
inline void apply_options(const KnownOptions& known, int first, int count, char** arguments) {
    for (int i = first; i < count; i += 2) {
        const std::string name = arguments[i];
        const auto option = known.find(name);
        if (option == known.end()) {
            std::string names;
            for (const auto& entry : known) names += (names.empty() ? "" : ", ") + entry.first;
            throw std::invalid_argument("Expected one of " + names + " but received '" + name + "'.");
        }
        if (i + 1 == count) throw std::invalid_argument("Expected a value after " + name + ".");
        option->second(name, arguments[i + 1]);
    }
}

inline void expect(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("Expected ") + what + ".");
}

}  // namespace spillway::gpu_bench
