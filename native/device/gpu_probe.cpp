// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "device/gpu_plugin.hpp"
#include "device/probe_answer.hpp"

extern "C" char** environ;

namespace spillway {

namespace {

using Clock = std::chrono::steady_clock;

// A killed process that hangs in the driver ends only when the driver lets it go; it is not waited for longer.
constexpr std::chrono::milliseconds kKilledLimit{1'000};
constexpr std::chrono::milliseconds kExitPoll{2};

int milliseconds_until(Clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    return static_cast<int>(std::max<int64_t>(0, left));
}

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return number_; }
    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }

  private:
    int number_;
};

// 0 or an errno.
int start(const std::string& program, const std::vector<std::string>& arguments, int output, pid_t& child) {
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (const int error = ::posix_spawn_file_actions_init(&actions); error != 0) return error;
    if (const int error = ::posix_spawnattr_init(&attributes); error != 0) {
        ::posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    int error = ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (error == 0) error = ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0) error = ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // A new program inherits the signals that Node ignores and those that the calling thread blocks.
    sigset_t none;
    sigset_t ignored;
    ::sigemptyset(&none);
    ::sigemptyset(&ignored);
    for (const int signal : {SIGPIPE, SIGALRM, SIGCHLD}) ::sigaddset(&ignored, signal);
    if (error == 0) error = ::posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0) error = ::posix_spawnattr_setsigdefault(&attributes, &ignored);
    if (error == 0) error = ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (error == 0) error = ::posix_spawn(&child, program.c_str(), &actions, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Reads until the end or until the buffer is full; false: the deadline came first.
bool read_all(int input, void* to, size_t bytes, size_t& read_bytes, Clock::time_point deadline) {
    read_bytes = 0;
    while (read_bytes < bytes) {
        pollfd waiting{input, POLLIN, 0};
        const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
        if (ready < 0 && errno == EINTR) continue;
        if (ready == 0) return false;
        const ssize_t got = ::read(input, static_cast<char*>(to) + read_bytes, bytes - read_bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return true;
        read_bytes += static_cast<size_t>(got);
    }
    return true;
}

struct Ending {
    bool in_time = false;
    std::optional<int> status;  // none: somebody else has reaped the child, or the process ignores SIGCHLD
};

// Polled: waiting with a time limit takes a signal handler (Node's) or pidfd_open (Linux 5.3). The answer is there
// before, so this takes one or two rounds.
Ending wait_for(pid_t child, Clock::time_point deadline) {
    for (;;) {
        int status = 0;
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child) return {true, status};
        if (ended < 0 && errno != EINTR) return {true, std::nullopt};
        if (Clock::now() >= deadline) return {};
        std::this_thread::sleep_for(kExitPoll);
    }
}

std::string late(std::chrono::milliseconds limit) {
    return "the GPU did not answer within " + std::to_string(limit.count()) +
           " ms in a trial process; look into the system log for errors of the NVIDIA driver";
}

std::string judge(const ProbeAnswer& answer, size_t read_bytes, const Ending& ending) {
    if (ending.status && WIFSIGNALED(*ending.status)) {
        const char* name = ::strsignal(WTERMSIG(*ending.status));
        return std::string("the GPU driver ended a trial process (") + (name == nullptr ? "unknown signal" : name) +
               "); install the driver again or start the system anew";
    }
    if (read_bytes != sizeof answer || answer.magic != kProbeMagic || answer.bytes != sizeof answer) {
        return std::string(kProbeProgram) + " gave no answer of this version; build the package again";
    }
    return answer.reason;
}

std::string run(const std::string& folder, std::vector<std::string> arguments, ProbeAnswer& answer,
                std::chrono::milliseconds limit) {
    gpu_plugin_path(folder);
    const std::string program = folder + "/" + kProbeProgram;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return std::string("no pipe for a trial of the GPU: ") + std::strerror(errno);
    Descriptor input(ends[0]);
    Descriptor output(ends[1]);
    pid_t child = -1;
    if (const int error = start(program, arguments, output.get(), child); error != 0) {
        return "'" + program + "', which tries the GPU, could not be started: " + std::strerror(error) +
               (error == ENOENT ? "; build the package again" : "");
    }
    output.close();  // else there is no end to read
    const Clock::time_point deadline = Clock::now() + limit;
    size_t read_bytes = 0;
    bool in_time = read_all(input.get(), &answer, sizeof answer, read_bytes, deadline);
    Ending ending;
    if (in_time) ending = wait_for(child, deadline);
    in_time = in_time && ending.in_time;
    if (!in_time) {
        ::kill(child, SIGKILL);
        wait_for(child, Clock::now() + kKilledLimit);
        return late(limit);
    }
    return judge(answer, read_bytes, ending);
}

std::string run_or_reason(const std::string& folder, std::vector<std::string> arguments, ProbeAnswer& answer,
                          std::chrono::milliseconds limit) {
    try {
        return run(folder, std::move(arguments), answer, limit);
    } catch (const Error& error) {
        return error.message();
    }
}

}  // namespace

std::string probe_list(const std::string& folder, spillway_cuda_devices& devices, std::chrono::milliseconds limit) {
    const auto answer = std::make_unique<ProbeAnswer>();
    const std::string reason = run_or_reason(folder, {kProbeList, folder}, *answer, limit);
    if (reason.empty()) devices = answer->devices;
    return reason;
}

std::string probe_open(const std::string& folder, int ordinal, std::chrono::milliseconds limit) {
    const auto answer = std::make_unique<ProbeAnswer>();
    return run_or_reason(folder, {kProbeOpen, folder, std::to_string(ordinal)}, *answer, limit);
}

}  // namespace spillway
