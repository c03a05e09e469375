// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "json_object.hpp"
#include "measure.hpp"
#include "partition_bench.hpp"
#include "tier_bench.hpp"

namespace spillway::gpu_bench {

namespace {

constexpr uint64_t kStreamedBytes = 1ULL << 30;
constexpr uint64_t kStreamedSamples = 3;

// Bytes that cross each link and direction, by the arithmetic of the pass.
struct PartitionLinkBytes {
    uint64_t h2d = 0;
    uint64_t d2h = 0;
    uint64_t peer = 0;  // from there
    uint64_t peer_out = 0;
};

PartitionLinkBytes partition_link_bytes(const PartitionBenchOptions& options) {
    PartitionLinkBytes bytes;
    const uint64_t all = options.rows * options.tuple_bytes;
    const bool counts_keys = !options.has_pages && !options.cpu_histogram;
    const uint64_t read = all + (counts_keys ? all / 2 : 0);
    if (options.source == TuplePlace::kHost) bytes.h2d = read;
    if (options.source == TuplePlace::kPeer) bytes.peer = read;
    if (options.destination == TuplePlace::kHost) bytes.d2h = all;
    if (options.destination == TuplePlace::kPeer) bytes.peer_out = all;
    return bytes;
}

StreamRates stream_rates(cuda::Device& device, TuplePlace place) {
    StreamRates rates;
    const FarBlock block(device, place, kStreamedBytes);
    const auto rate = [&](StreamDirection direction) {
        const StreamTimes times =
            time_stream(device, block.data(), kStreamedBytes, direction, StreamOrder::kTogether, kStreamedSamples);
        return static_cast<double>(kStreamedBytes) / median(times.samples_ms) / 1e6;
    };
    rates.read = rate(StreamDirection::kRead);
    rates.write = rate(StreamDirection::kWrite);
    rates.both = rate(StreamDirection::kBoth);
    return rates;
}

std::string partition_workload_json(cuda::Device& device, const PartitionBenchOptions& options, int bits,
                                    const PartitionMeasurement& measurement) {
    const auto text = [](const std::string& value) { return gpu_test::json_text(value); };
    Object workload;
    workload.add("rows", options.rows).add("tuple_bytes", uint64_t{options.tuple_bytes});
    workload.add("bits", static_cast<uint64_t>(bits));
    workload.add("source", text(far_place_name(options.source)));
    workload.add("destination", text(far_place_name(options.destination)));
    workload.add("form", text(options.has_pages ? "pages" : "contiguous"));
    if (options.has_pages) {
        workload.add("page_bytes", options.page_bytes).add("pages_used", measurement.pages_used);
    } else {
        workload.add("histogram", text(options.cpu_histogram ? "cpu" : "gpu"));
    }
    const auto multiprocessors = static_cast<uint64_t>(device.properties().multiprocessors);
    workload.add("grid", options.grid == 0 ? multiprocessors : options.grid);
    if (options.second_level_bytes > 0) workload.add("second_level_bytes", uint64_t{options.second_level_bytes});
    if (options.buffer_bytes > 0) workload.add("buffer_bytes", uint64_t{options.buffer_bytes});
    return workload.add("seed", options.seed).close();
}

std::string stream_rates_json(const FarStreamRates& rates) {
    const auto of = [](const StreamRates& some) {
        Object object;
        object.add("read", number(some.read)).add("write", number(some.write)).add("both", number(some.both));
        return object.close();
    };
    Object object;
    if (rates.host.read > 0) object.add("host", of(rates.host));
    if (rates.peer.read > 0) object.add("peer", of(rates.peer));
    return object.close();
}

double link_ms(uint64_t bytes, double rate) {
    return bytes == 0 ? 0 : static_cast<double>(bytes) / rate / 1e6;
}

// planned_link_ms: links and directions free of each other; both_ways_ms: as fast as kernels that stream through a link
// both ways at once.
void add_partition_links(Object& object, const PartitionBenchOptions& options, const FarStreamRates& rates,
                         double median_ms) {
    const PartitionLinkBytes bytes = partition_link_bytes(options);
    const auto by_link = [&](const auto& format) {
        Object values;
        values.add("h2d", format(bytes.h2d)).add("d2h", format(bytes.d2h));
        if (rates.peer.read > 0) values.add("peer", format(bytes.peer)).add("peer_out", format(bytes.peer_out));
        return values.close();
    };
    const double planned_ms =
        std::max({link_ms(bytes.h2d, rates.host.read), link_ms(bytes.d2h, rates.host.write),
                  link_ms(bytes.peer, rates.peer.read), link_ms(bytes.peer_out, rates.peer.write)});
    object.add("planned_link_bytes", by_link([](uint64_t some) { return std::to_string(some); }));
    object.add("link_gb_per_s",
               by_link([&](uint64_t some) { return number(static_cast<double>(some) / median_ms / 1e6); }));
    object.add("stream_gb_per_s", stream_rates_json(rates)).add("planned_link_ms", milliseconds(planned_ms));
    if (planned_ms > 0) object.add("link_efficiency", number(planned_ms / median_ms));
    if (bytes.h2d > 0 && bytes.d2h > 0) {
        // What one direction has more of is read alone.
        const uint64_t together = std::min(bytes.h2d, bytes.d2h);
        const double both_ms = link_ms(together, rates.host.both) + link_ms(bytes.h2d - together, rates.host.read) +
                               link_ms(bytes.d2h - together, rates.host.write);
        object.add("both_ways_ms", milliseconds(both_ms)).add("both_ways_share", number(both_ms / median_ms));
    }
}

}  // namespace

FarStreamRates measure_far_streams(cuda::Device& device, const PartitionBenchOptions& options) {
    FarStreamRates rates;
    const auto uses = [&](TuplePlace place) { return options.source == place || options.destination == place; };
    if (uses(TuplePlace::kHost)) rates.host = stream_rates(device, TuplePlace::kHost);
    if (uses(TuplePlace::kPeer)) rates.peer = stream_rates(device, TuplePlace::kPeer);
    return rates;
}

std::string partition_json(cuda::Device& device, const PartitionBenchOptions& options, const std::string& name,
                           int bits, const FarStreamRates& rates, const PartitionMeasurement& measurement) {
    const double median_ms = median(measurement.samples_ms);
    Object object;
    object.add("workload", partition_workload_json(device, options, bits, measurement));
    object.add("partitioner", gpu_test::json_text(name)).add("median_ms", milliseconds(median_ms));
    object.add("samples_ms", list(measurement.samples_ms, milliseconds));
    if (options.cpu_histogram) {
        const double histogram_ms = median(measurement.histogram_ms);
        object.add("phases", Object().add("histogram_ms", milliseconds(histogram_ms)).close());
    }
    object.add("rows_in", options.rows);
    object.add("g_tuples_per_s", number(static_cast<double>(options.rows) / median_ms / 1e6));
    // This rate counts each row once, whatever is read for a histogram.
    object.add("gb_per_s", number(static_cast<double>(options.rows * options.tuple_bytes) / median_ms / 1e6));
    add_partition_links(object, options, rates, median_ms);
    object.add("verified", std::string(measurement.problem.empty() ? "true" : "false"));
    if (!measurement.problem.empty()) object.add("problem", gpu_test::json_text(measurement.problem));
    object.add("peak_bytes", Object().add("device", measurement.peak_bytes).close());
    object.add("device", gpu_test::json_text(device.properties().name));
    return object.close();
}

}  // namespace spillway::gpu_bench
