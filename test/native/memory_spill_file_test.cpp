// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "memory/mapped_block.hpp"
#include "memory/spill_file.hpp"
#include "memory/spill_name.hpp"
#include "support/temporary_folder.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

namespace fs = std::filesystem;
using test::detail;
using test::kMiB;
using test::TemporaryFolder;

std::vector<uint8_t> bytes_of(uint64_t seed, size_t count) {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
}

// Runs `body` with a lower RLIMIT_FSIZE; SIGXFSZ is ignored, so that a write beyond it gives EFBIG.
void with_file_size_limit(uint64_t bytes, const std::function<void()>& body) {
    struct Restore {
        struct rlimit limit {};
        void (*handler)(int) = SIG_DFL;
        ~Restore() {
            setrlimit(RLIMIT_FSIZE, &limit);
            signal(SIGXFSZ, handler);
        }
    } restore;
    getrlimit(RLIMIT_FSIZE, &restore.limit);
    restore.handler = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit lower { bytes, restore.limit.rlim_max };
    setrlimit(RLIMIT_FSIZE, &lower);
    body();
}

// `advice`: a part of the message.
void expect_disk_full(const std::function<void()>& body, const std::string& path, uint64_t wanted,
                      const std::string& advice) {
    try {
        body();
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error_code_name(error.code())), std::string("DISK_FULL"));
        EXPECT_EQ(detail(error, "path"), path);
        EXPECT_EQ(detail(error, "wantedBytes"), std::to_string(wanted));
        EXPECT_EQ(detail(error, "option"), std::string("memory.spillDirectory"));
        EXPECT(!detail(error, "freeBytes").empty());
        EXPECT(error.message().find(advice) != std::string::npos);
        EXPECT_EQ(error.message().find("free space") == std::string::npos, advice != "free space there");
        return;
    }
    EXPECT(false);
}

std::shared_ptr<SpillSpace> space_in(const std::string& folder) {
    return std::make_shared<SpillSpace>(folder);
}

// Fills a tmpfs of 1 MiB in a mount namespace of a child. Exit code: 0 right, 1 wrong, 77 not permitted here.
int fill_small_file_system(const std::string& folder) {
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (mount("none", folder.c_str(), "tmpfs", 0, "size=1m,mode=0777") != 0) return 77;
    try {
        JobControl control;
        SpillFile file(space_in(folder), control);
        const auto data = bytes_of(1, 400 << 10);
        const SpillFile::Position first = file.write({{data.data(), data.size()}});
        file.write({{data.data(), data.size()}});
        expect_disk_full([&] { file.write({{data.data(), data.size()}}); }, folder, data.size(), "free space there");
        std::vector<uint8_t> back(data.size());
        file.read(first, back.data(), back.size());
        return back == data ? 0 : 1;
    } catch (const std::exception&) {
        return 1;
    }
}

}  // namespace

TEST(memory_spill_file_reads_back_what_it_wrote) {
    const TemporaryFolder folder;
    JobControl control;
    {
        SpillFile file(space_in(folder.path()), control);
        const auto a = bytes_of(1, 100'000);
        const auto b = bytes_of(2, 7);
        const SpillFile::Position at_a = file.write({{a.data(), a.size()}});
        const SpillFile::Position at_b = file.write({{b.data(), b.size()}});
        EXPECT(folder.entries() == 0);  // has no name
        file.prefetch(at_a, a.size());
        std::vector<uint8_t> back(b.size());
        file.read(at_b, back.data(), back.size());
        EXPECT(back == b);
        back.resize(a.size());
        file.read(at_a, back.data(), back.size());
        EXPECT(back == a);
        EXPECT_EQ(control.spilled_bytes.load(), a.size() + b.size());
        EXPECT_EQ(control.unspilled_bytes.load(), a.size() + b.size());
        // Two writers never meet in a page, and none is read before it is written.
        const auto page = static_cast<int64_t>(system_page_bytes());
        EXPECT_EQ(at_b.offset % page, 0);
        EXPECT_ERROR(kFileTruncated, file.read({at_b.offset + page, at_b.shard}, back.data(), 8));
        EXPECT_ERROR(kFileTruncated, file.read({1 << 30, 0}, back.data(), 8));
    }
    EXPECT(folder.entries() == 0);
}

TEST(memory_spill_file_writes_pieces_as_one) {
    const TemporaryFolder folder;
    JobControl control;
    SpillFile file(space_in(folder.path()), control);
    std::vector<uint8_t> wanted;
    std::vector<std::vector<uint8_t>> parts;
    std::vector<SpillPiece> pieces;
    for (uint64_t i = 0; i < 3000; ++i) parts.push_back(bytes_of(i, i % 97));  // more than one call takes, empty ones
    for (const auto& part : parts) {
        wanted.insert(wanted.end(), part.begin(), part.end());
        pieces.push_back({part.data(), part.size()});
    }
    file.write({{wanted.data(), 100}});
    const SpillFile::Position position = file.write(pieces);
    std::vector<uint8_t> back(wanted.size());
    file.read(position, back.data(), back.size());
    EXPECT(back == wanted);
}

TEST(memory_spill_space_gives_files_to_the_next_job) {
    const TemporaryFolder folder;
    const auto space = space_in(folder.path());
    const auto large = bytes_of(1, 3 * kMiB);
    const auto small = bytes_of(2, 5000);
    const auto run = [&](const std::vector<uint8_t>& data, JobControl& control) {
        SpillFile file(space, control);
        const SpillFile::Position position = file.write({{data.data(), data.size()}});
        EXPECT_EQ(position.offset, 0);
        std::vector<uint8_t> back(data.size());
        file.read(position, back.data(), back.size());
        EXPECT(back == data);
    };
    JobControl control;
    run(large, control);
    EXPECT_EQ(space->kept_bytes(), 3 * kMiB);
    run(small, control);  // over the larger one: it stays as large as it was
    EXPECT_EQ(space->kept_bytes(), 3 * kMiB);
    {
        SpillFile both(space, control, 2);
        both.write({{small.data(), small.size()}}, 6);
        both.write({{small.data(), small.size()}}, 7);
        EXPECT_EQ(space->kept_bytes(), 0u);
    }
    const uint64_t page = system_page_bytes();
    EXPECT_EQ(space->kept_bytes(), 3 * kMiB + (5000 + page - 1) / page * page);
    space->trim();
    EXPECT_EQ(space->kept_bytes(), 0u);
    JobControl stopped;
    {
        SpillFile file(space, stopped);
        file.write({{small.data(), small.size()}});
        stopped.cancelled = true;
    }
    EXPECT_EQ(space->kept_bytes(), 0u);
}

TEST(memory_spill_file_is_safe_for_many_threads) {
    const TemporaryFolder folder;
    JobControl control;
    SpillFile file(space_in(folder.path()), control, 4);
    std::atomic<int> faults{0};
    std::atomic<uint64_t> written{0};
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 6; ++t) {
        threads.emplace_back([&, t] {
            std::vector<std::pair<SpillFile::Position, std::vector<uint8_t>>> extents;
            for (uint64_t i = 0; i < 40; ++i) {
                auto data = bytes_of(t * 1000 + i, 1000 + (i * 7919) % 70'000);
                const SpillFile::Position position = file.write({{data.data(), data.size()}}, t);
                written += data.size();
                extents.emplace_back(position, std::move(data));
            }
            for (const auto& [position, data] : extents) {
                std::vector<uint8_t> back(data.size());
                file.read(position, back.data(), back.size());
                if (back != data) ++faults;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(faults.load(), 0);
    EXPECT_EQ(control.spilled_bytes.load(), written.load());
    EXPECT_EQ(control.unspilled_bytes.load(), written.load());
}

TEST(memory_spill_file_checks_its_folder) {
    const TemporaryFolder folder;
    JobControl control;
    EXPECT_ERROR(kInvalidArgument, SpillFile(space_in(folder.path() + "/missing"), control));
    std::ofstream(folder.path() + "/file") << "x";
    EXPECT_ERROR(kInvalidArgument, SpillFile(space_in(folder.path() + "/file"), control));
    if (geteuid() != 0) {  // the superuser may write everywhere
        chmod(folder.path().c_str(), 0500);
        EXPECT_ERROR(kInvalidArgument, SpillFile(space_in(folder.path()), control));
        chmod(folder.path().c_str(), 0700);
    }
    SpillFile none(space_in(""), control);  // no spill folder: an error only when the job must spill
    EXPECT_ERROR(kInvalidArgument, none.write({{"x", 1}}));
}

TEST(memory_spill_file_says_when_the_disk_is_full) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    if (child == 0) _exit(fill_small_file_system(folder.path()));
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}

TEST(memory_spill_file_in_a_folder_that_vanished_names_the_option) {
    const TemporaryFolder folder;
    const std::string path = folder.file("gone");
    for (const bool replaced : {false, true}) {
        fs::create_directory(path);
        JobControl control;
        SpillFile file(space_in(path), control);
        fs::remove(path);
        if (replaced) std::ofstream(path) << "a file of that name";
        try {
            file.write({{"12345678", 8}});
            EXPECT(false);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), std::string("INVALID_ARGUMENT"));
            EXPECT_EQ(detail(error, "option"), std::string("memory.spillDirectory"));
            EXPECT_EQ(detail(error, "path"), path);
            EXPECT(error.message().find(replaced ? "is not a folder" : "does not exist") != std::string::npos);
        }
    }
}

TEST(memory_spill_file_stops_at_the_file_size_limit) {
    const std::string kRaise = "raise that limit (ulimit -f)";
    const TemporaryFolder folder;
    JobControl control;
    const auto data = bytes_of(3, kMiB);
    with_file_size_limit(kMiB + 1000, [&] {  // known before the write: no signal is raised
        SpillFile file(space_in(folder.path()), control);
        signal(SIGXFSZ, SIG_DFL);
        file.write({{data.data(), data.size()}});
        expect_disk_full([&] { file.write({{data.data(), data.size()}}); }, folder.path(), data.size(), kRaise);
    });
    with_file_size_limit(2 * kMiB, [&] {  // to the last byte
        SpillFile file(space_in(folder.path()), control);
        for (int i = 0; i < 2; ++i) file.write({{data.data(), data.size()}});
    });
    SpillFile file(space_in(folder.path()), control);
    const SpillFile::Position first = file.write({{data.data(), data.size()}});
    with_file_size_limit(kMiB + 1000, [&] {  // found out by the kernel after a short write: EFBIG
        expect_disk_full([&] { file.write({{data.data(), data.size()}}); }, folder.path(), data.size(), kRaise);
    });
    std::vector<uint8_t> back(data.size());
    file.read(first, back.data(), back.size());
    EXPECT(back == data);
}

}  // namespace spillway
