// SPDX-License-Identifier: Apache-2.0
// spillway_gpu_probe list FOLDER | open FOLDER ORDINAL: tries the CUDA plugin in FOLDER and writes a ProbeAnswer to the
// standard output. See gpu_probe.hpp.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "device/gpu_device.hpp"
#include "device/gpu_plugin.hpp"
#include "device/gpu_probe.hpp"
#include "device/probe_answer.hpp"

namespace spillway {

namespace {

// Enough for the staging of copies; small beside what other programs may have left of the GPU.
constexpr uint64_t kMemoryBytes = uint64_t{64} << 20;
constexpr size_t kCopiedBytes = 4096;

void open_and_copy(const GpuPlugin& plugin, int ordinal) {
    GpuDevice device(plugin, ordinal, kMemoryBytes, kMemoryBytes);
    GpuBuffer buffer = device.allocate(kCopiedBytes, "trial");
    std::vector<char> sent(kCopiedBytes, 'a');
    std::vector<char> received(kCopiedBytes, 'b');
    device.upload(buffer, 0, sent.data(), sent.size()).wait();
    device.download(received.data(), buffer, 0, received.size()).wait();
    if (sent != received) throw Error(ErrorCode::kNoDevice, "the GPU gave back other bytes than it was given");
}

void run(int argc, char** argv, ProbeAnswer& answer) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if ((mode != kProbeList || argc != 3) && (mode != kProbeOpen || argc != 4)) {
        throw Error(ErrorCode::kInternal, "expected list FOLDER or open FOLDER ORDINAL");
    }
    const GpuPlugin plugin(argv[2]);
    if (mode == kProbeList) return plugin.list_devices(answer.devices);
    open_and_copy(plugin, std::atoi(argv[3]));
}

bool write_all(const void* from, size_t bytes) {
    const char* at = static_cast<const char*>(from);
    while (bytes > 0) {
        const ssize_t written = ::write(STDOUT_FILENO, at, bytes);
        if (written <= 0) return false;
        at += written;
        bytes -= static_cast<size_t>(written);
    }
    return true;
}

}  // namespace

}  // namespace spillway

int main(int argc, char** argv) {
    using namespace spillway;
    // Should whoever waits for the answer be gone, this program ends by itself; a crash leaves no file.
    const auto limit_seconds = std::chrono::ceil<std::chrono::seconds>(kProbeLimitMs).count();
    ::alarm(static_cast<unsigned>(limit_seconds) + 1);
    const rlimit no_file{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_file);

    const auto answer = std::make_unique<ProbeAnswer>();
    answer->magic = kProbeMagic;
    answer->bytes = sizeof *answer;
    try {
        run(argc, argv, *answer);
    } catch (const std::exception& error) {
        std::snprintf(answer->reason, sizeof answer->reason, "%s", error.what());
    }
    return write_all(answer.get(), sizeof *answer) ? 0 : 1;
}
