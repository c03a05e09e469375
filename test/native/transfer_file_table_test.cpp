// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "support/temporary_folder.hpp"
#include "support/test.hpp"
#include "transfer/file_table.hpp"

using spillway::file_stamp;
using spillway::FileTable;

namespace {

constexpr uint32_t kExt4 = 0xEF53;
constexpr uint32_t kFuse = 0x65735546;
constexpr uint32_t kNfs = 0x6969;
constexpr uint32_t kSmb = 0xFE534D42;

struct stat some_file() {
    struct stat status {};
    status.st_dev = 3;
    status.st_ino = 17;
    status.st_size = 4096;
    status.st_mtim = {1000, 5};
    return status;
}

}  // namespace

// There the same file has other numbers when it is opened again.
TEST(file_stamp_trusts_no_numbers_of_network_file_systems) {
    const struct stat before = some_file();
    struct stat again = before;
    again.st_ino = 18;
    again.st_dev = 4;
    EXPECT(file_stamp(before, kExt4) != file_stamp(again, kExt4));
    for (const uint32_t system : {kFuse, kNfs, kSmb}) EXPECT_EQ(file_stamp(before, system), file_stamp(again, system));
}

TEST(file_stamp_tells_written_files) {
    struct stat longer = some_file();
    longer.st_size += 1;
    struct stat later = some_file();
    later.st_mtim.tv_nsec += 1;
    struct stat moded = some_file();
    moded.st_ctim = {2000, 0};
    for (const uint32_t system : {kExt4, kFuse}) {
        const std::string stamp = file_stamp(some_file(), system);
        EXPECT(stamp != file_stamp(longer, system));
        EXPECT(stamp != file_stamp(later, system));
        EXPECT_EQ(stamp, file_stamp(moded, system));
    }
}

// A write that leaves the size as it is, some rows of which a query may have read before.
TEST(file_table_tells_of_a_file_that_is_written_to_while_it_is_read) {
    const TemporaryFolder folder;
    const std::string path = folder.file("rows");
    std::ofstream(path) << std::string(100, 'a');
    const FileTable files({path});
    std::array<uint8_t, 10> bytes{};
    files.read(0, 90, bytes.data(), 10);
    EXPECT_EQ(bytes[9], 'a');
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(::pwrite(descriptor, "b", 1, 50), 1);
    const timespec later[] = {{2'000'000'000, 0}, {2'000'000'000, 0}};  // whatever the file system's clock is worth
    EXPECT_EQ(::futimens(descriptor, later), 0);
    EXPECT_ERROR(kFileChanged, files.read(0, 90, bytes.data(), 10));
    EXPECT_EQ(::ftruncate(descriptor, 95), 0);
    EXPECT_ERROR(kFileTruncated, files.read(0, 0, bytes.data(), 10));
    EXPECT_ERROR(kFileTruncated, files.read(0, 90, bytes.data(), 10));
    ::close(descriptor);
}
