// SPDX-License-Identifier: Apache-2.0
#include "staged_group_options.hpp"

#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "options.hpp"
#include "size_options.hpp"

namespace spillway::gpu_bench {

namespace {

using gpu_test::parse_number;

constexpr uint64_t kFarRowsMax = 1ULL << 33;

template <class Value>
Value word_of(const std::string& name, const std::string& text,
              const std::vector<std::pair<std::string, Value>>& words) {
    std::string known;
    for (const auto& word : words) {
        if (word.first == text) return word.second;
        known += (known.empty() ? "" : " or ") + word.first;
    }
    throw std::invalid_argument("Expected " + known + " for " + name + " but received '" + text + "'.");
}

double exponent_of(const std::string& text) {
    std::istringstream stream(text);
    double value = -1;
    if (stream >> value && stream.eof() && value >= 0 && value <= 4) return value;
    throw std::invalid_argument("Expected 0 to 4 for --zipf but received '" + text + "'.");
}

void check_far_group(const FarGroupOptions& options) {
    expect(options.key_bytes == 4 || options.key_bytes == 8, "4 or 8 for --key-bytes");
    expect(options.payload_bytes == 4 || options.payload_bytes == 8, "4 or 8 for --payload");
    expect(options.rows >= 1 && options.rows <= kFarRowsMax, "1 to 2^33 for --rows");
    expect(options.groups >= 1 && options.groups <= options.rows, "1 to --rows for --groups");
    expect(options.key_bytes == 8 || options.groups <= 1ULL << 32, "at most 2^32 --groups of 4 bytes");
    expect(options.value_bits >= 1 && options.value_bits < options.payload_bytes * 8,
           "less than the bits of --payload for --value-bits");
    const bool sums = options.aggregate == FarAggregate::kSum;
    expect(!sums || options.rows <= 1ULL << (63 - options.value_bits), "sums of fewer than 64 bits: --value-bits");
    expect(options.samples >= 1, "at least one of --samples");
}

}  // namespace

FarGroupOptions parse_far_group_options(int count, char** arguments) {
    FarGroupOptions options;
    using Text = const std::string&;
    const auto number = [](auto& target) {
        return [&target](Text n, Text v) { target = static_cast<std::decay_t<decltype(target)>>(parse_number(n, v)); };
    };
    KnownOptions known = {{"--key-bytes", number(options.key_bytes)},
                          {"--payload", number(options.payload_bytes)},
                          {"--value-bits", number(options.value_bits)},
                          {"--rows", number(options.rows)},
                          {"--groups", number(options.groups)},
                          {"--zipf", [&](Text, Text v) { options.zipf = exponent_of(v); }},
                          {"--aggregate",
                           [&](Text n, Text v) {
                               options.aggregate = word_of<FarAggregate>(n, v,
                                                                         {{"sum", FarAggregate::kSum},
                                                                          {"max", FarAggregate::kMax},
                                                                          {"min", FarAggregate::kMin},
                                                                          {"count", FarAggregate::kCount}});
                           }},
                          {"--pre-aggregation",
                           [&](Text n, Text v) {
                               options.sizes.pre_aggregation =
                                   word_of<cuda::PreAggregation>(n, v,
                                                                 {{"auto", cuda::PreAggregation::kAuto},
                                                                  {"always", cuda::PreAggregation::kAlways},
                                                                  {"never", cuda::PreAggregation::kNever}});
                           }},
                          {"--memory-limit", number(options.memory_limit)},
                          {"--samples", number(options.samples)},
                          {"--warmup", number(options.warmup)},
                          {"--seed", number(options.seed)},
                          {"--device", number(options.device)}};
    SizeOptions sizes(known, options.sizes);
    sizes.add("--radix-bits", options.sizes.radix_bits, 0, cuda::kFirstPassBitsMax);
    sizes.add("--page-rows", options.sizes.page_rows, 1);
    sizes.add("--merge-rows", options.sizes.merge_rows, 1);
    apply_options(known, 2, count, arguments);
    sizes.check();
    check_far_group(options);
    return options;
}

}  // namespace spillway::gpu_bench
