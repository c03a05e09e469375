// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

struct spillway_cuda_devices;

// Trials of the GPU in a child process: a broken driver may crash or hang whoever loads it, and that must not be the
// user's process.
//
// The child is spillway_gpu_probe, a small program beside the plugin, and not process.execPath with a script: it starts
// in 2 ms instead of 40, works in hosts whose executable is not Node (Electron, the native tests), and needs no file of
// JavaScript found from native code. It is started by posix_spawn, which is safe in a process with many threads; fork()
// alone is not, as the child may only call async-signal-safe functions.
//
// Both return why it did not work, empty = it did, and throw nothing but std::bad_alloc.

namespace spillway {

// Drivers take up to some seconds to wake a GPU without persistence mode, for each of the up to 16 GPUs of a host.
constexpr std::chrono::milliseconds kProbeLimitMs{20'000};

// The devices that the plugin in `folder` finds.
std::string probe_list(const std::string& folder, spillway_cuda_devices& devices, std::chrono::milliseconds limit);

// Opens the device and copies some bytes to it and back.
std::string probe_open(const std::string& folder, int ordinal, std::chrono::milliseconds limit);

}  // namespace spillway
