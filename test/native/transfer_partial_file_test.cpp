// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/failing_calls.hpp"
#include "support/output_columns.hpp"
#include "support/temporary_folder.hpp"
#include "support/test.hpp"
#include "transfer/hidden_name.hpp"
#include "transfer/output_link.hpp"
#include "transfer/partial_file.hpp"

using namespace spillway;
using namespace spillway::test::batches;
using spillway::test::read_file;
using spillway::test::TemporaryFolder;

TEST(partial_file_hidden_fallback_publishes_and_cleans_up) {
    TemporaryFolder folder;
    JobControl control;
    const std::string path = folder.file("out");
    char text[] = "new";
    for (const bool overwrite : {false, true}) {
        {
            PartialFile dropped(path, true, PartialFile::Naming::kHidden);
            EXPECT_EQ(folder.entries(), overwrite ? size_t{2} : size_t{1});
        }
        PartialFile file(path, overwrite, PartialFile::Naming::kHidden);
        std::vector<iovec> pieces = {{text, 3}};
        file.write(0, pieces, control);
        file.publish();
        EXPECT_EQ(read_file(path).size(), size_t{3});
        EXPECT_EQ(folder.entries(), size_t{1});
    }
    std::filesystem::remove(path);
    PartialFile late(path, false, PartialFile::Naming::kHidden);
    std::ofstream(path) << "other";
    EXPECT_ERROR(kOutputExists, late.publish());
    EXPECT_EQ(read_file(path).size(), size_t{5});
}

TEST(partial_file_without_a_name_goes_with_its_object) {
    TemporaryFolder folder;
    JobControl control;
    char text[] = "held";
    std::string way;
    int calls = 0;
    {
        PartialFile file(PartialFile::Nameless{folder.path()}, [&] { return ++calls > 0; });
        const spillway::test::WithFailingCalls failing({.pwritev = ENOSPC});
        std::vector<iovec> pieces = {{text, 4}};
        file.write(0, pieces, control);
        file.publish();
        way = file.way();
        EXPECT_EQ(calls, 1);
        EXPECT_EQ(read_file(way).size(), size_t{4});
        EXPECT_EQ(folder.entries(), size_t{0});
    }
    EXPECT_EQ(folder.entries(), size_t{0});
    PartialFile full(PartialFile::Nameless{folder.path()}, nullptr);
    const spillway::test::WithFailingCalls failing({.pwritev = ENOSPC});
    std::vector<iovec> pieces = {{text, 4}};
    EXPECT_ERROR(kDiskFull, full.write(0, pieces, control));
    EXPECT_ERROR(kInvalidArgument, PartialFile(PartialFile::Nameless{folder.file("missing")}, nullptr));
}

// Policies forbid hard links and some file systems lack them: the result must not be lost after the whole query.
TEST(partial_file_needs_no_hard_links) {
    for (const int error : {EPERM, EXDEV, EOPNOTSUPP}) {
        TemporaryFolder folder;
        const spillway::test::WithFailingCalls failing({.linkat = error});
        const std::string path = folder.file("out");
        for (const bool overwrite : {false, true}) PartialFile(path, overwrite).publish();
        EXPECT(std::filesystem::is_regular_file(path));
        EXPECT_EQ(folder.entries(), size_t{1});
    }
}

TEST(partial_file_needs_no_rename_that_refuses) {
    for (const int error : {EPERM, ENOSYS, EINVAL, EOPNOTSUPP}) {
        TemporaryFolder folder;
        const spillway::test::WithFailingCalls failing({.renameat2 = error});
        const std::string path = folder.file("out");
        PartialFile(path, false, PartialFile::Naming::kHidden).publish();
        PartialFile late(folder.file("late"), false, PartialFile::Naming::kHidden);
        std::filesystem::rename(path, folder.file("late"));
        EXPECT_ERROR(kOutputExists, late.publish());
    }
}

TEST(partial_file_keeps_a_symbolic_link) {
    TemporaryFolder folder;
    const std::string link = folder.file("link");
    std::ofstream(folder.file("real")) << "old contents";
    std::filesystem::create_symlink("real", link);
    PartialFile(link, true).publish();
    EXPECT(std::filesystem::is_symlink(link));
    EXPECT_EQ(read_file(folder.file("real")).size(), size_t{0});
}

TEST(partial_file_creates_the_target_of_a_dangling_link) {
    TemporaryFolder folder;
    std::filesystem::create_directory(folder.file("inner"));
    const std::string link = folder.file("link");
    std::filesystem::create_symlink("inner/second", link);
    std::filesystem::create_symlink("real", folder.file("inner/second"));
    for (const bool overwrite : {false, true}) {
        PartialFile(link, overwrite).publish();
        EXPECT(std::filesystem::is_symlink(link));
        EXPECT(std::filesystem::is_symlink(folder.file("inner/second")));
        EXPECT(std::filesystem::is_regular_file(folder.file("inner/real")));
        std::filesystem::remove(folder.file("inner/real"));
    }
    std::filesystem::create_symlink("missing/real", folder.file("astray"));
    EXPECT_ERROR(kOutputFailed, PartialFile(folder.file("astray"), true));
    std::filesystem::create_symlink("ring", folder.file("ring"));
    EXPECT_ERROR(kOutputFailed, PartialFile(folder.file("ring"), true));
}

TEST(partial_file_keeps_the_mode_of_the_file_it_replaces) {
    using std::filesystem::perms;
    for (const auto naming : {PartialFile::Naming::kUnnamedIfPossible, PartialFile::Naming::kHidden}) {
        TemporaryFolder folder;
        const std::string path = folder.file("out");
        std::ofstream(path) << "old contents";
        for (const perms mode : {perms{0600}, perms{0666}, perms{0640}}) {
            std::filesystem::permissions(path, mode);
            PartialFile(path, true, naming).publish();
            EXPECT_EQ(read_file(path).size(), size_t{0});
            EXPECT(std::filesystem::status(path).permissions() == mode);
        }
    }
}

// Between its creation and a later chmod() others could open a file that is not for them.
TEST(partial_file_is_created_with_its_final_mode) {
    for (const auto naming : {PartialFile::Naming::kUnnamedIfPossible, PartialFile::Naming::kHidden}) {
        TemporaryFolder folder;
        const std::string path = folder.file("out");
        std::ofstream(path) << "old contents";
        std::filesystem::permissions(path, std::filesystem::perms{0600});
        const spillway::test::WithFailingCalls failing({.fchmod = EPERM});
        PartialFile(path, true, naming).publish();
        EXPECT(std::filesystem::status(path).permissions() == std::filesystem::perms{0600});
    }
}

// The file has its hidden name when its mode cannot be given to it.
TEST(partial_file_that_cannot_be_made_leaves_no_hidden_name) {
    TemporaryFolder folder;
    const std::string path = folder.file("out");
    std::ofstream(path) << "old contents";
    std::filesystem::permissions(path, std::filesystem::perms{0666});
    const mode_t umask_before = umask(022);
    {
        const spillway::test::WithFailingCalls failing({.fchmod = EPERM});
        EXPECT_ERROR(kOutputFailed, PartialFile(path, true, PartialFile::Naming::kHidden));
    }
    umask(umask_before);
    EXPECT_EQ(folder.entries(), size_t{1});
    EXPECT_EQ(read_file(path).size(), size_t{12});
}

// Whoever may write to the folder could replace the name.
TEST(partial_file_leaves_a_write_protected_file_alone) {
    TemporaryFolder folder;
    const std::string path = folder.file("out");
    std::ofstream(path) << "old contents";
    EXPECT_EQ(chmod(path.c_str(), 0444), 0);
    EXPECT_EQ(chmod(folder.path().c_str(), 0777), 0);
    const pid_t child = fork();
    if (child == 0) {
        // Root may write to any file.
        constexpr uid_t kNobody = 65534;
        if (geteuid() == 0 && setuid(kNobody) != 0) _exit(0);
        try {
            PartialFile(path, true).publish();
        } catch (const Error& error) {
            _exit(error.code() == ErrorCode::kOutputFailed ? 0 : 1);
        }
        _exit(1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(read_file(path).size(), size_t{12});
}

TEST(partial_file_follows_no_link_of_another_user_in_a_folder_for_everybody) {
    const auto entry = [](mode_t mode, uid_t owner) {
        struct stat status {};
        status.st_mode = mode;
        status.st_uid = owner;
        return status;
    };
    const uid_t me = 1000;
    const uid_t other = 1001;
    const struct stat everybody = entry(S_IFDIR | S_ISVTX | 0777, 0);
    EXPECT(!may_follow_link(entry(S_IFLNK | 0777, other), everybody, me));
    EXPECT(!may_follow_link(entry(S_IFLNK | 0777, other), everybody, 0));
    EXPECT(may_follow_link(entry(S_IFLNK | 0777, me), everybody, me));
    EXPECT(may_follow_link(entry(S_IFLNK | 0777, 0), everybody, me));  // the folder's owner may do worse
    EXPECT(may_follow_link(entry(S_IFLNK | 0777, other), entry(S_IFDIR | 0777, 0), me));
    EXPECT(may_follow_link(entry(S_IFLNK | 0777, other), entry(S_IFDIR | S_ISVTX | 0775, 0), me));
    if (geteuid() != 0) return;  // who is not root can give no link to another user
    TemporaryFolder folder;
    const std::string link = folder.file("link");
    for (const bool is_there : {false, true}) {
        if (is_there) std::ofstream(folder.file("real")) << "old contents";
        for (const std::string& target : {std::string("real"), folder.file("second")}) {
            std::filesystem::remove(link);
            std::filesystem::remove(folder.file("second"));
            std::filesystem::create_symlink("real", folder.file("second"));
            std::filesystem::create_symlink(target, link);
            EXPECT_EQ(lchown(target == "real" ? link.c_str() : folder.file("second").c_str(), other, other), 0);
            EXPECT_EQ(chmod(folder.path().c_str(), 01777), 0);
            EXPECT_ERROR(kOutputFailed, PartialFile(link, true));
            EXPECT_EQ(chmod(folder.path().c_str(), 0777), 0);
            PartialFile dropped(link, true);
        }
    }
    EXPECT_EQ(read_file(folder.file("real")).size(), size_t{12});
}

// A file system without O_TMPFILE, or one whose unnamed files get no name later.
TEST(partial_file_of_a_killed_process_goes_with_the_next_run) {
    const spillway::test::WithFailingCalls failing({.linkat = EPERM});
    TemporaryFolder folder;
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const PartialFile file(folder.file("out"), false);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(folder.entries(), size_t{1});
    { const PartialFile other(folder.file("other"), false, PartialFile::Naming::kHidden); }
    EXPECT_EQ(folder.entries(), size_t{1});  // its owner is alive
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string stem = ".spillway-" + std::to_string(child) + "-1-";
    std::filesystem::create_symlink("other", folder.file(stem + "1.partial"));
    std::filesystem::create_directory(folder.file(stem + "2.partial"));
    std::ofstream(folder.file(stem + "3.arrow")) << "not hidden";
    std::ofstream(folder.file(next_hidden_name())) << "of this process";
    EXPECT_EQ(folder.entries(), size_t{5});
    PartialFile(folder.file("out"), false, PartialFile::Naming::kHidden).publish();
    EXPECT_EQ(folder.entries(), size_t{5});  // the new file came, the dead one's went
    EXPECT(std::filesystem::is_regular_file(folder.file("out")));
    for (const int pipe_end : ready) close(pipe_end);
}

TEST(partial_file_writes_more_pieces_than_one_call_takes) {
    TemporaryFolder folder;
    JobControl control;
    PartialFile file(folder.file("out"), false);
    std::vector<uint8_t> bytes(3000);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
    std::vector<iovec> pieces;
    for (size_t i = 0; i < bytes.size(); ++i) pieces.push_back({&bytes[i], i % 5 == 0 ? size_t{0} : size_t{1}});
    std::vector<uint8_t> large(70 << 20, 0x41);  // several calls for one piece
    pieces.push_back({large.data(), large.size()});
    file.write(0, pieces, control);
    file.publish();
    const auto written = read_file(folder.file("out"));
    EXPECT_EQ(written.size(), 2400 + large.size());
    size_t at = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
        if (i % 5 != 0) EXPECT_EQ(written[at++], bytes[i]);
    }
    // Not by the operators of vectors, whose accesses sanitizers look at one by one.
    EXPECT(std::memcmp(written.data() + 2400, large.data(), large.size()) == 0);
}

TEST(partial_file_writes_on_when_there_is_room_again) {
    for (const int error : {ENOSPC, EDQUOT}) {
        TemporaryFolder folder;
        JobControl control;
        int asked = 0;
        PartialFile file(folder.file("out"), false, PartialFile::Naming::kUnnamedIfPossible,
                         [&] { return ++asked == 1; });
        char text[] = "new";
        std::vector<iovec> pieces = {{text, 3}};
        {
            const spillway::test::WithFailingCalls full({.pwritev = error});
            file.write(0, pieces, control);
        }
        EXPECT_EQ(asked, 1);
        const spillway::test::WithFailingCalls full({.pwritev = error});
        pieces = {{text, 3}};
        EXPECT_ERROR(kDiskFull, file.write(3, pieces, control));
        EXPECT_EQ(asked, 2);
        file.publish();
        EXPECT_EQ(read_file(folder.file("out")).size(), size_t{3});
    }
}

TEST(partial_file_writes_on_after_a_signal) {
    for (const int error : {EINTR, EAGAIN}) {
        TemporaryFolder folder;
        JobControl control;
        PartialFile file(folder.file("out"), false);
        char text[] = "new";
        std::vector<iovec> pieces = {{text, 3}};
        const spillway::test::WithFailingCalls interrupted({.pwritev = error, .pwritev_times = 3});
        file.write(0, pieces, control);
        file.publish();
        EXPECT_EQ(read_file(folder.file("out")).size(), size_t{3});
    }
}

// Blocks are allocated ahead of the writes; those behind the end of the file would take space for ever.
TEST(partial_file_gives_unused_blocks_back) {
    constexpr size_t kBytes = size_t{20} << 20;
    TemporaryFolder folder;
    JobControl control;
    PartialFile file(folder.file("out"), false);
    std::vector<uint8_t> bytes(kBytes, 0x41);
    std::vector<iovec> pieces = {{bytes.data(), bytes.size()}};
    file.write(0, pieces, control);
    file.publish();
    struct stat status {};
    EXPECT_EQ(stat(folder.file("out").c_str(), &status), 0);
    EXPECT_EQ(static_cast<size_t>(status.st_size), kBytes);
    EXPECT(static_cast<size_t>(status.st_blocks) * 512 <= kBytes + (size_t{1} << 20));
}

// No space is missing then: another limit has to be raised.
TEST(partial_file_beyond_the_file_size_limit_says_what_to_raise) {
    TemporaryFolder folder;
    JobControl control;
    PartialFile file(folder.file("out"), false);
    char text[] = "new";
    std::vector<iovec> pieces = {{text, 3}};
    struct rlimit before {};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit lower { 4096, before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &lower);
    std::string message;
    try {
        file.write(8192, pieces, control);
    } catch (const Error& error) {
        message = error.message();
    }
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    EXPECT(message.find("raise the limit of file sizes (ulimit -f)") != std::string::npos);
}
