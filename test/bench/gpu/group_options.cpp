// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <stdexcept>

#include "command_line.hpp"
#include "group_workload.hpp"
#include "options.hpp"

namespace spillway::gpu_bench {

namespace {

using gpu_test::parse_number;

constexpr uint64_t kRowsMax = 1ULL << 31;
constexpr size_t kPayloadColumnsMax = 256;

std::vector<uint32_t> parse_payload(const std::string& name, const std::string& text) {
    std::vector<uint32_t> widths;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        const uint64_t width = parse_number(name, part);
        if (width == 4 || width == 8) widths.push_back(static_cast<uint32_t>(width));
    }
    if (!widths.empty() && widths.size() <= kPayloadColumnsMax) return widths;
    throw std::invalid_argument("Expected 1 to 256 columns of 4 or 8 bytes for " + name + " but received '" + text +
                                "'.");
}

double parse_exponent(const std::string& text) {
    std::istringstream stream(text);
    double value = -1;
    if (stream >> value && stream.eof() && value >= 0 && value <= 4) return value;
    throw std::invalid_argument("Expected 0 to 4 for --zipf but received '" + text + "'.");
}

double parse_share(const std::string& name, const std::string& text) {
    std::istringstream stream(text);
    double value = -1;
    if (stream >> value && stream.eof() && value >= 0 && value <= 1) return value;
    throw std::invalid_argument("Expected 0 to 1 for " + name + " but received '" + text + "'.");
}

bool parse_is_sum(const std::string& text) {
    if (text == "sum" || text == "max") return text == "sum";
    throw std::invalid_argument("Expected max or sum for --aggregate but received '" + text + "'.");
}

void check(const GroupBenchOptions& options) {
    const GroupWorkload& workload = options.workload;
    expect(workload.key_bytes == 4 || workload.key_bytes == 8, "4 or 8 for --key-bytes");
    expect(workload.rows >= 1 && workload.rows <= kRowsMax, "1 to 2^31 for --rows");
    expect(workload.groups >= 1 && workload.groups <= kRowsMax, "1 to 2^31 for --groups");
    expect(workload.zipf == 0 || workload.hot_share == 0, "--zipf or --hot-share, not both");
    expect(options.samples >= 1, "at least one of --samples");
    for (const std::string& name : options.algorithms) {
        expect(!workload.sum || name.rfind("cub-", 0) != 0, "--aggregate max for baselines");
    }
    expect(!options.algorithms.empty(), "an --algorithm");
}

}  // namespace

GroupBenchOptions parse_group_options(int count, char** arguments) {
    GroupBenchOptions options;
    GroupWorkload& workload = options.workload;
    using Text = const std::string&;
    const KnownOptions known = {
        {"--key-bytes", [&](Text n, Text v) { workload.key_bytes = static_cast<uint32_t>(parse_number(n, v)); }},
        {"--payload", [&](Text n, Text v) { workload.payload = parse_payload(n, v); }},
        {"--rows", [&](Text n, Text v) { workload.rows = parse_number(n, v); }},
        {"--groups", [&](Text n, Text v) { workload.groups = parse_number(n, v); }},
        {"--aggregate", [&](Text, Text v) { workload.sum = parse_is_sum(v); }},
        {"--zipf", [&](Text, Text v) { workload.zipf = parse_exponent(v); }},
        {"--hot-share", [&](Text n, Text v) { workload.hot_share = parse_share(n, v); }},
        {"--expected-groups", [&](Text n, Text v) { workload.expected_groups = parse_number(n, v); }},
        {"--algorithm", [&](Text, Text v) { options.algorithms.push_back(v); }},
        {"--samples", [&](Text n, Text v) { options.samples = parse_number(n, v); }},
        {"--warmup", [&](Text n, Text v) { options.warmup = parse_number(n, v); }},
        {"--memory-limit", [&](Text n, Text v) { options.memory_limit = parse_number(n, v); }},
        {"--seed", [&](Text n, Text v) { options.seed = parse_number(n, v); }},
        {"--device", [&](Text n, Text v) { options.device = static_cast<int>(parse_number(n, v)); }}};
    apply_options(known, 2, count, arguments);
    check(options);
    return options;
}

}  // namespace spillway::gpu_bench
