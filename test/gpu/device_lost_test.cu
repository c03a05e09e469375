// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gpu_test.hpp"

// What makes a GPU useless to its process runs in a process of its own: device_lost_program.cu.
GPU_TEST("device: one that a kernel made useless says so and refuses all later work") {
    char path[4096];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0);
    const std::string own(path, static_cast<size_t>(length));
    const std::string program = own.substr(0, own.rfind('/')) + "/spillway_device_lost_program";
    CHECK_EQ(::access(program.c_str(), X_OK), 0);
    // Tools that watch for bad accesses would report the one that the program makes on purpose.
    spillway::gpu_test::need_full_suite();
    const int status = std::system(("'" + program + "' > /dev/null").c_str());
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}
