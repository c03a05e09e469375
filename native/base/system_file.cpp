// SPDX-License-Identifier: Apache-2.0
#include "base/system_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <memory>

namespace spillway {

std::optional<std::string> read_text(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return std::nullopt;
    std::string text;
    char piece[4096];
    ssize_t bytes = 0;
    while ((bytes = ::read(descriptor, piece, sizeof piece)) > 0) text.append(piece, static_cast<size_t>(bytes));
    ::close(descriptor);
    if (bytes < 0) return std::nullopt;
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
    return text;
}

std::optional<uint64_t> parse_number(const std::string& text) {
    size_t i = 0;
    while (i < text.size() && text[i] == ' ') ++i;
    if (i == text.size() || !std::isdigit(static_cast<unsigned char>(text[i]))) return std::nullopt;
    uint64_t number = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i) {
        number = number * 10 + static_cast<uint64_t>(text[i] - '0');
    }
    return number;
}

std::optional<uint64_t> read_number(const std::string& path) {
    const auto text = read_text(path);
    return text ? parse_number(*text) : std::nullopt;
}

std::vector<std::string> split_lines(const std::string& text) {
    std::vector<std::string> lines;
    size_t begin = 0;
    while (begin < text.size()) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

std::optional<std::string> value_of(const std::string& text, const std::string& name) {
    for (const auto& line : split_lines(text)) {
        const size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        std::string key = line.substr(0, colon);
        while (!key.empty() && std::isspace(static_cast<unsigned char>(key.back()))) key.pop_back();
        if (key != name) continue;
        const size_t begin = line.find_first_not_of(" \t", colon + 1);
        return begin == std::string::npos ? std::string() : line.substr(begin);
    }
    return std::nullopt;
}

std::vector<int> parse_cpu_list(const std::string& text) {
    constexpr int kCpuMax = 1 << 20;  // a broken file must not fill memory
    std::vector<int> cpus;
    size_t i = 0;
    while (i < text.size()) {
        const auto first = parse_number(text.substr(i));
        if (!first) break;
        i = text.find_first_not_of("0123456789", i);
        auto last = first;
        if (i != std::string::npos && text[i] == '-') {
            last = parse_number(text.substr(i + 1));
            i = text.find_first_not_of("0123456789", i + 1);
        }
        if (!last || *last >= kCpuMax) break;
        for (uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
        if (i == std::string::npos || text[i] != ',') break;
        ++i;
    }
    return cpus;
}

std::vector<std::string> folder_names(const std::string& path) {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (!folder) return names;
    while (const dirent* entry = ::readdir(folder.get())) names.emplace_back(entry->d_name);
    return names;
}

}  // namespace spillway
