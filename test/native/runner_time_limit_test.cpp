// SPDX-License-Identifier: Apache-2.0
// The runner of these tests itself: one that hangs is named, and ends the run with exit code 1.
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "support/test.hpp"
#include "support/time_limit.hpp"

namespace spillway::test {

namespace {

struct Run {
    int exit_code = -1;
    std::string output;
};

// Another process of this program.
Run run_tests(const std::string& arguments) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    FILE* const pipe = ::popen(("'" + program + "' " + arguments + " 2>&1").c_str(), "r");
    EXPECT(pipe != nullptr);
    Run run;
    char text[4096];
    for (size_t bytes; (bytes = std::fread(text, 1, sizeof text, pipe)) > 0;) run.output.append(text, bytes);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
    return run;
}

void nap() {
    std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace

// The three that the runner is tried with.
TEST(hang_on_request) {
    for (;;) nap();
}
TEST(nap_on_request_once) {
    nap();
}
TEST(nap_on_request_again) {
    nap();
}

TEST(runner_names_a_test_that_hangs_and_ends) {
    const Run run = run_tests("hang_on_request --time-limit=0.2");
    EXPECT_EQ(run.output, std::string("FAILED hang_on_request: still running after 0.2 s\n0 passed, 1 failed\n"));
    EXPECT_EQ(run.exit_code, 1);
}

TEST(runner_gives_each_test_the_whole_time) {
    const Run run = run_tests("nap_on_request --time-limit=1.8");
    EXPECT_EQ(run.output, std::string("2 passed, 0 failed\n"));
    EXPECT_EQ(run.exit_code, 0);
}

TEST(runner_leaves_out_what_nobody_asked_for) {
    // None is left, which is a failure.
    const Run run = run_tests("hang_on_r --time-limit=20");
    EXPECT_EQ(run.output, std::string("0 passed, 0 failed\n"));
    EXPECT_EQ(run.exit_code, 1);
}

TEST(runner_refuses_a_time_limit_that_is_none) {
    for (const char* text : {"", "0", "-1", "nan", "10s", "1e9"}) {
        EXPECT(!time_limit_of(text).has_value());
        EXPECT_EQ(run_tests(std::string("hang_on_request --time-limit=") + text).exit_code, 2);
    }
    EXPECT_EQ(run_tests("hang_on_request --limit=1").exit_code, 2);
    EXPECT(time_limit_of("0.5") == std::chrono::duration<double>(0.5));
}

}  // namespace spillway::test
