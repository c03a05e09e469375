// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "command_line.hpp"
#include "options.hpp"

namespace spillway::gpu_bench {

namespace {

// A row is named by a number of 4 bytes.
constexpr uint64_t kRowsMax = 1ULL << 32;
constexpr size_t kPayloadColumnsMax = 64;

using gpu_test::parse_number;

double parse_real(const std::string& name, const std::string& text) {
    size_t used = 0;
    double value = 0;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used > 0 && used == text.size() && std::isfinite(value)) return value;
    throw std::invalid_argument("Expected a number for " + name + " but received '" + text + "'.");
}

std::vector<uint32_t> parse_widths(const std::string& name, const std::string& text) {
    std::vector<uint32_t> widths;
    if (text == "none") return widths;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        const uint64_t width = parse_number(name, part);
        const uint64_t least = widths.empty() ? 4 : 1;
        if (width < least || width > 8 || (width & (width - 1)) != 0) {
            throw std::invalid_argument("Expected columns of 1, 2, 4 or 8 bytes, the first of 4 or 8, for " + name +
                                        " but received '" + text + "'.");
        }
        widths.push_back(static_cast<uint32_t>(width));
    }
    if (!widths.empty() && widths.size() <= kPayloadColumnsMax) return widths;
    throw std::invalid_argument("Expected none or 1 to 64 columns for " + name + " but received '" + text + "'.");
}

struct JoinTypeName {
    const char* name;
    cuda::JoinKind kind;
};

constexpr JoinTypeName kJoinTypes[] = {{"inner", {}},
                                       {"left", {cuda::JoinEmit::kPairs, false, false, true}},
                                       {"right", {cuda::JoinEmit::kPairs, false, true, false}},
                                       {"full", {cuda::JoinEmit::kPairs, false, true, true}},
                                       {"semi", {cuda::JoinEmit::kProbeOnce, false, false, false}},
                                       {"anti", {cuda::JoinEmit::kProbeOnce, true, false, false}},
                                       {"right-semi", {cuda::JoinEmit::kBuildOnce, false, false, false}},
                                       {"right-anti", {cuda::JoinEmit::kBuildOnce, true, false, false}}};

// No query moves columns that are not in its result.
void check_columns(const Workload& workload) {
    const cuda::JoinEmit emit = workload.kind.emit;
    expect(emit != cuda::JoinEmit::kProbeOnce || workload.build_payload.empty(),
           "none for --build-payload, as no build rows are in the result of that --type");
    expect(emit != cuda::JoinEmit::kBuildOnce || workload.probe_payload.empty(),
           "none for --probe-payload, as no probe rows are in the result of that --type");
}

void check(const BenchOptions& options) {
    const Workload& workload = options.workload;
    expect(workload.key_bytes == 4 || workload.key_bytes == 8, "4 or 8 for --key-bytes");
    expect(workload.build_rows >= 1 && workload.build_rows <= kRowsMax, "1 to 2^32 for --build-rows");
    expect(workload.probe_rows >= 1 && workload.probe_rows <= kRowsMax, "1 to 2^32 for --probe-rows");
    expect(workload.match_ratio > 1e-6 && workload.match_ratio <= 1, "--match-ratio above 0 and at most 1");
    expect(workload.zipf >= 0 && workload.zipf <= 4, "0 to 4 for --zipf");
    expect(workload.distinct <= workload.build_rows, "no more --distinct keys than --build-rows");
    expect(workload.key_bytes == 8 || workload.probe_domain() <= 1ULL << 32, "keys that fit --key-bytes");
    expect(options.samples >= 1, "at least one of --samples");
    check_columns(workload);
}

}  // namespace

uint64_t Workload::probe_domain() const {
    return static_cast<uint64_t>(std::llround(static_cast<double>(build_domain()) / match_ratio));
}

cuda::JoinKind parse_join_type(const std::string& text) {
    std::string names;
    for (const JoinTypeName& type : kJoinTypes) {
        if (text == type.name) return type.kind;
        names += std::string(names.empty() ? "'" : "', '") + type.name;
    }
    throw std::invalid_argument("Expected one of " + names + "' for --type but received '" + text + "'.");
}

uint64_t Workload::result_rows_estimate() const {
    if (!kind.pairs()) return kind.emit == cuda::JoinEmit::kBuildOnce ? build_rows : probe_rows;
    const uint64_t lone_build_rows = kind.keep_unmatched_build ? build_rows : 0;
    // Where build keys are unique, a probe row makes one row of the result with a partner and without.
    const uint64_t lone_probe_rows = kind.keep_unmatched_probe && !unique_build_keys() ? probe_rows : 0;
    return pairs_estimate() + lone_build_rows + lone_probe_rows;
}

uint64_t Workload::pairs_estimate() const {
    if (unique_build_keys()) return probe_rows;
    const double multiplicity = static_cast<double>(build_rows) / static_cast<double>(distinct);
    return static_cast<uint64_t>(std::ceil(static_cast<double>(probe_rows) * multiplicity * match_ratio * 1.01));
}

BenchOptions parse_bench_options(int count, char** arguments) {
    BenchOptions options;
    Workload& workload = options.workload;
    using Text = const std::string&;
    const KnownOptions known = {
        {"--key-bytes", [&](Text n, Text v) { workload.key_bytes = static_cast<uint32_t>(parse_number(n, v)); }},
        {"--build-payload", [&](Text n, Text v) { workload.build_payload = parse_widths(n, v); }},
        {"--probe-payload", [&](Text n, Text v) { workload.probe_payload = parse_widths(n, v); }},
        {"--build-rows", [&](Text n, Text v) { workload.build_rows = parse_number(n, v); }},
        {"--probe-rows", [&](Text n, Text v) { workload.probe_rows = parse_number(n, v); }},
        {"--match-ratio", [&](Text n, Text v) { workload.match_ratio = parse_real(n, v); }},
        {"--zipf", [&](Text n, Text v) { workload.zipf = parse_real(n, v); }},
        {"--distinct", [&](Text n, Text v) { workload.distinct = parse_number(n, v); }},
        {"--type",
         [&](Text, Text v) {
             workload.type = v;
             workload.kind = parse_join_type(v);
         }},
        {"--algorithm", [&](Text, Text v) { options.algorithms.push_back(v); }},
        {"--row-words-max",
         [&](Text n, Text v) { workload.row_words_max = static_cast<uint32_t>(parse_number(n, v)); }},
        {"--radix-bits", [&](Text n, Text v) { workload.radix_bits = static_cast<int>(parse_number(n, v)); }},
        {"--samples", [&](Text n, Text v) { options.samples = parse_number(n, v); }},
        {"--warmup", [&](Text n, Text v) { options.warmup = parse_number(n, v); }},
        {"--memory-limit", [&](Text n, Text v) { options.memory_limit = parse_number(n, v); }},
        {"--seed", [&](Text n, Text v) { options.seed = parse_number(n, v); }},
        {"--device", [&](Text n, Text v) { options.device = static_cast<int>(parse_number(n, v)); }}};
    apply_options(known, 1, count, arguments);
    if (options.algorithms.empty()) options.algorithms.emplace_back("phj-tr");
    check(options);
    return options;
}

}  // namespace spillway::gpu_bench
