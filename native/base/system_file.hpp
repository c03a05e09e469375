// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

// Small text files of /proc and /sys. Nothing throws: a file that is missing, unreadable or of an unknown form is an
// empty result, because every fact from there has a fallback.

std::optional<std::string> read_text(const std::string& path);  // without trailing white space
std::optional<uint64_t> read_number(const std::string& path);   // first decimal number of the file
std::optional<uint64_t> parse_number(const std::string& text);
std::vector<std::string> split_lines(const std::string& text);
// Value of the line "name:  value" (also tab-separated, as in /proc/cpuinfo).
std::optional<std::string> value_of(const std::string& text, const std::string& name);
// "0-3,8" -> 0 1 2 3 8
std::vector<int> parse_cpu_list(const std::string& text);
// Names in a folder, in no order.
std::vector<std::string> folder_names(const std::string& path);

}  // namespace spillway
