// SPDX-License-Identifier: Apache-2.0
#include "support/failing_calls.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> failing_linkat{0};
std::atomic<int> failing_renameat2{0};
std::atomic<int> failing_unlink{0};
std::atomic<int> failing_pwritev{0};
std::atomic<int> pwritev_failures_left{0};
std::atomic<int> failing_fchmod{0};
std::atomic<std::atomic<bool>*> pwritten{nullptr};

bool fails(const std::atomic<int>& error) {
    if (error.load() == 0) return false;
    errno = error.load();
    return true;
}

}  // namespace

namespace spillway::test {

WithFailingCalls::WithFailingCalls(const FailingCalls& calls) {
    failing_linkat = calls.linkat;
    failing_renameat2 = calls.renameat2;
    failing_unlink = calls.unlink;
    failing_fchmod = calls.fchmod;
    pwritev_failures_left = calls.pwritev == 0 ? 0 : calls.pwritev_times;
    failing_pwritev = calls.pwritev;
    pwritten = calls.pwritten;
}

WithFailingCalls::~WithFailingCalls() {
    failing_linkat = failing_renameat2 = failing_unlink = failing_fchmod = failing_pwritev = 0;
    pwritten = nullptr;
}

}  // namespace spillway::test

// The functions of the C library: those of the program itself come first. glibc declares them noexcept, others do not.
extern "C" {

int linkat(int from, const char* source, int to, const char* name,
           int flags) noexcept(noexcept(::linkat(0, "", 0, "", 0))) {
    if (fails(failing_linkat)) return -1;
    return static_cast<int>(syscall(SYS_linkat, from, source, to, name, flags));
}

int renameat2(int from, const char* source, int to, const char* name,
              unsigned flags) noexcept(noexcept(::renameat2(0, "", 0, "", 0))) {
    if (fails(failing_renameat2)) return -1;
    return static_cast<int>(syscall(SYS_renameat2, from, source, to, name, flags));
}

int unlink(const char* path) noexcept(noexcept(::unlink(""))) {
    if (fails(failing_unlink)) return -1;
    return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

ssize_t pwritev(int file, const struct iovec* parts, int count, off_t offset) {
    if (failing_pwritev.load() != 0 && pwritev_failures_left.fetch_sub(1) > 0 && fails(failing_pwritev)) return -1;
    // The offset comes in two words, of which the second is for systems of 32 bits.
    const ssize_t bytes = syscall(SYS_pwritev, file, parts, count, offset, 0);
    if (std::atomic<bool>* const flag = pwritten.load(); flag != nullptr && bytes >= 0) *flag = true;
    return bytes;
}

int fchmod(int file, mode_t mode) noexcept(noexcept(::fchmod(0, 0))) {
    if (fails(failing_fchmod)) return -1;
    return static_cast<int>(syscall(SYS_fchmod, file, mode));
}
}
