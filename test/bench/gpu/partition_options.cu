// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <stdexcept>

#include "command_line.hpp"
#include "far_partition/far_policy.hpp"
#include "options.hpp"
#include "partition_bench.hpp"

namespace spillway::gpu_bench {

namespace {

using gpu_test::parse_number;

constexpr uint64_t kPartitionRowsMax = 1ULL << 34;

// "8", "0..12", or several of these: "0,4,8..12".
std::vector<int> parse_bits(const std::string& name, const std::string& text) {
    std::vector<int> bits;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
        const size_t dots = part.find("..");
        const uint64_t from = parse_number(name, part.substr(0, dots));
        const uint64_t to = dots == std::string::npos ? from : parse_number(name, part.substr(dots + 2));
        expect(from <= to && to <= cuda::kFirstPassBitsMax, "0 to 12 for --bits");
        for (uint64_t some = from; some <= to; ++some) bits.push_back(static_cast<int>(some));
    }
    return bits;
}

TuplePlace parse_place(const std::string& name, const std::string& text) {
    for (const TuplePlace place : {TuplePlace::kDevice, TuplePlace::kHost, TuplePlace::kPeer}) {
        if (text == far_place_name(place)) return place;
    }
    throw std::invalid_argument("Expected device, host or peer for " + name + " but received '" + text + "'.");
}

bool parse_choice(const std::string& name, const std::string& text, const char* yes, const char* no) {
    if (text == yes || text == no) return text == yes;
    throw std::invalid_argument("Expected " + std::string(yes) + " or " + no + " for " + name + " but received '" +
                                text + "'.");
}

void check_partition_options(const PartitionBenchOptions& options) {
    expect(options.rows >= 1 && options.rows <= kPartitionRowsMax, "1 to 2^34 for --rows");
    expect(options.tuple_bytes == 8 || options.tuple_bytes == 16, "8 or 16 for --tuple-bytes");
    expect(!options.bits.empty(), "0 to 12 for --bits");
    expect(options.samples >= 1, "at least one of --samples");
    expect(!options.partitioners.empty(), "a --partitioner");
    expect(!options.cpu_histogram || options.source == TuplePlace::kHost, "--source host with --histogram cpu");
    for (const std::string& name : options.partitioners) find_partitioner(name);
}

}  // namespace

const char* far_place_name(TuplePlace place) {
    return place == TuplePlace::kDevice ? "device" : place == TuplePlace::kHost ? "host" : "peer";
}

cuda::FarPartitioner find_partitioner(const std::string& name) {
    constexpr const char* kNames[cuda::kFarPartitioners] = {"standard", "linear", "shared", "hierarchical", "bulk"};
    std::string names;
    for (int i = 0; i < cuda::kFarPartitioners; ++i) {
        if (name == kNames[i]) return static_cast<cuda::FarPartitioner>(i);
        names += std::string(names.empty() ? "'" : "', '") + kNames[i];
    }
    throw std::invalid_argument("Expected one of " + names + "' for --partitioner but received '" + name + "'.");
}

PartitionBenchOptions parse_partition_options(int count, char** arguments) {
    PartitionBenchOptions options;
    using Text = const std::string&;
    const auto narrow = [](Text n, Text v) { return static_cast<uint32_t>(parse_number(n, v)); };
    const KnownOptions known = {
        {"--rows", [&](Text n, Text v) { options.rows = parse_number(n, v); }},
        {"--tuple-bytes", [&](Text n, Text v) { options.tuple_bytes = narrow(n, v); }},
        {"--bits", [&](Text n, Text v) { options.bits = parse_bits(n, v); }},
        {"--partitioner", [&](Text, Text v) { options.partitioners.push_back(v); }},
        {"--source", [&](Text n, Text v) { options.source = parse_place(n, v); }},
        {"--destination", [&](Text n, Text v) { options.destination = parse_place(n, v); }},
        {"--form", [&](Text n, Text v) { options.has_pages = parse_choice(n, v, "pages", "contiguous"); }},
        {"--histogram", [&](Text n, Text v) { options.cpu_histogram = parse_choice(n, v, "cpu", "gpu"); }},
        {"--page-bytes", [&](Text n, Text v) { options.page_bytes = parse_number(n, v); }},
        {"--grid", [&](Text n, Text v) { options.grid = narrow(n, v); }},
        {"--second-level-bytes", [&](Text n, Text v) { options.second_level_bytes = narrow(n, v); }},
        {"--buffer-bytes", [&](Text n, Text v) { options.buffer_bytes = narrow(n, v); }},
        {"--samples", [&](Text n, Text v) { options.samples = parse_number(n, v); }},
        {"--warmup", [&](Text n, Text v) { options.warmup = parse_number(n, v); }},
        {"--budget-ms", [&](Text n, Text v) { options.budget_ms = parse_number(n, v); }},
        {"--memory-limit", [&](Text n, Text v) { options.memory_limit = parse_number(n, v); }},
        {"--seed", [&](Text n, Text v) { options.seed = parse_number(n, v); }},
        {"--device", [&](Text n, Text v) { options.device = static_cast<int>(parse_number(n, v)); }}};
    apply_options(known, 2, count, arguments);
    check_partition_options(options);
    return options;
}

}  // namespace spillway::gpu_bench
