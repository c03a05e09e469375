// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <sstream>
#include <utility>

#include "command_line.hpp"
#include "json_object.hpp"
#include "measure.hpp"
#include "tier/interleaved_range.hpp"
#include "tier/page_pool.hpp"
#include "tier_bench.hpp"

namespace spillway::gpu_bench {

namespace {

using cuda::kMiB;
using gpu_test::json_text;

std::vector<uint64_t> parse_stripes(const std::string& name, const std::string& text) {
    std::vector<uint64_t> sizes;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) sizes.push_back(gpu_test::parse_number(name, part));
    for (const uint64_t mib : sizes) {
        expect(mib >= 2 && mib <= 64 && (mib & (mib - 1)) == 0, "powers of two from 2 to 64 (MiB) for --stripes");
    }
    return sizes;
}

TierBenchOptions parse_tier_options(int count, char** arguments) {
    TierBenchOptions options;
    using Text = const std::string&;
    const KnownOptions known = {
        {"--bytes", [&](Text n, Text v) { options.bytes = gpu_test::parse_number(n, v) / kMiB * kMiB; }},
        {"--samples", [&](Text n, Text v) { options.samples = gpu_test::parse_number(n, v); }},
        {"--stripes", [&](Text n, Text v) { options.stripes_mib = parse_stripes(n, v); }},
        {"--device", [&](Text n, Text v) { options.device = static_cast<int>(gpu_test::parse_number(n, v)); }}};
    apply_options(known, 2, count, arguments);
    expect(options.samples >= 1, "at least one of --samples");
    expect(options.bytes >= kMiB, "at least 1 MiB for --bytes");
    return options;
}

// Each direction and order over one range; false: something else was read than was written.
bool measure_streams(cuda::Device& device, const TierBenchOptions& options, Object described, void* data) {
    constexpr std::pair<StreamDirection, const char*> kDirections[] = {
        {StreamDirection::kRead, "read"}, {StreamDirection::kWrite, "write"}, {StreamDirection::kBoth, "both"}};
    constexpr std::pair<StreamOrder, const char*> kOrders[] = {{StreamOrder::kTogether, "together"},
                                                               {StreamOrder::kApart, "apart"}};
    bool is_right = true;
    for (const auto& [direction, direction_name] : kDirections) {
        for (const auto& [order, order_name] : kOrders) {
            const StreamTimes times = time_stream(device, data, options.bytes, direction, order, options.samples);
            Object fields = described;
            fields.add("direction", json_text(direction_name)).add("order", json_text(order_name));
            fields.add("verified", std::string(times.is_right ? "true" : "false"));
            // For "both", only the bytes of one direction count, as links carry both at once.
            print_tier_times(fields.close(), options.bytes, times.samples_ms);
            is_right = is_right && times.is_right;
        }
    }
    return is_right;
}

Object described_stream(const char* tier) {
    return Object().add("measure", json_text("stream")).add("tier", json_text(tier));
}

bool measure_plain_tiers(cuda::Device& device, cuda::Device* peer, const TierBenchOptions& options) {
    bool is_right = true;
    {
        const cuda::Allocation block = device.memory().allocate(options.bytes, "benchmark");
        is_right = measure_streams(device, options, described_stream("device"), block.as<void>()) && is_right;
    }
    {
        const cuda::PinnedBlock block = device.staging().allocate(options.bytes, "benchmark");
        is_right = measure_streams(device, options, described_stream("host"), block.as<void>()) && is_right;
        device.synchronize();
    }
    if (peer != nullptr) {
        cuda::enable_peer_access(device, *peer);
        const cuda::Allocation block = peer->memory().allocate(options.bytes, "benchmark");
        is_right = measure_streams(device, options, described_stream("peer"), block.as<void>()) && is_right;
        device.synchronize();
    }
    device.staging().trim();
    return is_right;
}

bool measure_interleaved(cuda::Device& device, cuda::Device* peer, const TierBenchOptions& options,
                         uint64_t stripe_mib) {
    bool is_right = true;
    cuda::InterleavedMemory memory(device, stripe_mib * kMiB, peer);
    // Host to GPU 1:1 and 3:1, and what the host alone and a peer beside it give.
    for (const cuda::StripeShares& shares :
         {cuda::StripeShares{1, 0, 1}, {1, 0, 3}, {0, 0, 1}, {1, 1, 0}, {1, 3, 0}, {0, 1, 0}}) {
        if (shares.peer > 0 && peer == nullptr) continue;
        const std::string obstacle = memory.obstacle(shares);
        if (!obstacle.empty()) {
            std::fprintf(stderr, "Not measured: %s.\n", obstacle.c_str());
            continue;
        }
        const cuda::InterleavedRange range(memory, shares, options.bytes);
        Object described = described_stream("interleaved");
        described.add("device_share", uint64_t{shares.device}).add("peer_share", uint64_t{shares.peer});
        described.add("host_share", uint64_t{shares.host}).add("stripe_mib", stripe_mib);
        is_right = measure_streams(device, options, described, range.as<void>()) && is_right;
    }
    return is_right;
}

std::unique_ptr<cuda::Device> open_tier_peer(int own) {
    int count = 0;
    SPILLWAY_CUDA_CHECK(cudaGetDeviceCount(&count));
    for (int other = 0; other < count; ++other) {
        int yes = 0;
        if (other != own) SPILLWAY_CUDA_CHECK(cudaDeviceCanAccessPeer(&yes, own, other));
        if (yes != 0) return std::make_unique<cuda::Device>(other, 0);
    }
    return nullptr;
}

}  // namespace

void print_tier_times(const std::string& fields, uint64_t bytes, const std::vector<double>& samples_ms) {
    const double median_ms = median(samples_ms);
    Object times;
    times.add("bytes", bytes).add("median_ms", milliseconds(median_ms));
    times.add("samples_ms", list(samples_ms, milliseconds));
    times.add("gb_per_s", number(static_cast<double>(bytes) / median_ms / 1e6));
    // Two objects as one.
    std::printf("%s, %s\n", fields.substr(0, fields.size() - 1).c_str(), times.close().substr(1).c_str());
    std::fflush(stdout);  // what is measured stays so whatever comes next
}

int run_tier_bench(int count, char** arguments) {
    const TierBenchOptions options = parse_tier_options(count, arguments);
    const std::string obstacle = device_obstacle(options.device);
    if (!obstacle.empty()) {
        std::fprintf(stderr, "Nothing was measured: no GPU can be used (%s).\n", obstacle.c_str());
        return kNothingRan;
    }
    cuda::Device device(options.device, 0, 2 * options.bytes + cuda::kGiB);
    std::printf("%s\n", Object().add("device", json_text(device.properties().name)).close().c_str());
    measure_tier_allocations(device, options);
    const std::unique_ptr<cuda::Device> peer = open_tier_peer(options.device);
    if (peer == nullptr) std::fprintf(stderr, "No second GPU that the first one reaches: no peer was measured.\n");
    bool is_right = measure_plain_tiers(device, peer.get(), options);
    for (const uint64_t stripe_mib : options.stripes_mib) {
        is_right = measure_interleaved(device, peer.get(), options, stripe_mib) && is_right;
    }
    return is_right ? 0 : 1;
}

}  // namespace spillway::gpu_bench
