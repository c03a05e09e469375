// SPDX-License-Identifier: Apache-2.0
#include "out_of_core_group_options.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "options.hpp"

namespace spillway::gpu_bench {

namespace {

using gpu_test::parse_number;

constexpr uint64_t kMiB = 1ULL << 20;
constexpr uint64_t kFarRowsMax = 1ULL << 33;
// Partial rows of a partition: a part of a group-by's memory, and of what is aggregated at once.
constexpr uint64_t kGroupPartitionBytesMax = 256 * kMiB;
constexpr uint64_t kGroupChunksOfInput = 128;
constexpr uint64_t kGroupChunkRowsMax = 1ULL << 23;
constexpr uint64_t kGroupChunkRowsLeast = 1ULL << 14;
constexpr uint64_t kGroupPageBytes = 256ULL << 10;
constexpr uint64_t kGroupSpillBlockBytes = 16 * kMiB;

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
    const GivenGroupSizes& sizes = options.sizes;
    expect(!sizes.radix_bits || *sizes.radix_bits <= 12, "at most 12 for --radix-bits");
    for (const auto& size : {sizes.chunk_rows, sizes.page_rows, sizes.merge_rows, sizes.result_rows}) {
        expect(!size || *size > 0, "more than 0 for --chunk-rows, --page-rows, --merge-rows and --result-rows");
    }
    expect(!sizes.result_slots || (*sizes.result_slots > 0 && *sizes.result_slots <= 64), "1 to 64 --result-slots");
}

uint64_t power_below(uint64_t value) {
    uint64_t power = 1;
    while (power <= value / 2) power *= 2;
    return power;
}

}  // namespace

FarGroupOptions parse_far_group_options(int count, char** arguments) {
    FarGroupOptions options;
    using Text = const std::string&;
    const auto number = [](auto& target) {
        return [&target](Text n, Text v) { target = static_cast<std::decay_t<decltype(target)>>(parse_number(n, v)); };
    };
    const auto size = [](std::optional<uint64_t>& target) {
        return [&target](Text n, Text v) { target = parse_number(n, v); };
    };
    const KnownOptions known = {{"--key-bytes", number(options.key_bytes)},
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
                                     options.pre_aggregation =
                                         word_of<FarPreAggregation>(n, v,
                                                                    {{"auto", FarPreAggregation::kAuto},
                                                                     {"always", FarPreAggregation::kAlways},
                                                                     {"never", FarPreAggregation::kNever}});
                                 }},
                                {"--memory-limit", number(options.memory_limit)},
                                {"--host-limit", number(options.host_limit)},
                                {"--samples", number(options.samples)},
                                {"--warmup", number(options.warmup)},
                                {"--seed", number(options.seed)},
                                {"--device", number(options.device)},
                                {"--radix-bits", size(options.sizes.radix_bits)},
                                {"--chunk-rows", size(options.sizes.chunk_rows)},
                                {"--chunk-slots", size(options.sizes.chunk_slots)},
                                {"--page-rows", size(options.sizes.page_rows)},
                                {"--pages", size(options.sizes.pages)},
                                {"--merge-rows", size(options.sizes.merge_rows)},
                                {"--result-rows", size(options.sizes.result_rows)},
                                {"--result-slots", size(options.sizes.result_slots)}};
    apply_options(known, 2, count, arguments);
    check_far_group(options);
    return options;
}

ChosenGroupSizes choose_group_sizes(const FarGroupOptions& options, uint64_t memory_limit_bytes,
                                    const std::function<uint64_t(const ChosenGroupSizes&)>& device_bytes) {
    const GivenGroupSizes& given = options.sizes;
    const uint64_t limit_bytes = memory_limit_bytes;
    const uint64_t row_bytes = options.key_bytes + options.result_bytes();
    ChosenGroupSizes sizes;
    // A share for each partition, should all groups be different.
    const uint64_t partition_bytes = std::max<uint64_t>(1, std::min(kGroupPartitionBytesMax, limit_bytes / 64));
    sizes.radix_bits = 5;
    while (sizes.radix_bits < 12 && (options.rows * row_bytes) >> sizes.radix_bits > partition_bytes)
        ++sizes.radix_bits;
    if (given.radix_bits) sizes.radix_bits = *given.radix_bits;
    if (given.chunk_slots) sizes.chunk_slots = *given.chunk_slots;
    if (given.result_slots) sizes.result_slots = *given.result_slots;
    sizes.page_rows = given.page_rows
                          ? *given.page_rows
                          : power_below(std::min(kGroupPageBytes, limit_bytes >> (sizes.radix_bits + 4)) / row_bytes);
    sizes.spill_block_bytes = kGroupSpillBlockBytes;
    // Packed fragments have headers, and blocks are not filled to the end.
    const uint64_t most_bytes = options.rows * row_bytes;
    sizes.spill_bytes = options.host_limit > 0
                            ? options.host_limit
                            : ((most_bytes + most_bytes / 16) / kGroupSpillBlockBytes + 65) * kGroupSpillBlockBytes;
    const auto set_chunk = [&](uint64_t chunk_rows) {
        sizes.chunk_rows = chunk_rows;
        sizes.result_rows = given.result_rows.value_or(chunk_rows);
        const uint64_t partition_rows = (options.rows >> sizes.radix_bits) + (options.rows >> (sizes.radix_bits + 3));
        sizes.merge_rows = std::max(
            {chunk_rows, sizes.page_rows, std::min({partition_rows, 4 * chunk_rows, limit_bytes / 32 / row_bytes})});
        if (given.merge_rows) sizes.merge_rows = *given.merge_rows;
        sizes.pages = chunk_rows / sizes.page_rows + 2;
        return device_bytes(sizes);
    };
    uint64_t chunk_rows = std::min(kGroupChunkRowsMax, power_below(options.rows / kGroupChunksOfInput + 1));
    chunk_rows = std::max(chunk_rows, kGroupChunkRowsLeast);
    if (given.chunk_rows) chunk_rows = *given.chunk_rows;
    while (set_chunk(chunk_rows) > limit_bytes / 3 && chunk_rows > kGroupChunkRowsLeast && !given.chunk_rows) {
        chunk_rows /= 2;
    }
    // The rest of the limit, or what all rows take.
    const uint64_t budget_bytes = limit_bytes - std::min(limit_bytes / 16, 16 * kMiB + limit_bytes / 256);
    uint64_t fit = sizes.pages;
    uint64_t too_many = std::max<uint64_t>(fit + 1, options.rows / sizes.page_rows + (2ULL << sizes.radix_bits) + 2);
    while (fit + 1 < too_many) {
        sizes.pages = fit + (too_many - fit) / 2;
        (device_bytes(sizes) <= budget_bytes ? fit : too_many) = sizes.pages;
    }
    sizes.pages = given.pages ? *given.pages : fit;
    return sizes;
}

}  // namespace spillway::gpu_bench
