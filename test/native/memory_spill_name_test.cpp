// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "memory/spill_file.hpp"
#include "memory/spill_name.hpp"
#include "memory/spill_space.hpp"
#include "support/failing_calls.hpp"
#include "support/temporary_folder.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

pid_t ended_process() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    return child;
}

void touch(const std::string& path) {
    std::ofstream(path) << "x";
}

}  // namespace

TEST(memory_spill_name_without_tmpfile_leaves_no_name) {
    const TemporaryFolder folder;
    std::string left;
    const int file = create_unlinked_spill_file(folder.path(), left);
    EXPECT(file >= 0 && left.empty());
    EXPECT(folder.entries() == 0);
    EXPECT_EQ(write(file, "rows", 4), 4);
    struct stat status {};
    EXPECT_EQ(fstat(file, &status), 0);
    EXPECT(status.st_size == 4 && status.st_nlink == 0);
    close(file);
    EXPECT_EQ(create_unlinked_spill_file(folder.path() + "/missing", left), -1);
    EXPECT(next_spill_name() != next_spill_name());
}

TEST(memory_spill_name_goes_with_the_file_where_open_files_keep_it) {
    const TemporaryFolder folder;
    SpillSpace space(folder.path());
    std::string left;
    int descriptor = -1;
    {
        const test::WithFailingCalls failing({.unlink = EBUSY});
        descriptor = create_unlinked_spill_file(folder.path(), left);
    }
    EXPECT(descriptor >= 0 && !left.empty());
    EXPECT(folder.entries() == 1);
    space.give_back({descriptor, 4096, left});
    const SpillSpace::File again = space.take();  // as for the next job
    EXPECT_EQ(again.path_left, left);
    space.give_back(again);
    EXPECT(folder.entries() == 1);
    space.trim();
    EXPECT(folder.entries() == 0);
}

// The largest that is kept goes to the next job; what is beyond the room for kept files is closed.
TEST(memory_spill_space_keeps_the_largest_at_hand_and_not_too_many) {
    constexpr uint64_t kGiB = uint64_t{1} << 30;
    const TemporaryFolder folder;
    SpillSpace space(folder.path());
    const auto give = [&](uint64_t bytes) {
        const int descriptor = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        space.give_back({descriptor, bytes, ""});
        return fcntl(descriptor, F_GETFD) >= 0;
    };
    for (const uint64_t bytes : {5, 9, 7}) EXPECT(give(bytes));
    EXPECT_EQ(space.kept_bytes(), 21u);
    for (const uint64_t bytes : {9, 7, 5}) {
        const SpillSpace::File file = space.take();
        EXPECT_EQ(file.bytes, bytes);
        close(file.descriptor);
    }
    EXPECT_EQ(space.kept_bytes(), 0u);
    EXPECT(give(3 * kGiB));
    EXPECT(!give(kGiB + 1));
    EXPECT(give(kGiB));
    EXPECT_EQ(space.kept_bytes(), 4 * kGiB);
    EXPECT_EQ(space.trim(), 4 * kGiB);
    for (int i = 0; i < 64; ++i) EXPECT(give(1));
    EXPECT(!give(1));
}

TEST(memory_spill_name_tells_stale_files) {
    const TemporaryFolder folder;
    const std::string dead = std::to_string(ended_process());
    const std::string self = next_spill_name();                                              // alive, right start time
    const std::string self_earlier = "spillway-spill-" + std::to_string(getpid()) + "-1-0";  // pid was used again
    const std::vector<std::string> stale = {"spillway-spill-" + dead + "-123-0", "spillway-spill-" + dead + "-0-17",
                                            self_earlier};
    const std::string locked = "spillway-spill-" + dead + "-123-99";  // alive in another pid namespace
    const std::vector<std::string> foreign = {
        self,
        locked,
        "spillway-spill-1-0-0",
        "spillway-spill-" + dead,
        "spillway-spill-" + dead + "-1",
        "spillway-spill-" + dead + "-1-",
        "spillway-spill-" + dead + "-1-2.arrow",
        "spillway-spill-" + dead + "--1-2",
        "spillway-spill-x-1-2",
        "spillway-spill-99999999999999999999999-1-2",
        "spillway-spill-2147483648-1-2",  // beyond pid_t: as one it is that of a group of processes
        "spillway-spill-0-1-2",
        "my-spillway-spill-" + dead + "-1-2",
        ".spillway-" + dead + "-0.partial",
        "orders.arrow",
    };
    for (const auto& name : stale) touch(folder.path() + "/" + name);
    for (const auto& name : foreign) touch(folder.path() + "/" + name);
    const std::string directory = folder.path() + "/spillway-spill-" + dead + "-5-5";
    fs::create_directory(directory);
    const std::string link = folder.path() + "/spillway-spill-" + dead + "-6-6";
    fs::create_symlink(folder.path() + "/orders.arrow", link);
    const int lock = open((folder.path() + "/" + locked).c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(flock(lock, LOCK_EX), 0);

    remove_stale_spill_files(folder.path());
    for (const auto& name : stale) EXPECT(!fs::exists(folder.path() + "/" + name));
    for (const auto& name : foreign) EXPECT(fs::exists(folder.path() + "/" + name));
    EXPECT(fs::exists(directory) && fs::is_symlink(link));
    close(lock);
    remove_stale_spill_files(folder.path());
    EXPECT(!fs::exists(folder.path() + "/" + locked));
    remove_stale_spill_files(folder.path() + "/missing");
    remove_stale_spill_files("");
}

}  // namespace spillway
