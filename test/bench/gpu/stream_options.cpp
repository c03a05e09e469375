// SPDX-License-Identifier: Apache-2.0
#include "stream_options.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "options.hpp"
#include "size_options.hpp"

namespace spillway::gpu_bench {

namespace {

using gpu_test::parse_number;

constexpr uint32_t kRowBytesMax = 32;

uint32_t row_bytes_of(uint32_t key_bytes, const std::vector<uint32_t>& widths) {
    return std::accumulate(widths.begin(), widths.end(), key_bytes);
}

template <class Value>
Value parse_word(const std::string& name, const std::string& text,
                 const std::vector<std::pair<std::string, Value>>& words) {
    std::string known;
    for (const auto& word : words) {
        if (word.first == text) return word.second;
        known += (known.empty() ? "" : " or ") + word.first;
    }
    throw std::invalid_argument("Expected " + known + " for " + name + " but received '" + text + "'.");
}

void add_coherent_options(KnownOptions& known, CoherentChoices& chosen) {
    using Text = const std::string&;
    known["--partitioner"] = [&chosen](Text n, Text v) {
        std::vector<std::pair<std::string, cuda::FarPartitioner>> words;
        for (int p = 0; p < cuda::kFarPartitioners; ++p) {
            words.emplace_back(cuda::kFarPartitionerNames[p], static_cast<cuda::FarPartitioner>(p));
        }
        chosen.partitioner = parse_word(n, v, words);
    };
    const std::pair<const char*, uint64_t*> numbers[] = {
        {"--grid", &chosen.partition_grid},       {"--gather-grid", &chosen.gather_grid},
        {"--gather-alone", &chosen.gather_alone}, {"--gather-probe", &chosen.gather_probe},
        {"--group-rows", &chosen.group_rows},     {"--device-pages", &chosen.device_pages},
        {"--far-pages", &chosen.far_pages},       {"--second-pass", &chosen.second_pass}};
    for (const auto& [name, number] : numbers) {
        known[name] = [number = number](Text n, Text v) { *number = parse_number(n, v); };
    }
}

void check_coherent(const OutOfCoreOptions& options) {
    const CoherentChoices& chosen = options.coherent;
    for (const uint64_t number : {chosen.partition_grid, chosen.gather_grid, chosen.device_pages, chosen.far_pages}) {
        expect(number <= UINT32_MAX, "less than 2^32 for --grid, --gather-grid, --device-pages and --far-pages");
    }
    expect(std::max({chosen.gather_alone, chosen.gather_probe, chosen.second_pass}) <= 1,
           "0 or 1 for --gather-alone, --gather-probe and --second-pass");
    if (options.algorithm != cuda::BaselineAlgorithm::kTriton) return;
    const std::vector<uint32_t> payload = {options.bench.workload.key_bytes};
    expect(options.bench.workload.build_payload == payload && options.bench.workload.probe_payload == payload,
           "a payload of the key's width on both sides for triton");
}

KnownOptions own_options(OutOfCoreOptions& options) {
    using Text = const std::string&;
    return {{"--payload-values",
             [&](Text n, Text v) {
                 options.payload_values = parse_word<FarPayloadValues>(
                     n, v, {{"dense", FarPayloadValues::kDense}, {"random", FarPayloadValues::kRandom}});
             }},
            {"--result",
             [&](Text n, Text v) {
                 options.result = parse_word<FarResult>(
                     n, v, {{"count", FarResult::kCount}, {"sums", FarResult::kSums}, {"rows", FarResult::kRows}});
             }},
            {"--inputs",
             [&](Text n, Text v) {
                 options.inputs = parse_word<FarPlace>(n, v, {{"host", FarPlace::kHost}, {"peer", FarPlace::kPeer}});
             }},
            {"--spill",
             [&](Text n, Text v) {
                 options.spill = parse_word<FarPlace>(n, v, {{"host", FarPlace::kHost}, {"peer", FarPlace::kPeer}});
             }},
            {"--algorithm",
             [&](Text n, Text v) {
                 std::vector<std::pair<std::string, cuda::BaselineAlgorithm>> words;
                 for (const cuda::BaselineName& named : cuda::kBaselineNames) {
                     words.emplace_back(named.name, named.algorithm);
                 }
                 options.algorithm = parse_word(n, v, words);
             }},
            {"--stream-probe",
             [&](Text n, Text v) {
                 std::vector<std::pair<std::string, cuda::StreamProbe>> words;
                 for (int w = 0; w < cuda::kStreamProbes; ++w) {
                     words.emplace_back(cuda::kStreamProbeNames[w], static_cast<cuda::StreamProbe>(w));
                 }
                 options.stream_probe = parse_word(n, v, words);
             }},
            {"--overlap", [&](Text n, Text v) { options.overlap = parse_number(n, v); }},
            {"--load-percent", [&](Text n, Text v) { options.load_percent = parse_number(n, v); }},
            {"--device-stripes", [&](Text n, Text v) { options.device_stripes = parse_number(n, v); }},
            {"--host-stripes", [&](Text n, Text v) { options.host_stripes = parse_number(n, v); }},
            {"--threads", [&](Text n, Text v) { options.threads = parse_number(n, v); }},
            {"--budget-ms", [&](Text n, Text v) { options.budget_ms = parse_number(n, v); }},
            {"--busy-multiprocessors", [&](Text n, Text v) { options.busy_multiprocessors = parse_number(n, v); }}};
}

void check_out_of_core(const OutOfCoreOptions& options) {
    expect(options.build_row_bytes() <= kRowBytesMax, "rows of at most 32 bytes for --build-payload");
    expect(options.probe_row_bytes() <= kRowBytesMax, "rows of at most 32 bytes for --probe-payload");
    expect(options.sizes.page_rows > 0 || options.algorithm == cuda::BaselineAlgorithm::kTriton,
           "more than 0 for --page-rows");
    for (const uint64_t number : {options.device_stripes, options.host_stripes, options.threads}) {
        expect(number <= UINT32_MAX, "less than 2^32 for --device-stripes, --host-stripes and --threads");
    }
    expect(options.busy_multiprocessors == 0 || options.bench.warmup > 0,
           "--warmup 1 or more for --busy-multiprocessors: memory and code must be there before");
    expect(options.sizes.filter_words == 0 || options.algorithm == cuda::BaselineAlgorithm::kStaged,
           "--filter-words for staged alone: other algorithms have no filter");
    expect(options.overlap <= 1, "0 or 1 for --overlap");
    expect(options.load_percent > 0 && options.load_percent <= 90, "1 to 90 for --load-percent");
    expect(options.algorithm != cuda::BaselineAlgorithm::kNpjFarPerfect || options.bench.workload.unique_build_keys(),
           "no --distinct for npj-far-perfect, whose build keys come once each");
    expect(options.algorithm != cuda::BaselineAlgorithm::kCpuPartitioned || options.inputs == FarPlace::kHost,
           "--inputs host for cpu-partitioned: the host's cores read them");
    expect(options.spill.value_or(FarPlace::kHost) == FarPlace::kHost || options.can_spill_to_peer(),
           "--spill peer for staged, staged-uncached and triton alone");
    check_coherent(options);
    if (options.result != FarResult::kSums) return;
    const Workload& workload = options.bench.workload;
    expect(!workload.build_payload.empty() || !workload.probe_payload.empty(), "payloads for --result sums");
    for (const auto* widths : {&workload.build_payload, &workload.probe_payload}) {
        for (const uint32_t width : *widths) expect(width >= 4, "payloads of 4 or 8 bytes for --result sums");
    }
}

}  // namespace

uint32_t OutOfCoreOptions::build_row_bytes() const {
    return row_bytes_of(bench.workload.key_bytes, bench.workload.build_payload);
}

uint32_t OutOfCoreOptions::probe_row_bytes() const {
    return row_bytes_of(bench.workload.key_bytes, bench.workload.probe_payload);
}

// What it does not know itself is what joins in device memory know, with the same meaning and the same checks.
OutOfCoreOptions parse_out_of_core_options(int count, char** arguments) {
    OutOfCoreOptions options;
    KnownOptions own = own_options(options);
    add_coherent_options(own, options.coherent);
    SizeOptions sizes(own, options.sizes);
    sizes.add("--resident-partitions", options.sizes.resident_partitions, 0, UINT32_MAX);
    sizes.add("--filter-words", options.sizes.filter_words, 0);
    std::vector<std::string> other = {"", "--key-bytes", "8", "--build-payload", "8", "--probe-payload", "8"};
    for (int i = 2; i < count; i += 2) {
        if (own.count(arguments[i]) == 0) {
            for (int part = i; part < count && part < i + 2; ++part) other.emplace_back(arguments[part]);
        } else {
            apply_options(own, i, i + 2 < count ? i + 2 : count, arguments);
        }
    }
    std::vector<char*> pointers;
    for (std::string& argument : other) pointers.push_back(argument.data());
    options.bench = parse_bench_options(static_cast<int>(pointers.size()), pointers.data());
    sizes.check();
    check_out_of_core(options);
    return options;
}

}  // namespace spillway::gpu_bench
