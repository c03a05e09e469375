// SPDX-License-Identifier: Apache-2.0
#include "transfer/output_link.hpp"

#include <limits.h>
#include <unistd.h>

#include "base/error.hpp"

namespace spillway {

namespace {

constexpr int kLinksMax = 40;  // as the kernel follows

// What a symbolic link says, as a path from where the process is.
std::string link_target(const std::string& path) {
    char text[PATH_MAX];
    const ssize_t bytes = readlink(path.c_str(), text, sizeof text);
    if (bytes <= 0 || bytes == static_cast<ssize_t>(sizeof text)) return path;
    const std::string target(text, static_cast<size_t>(bytes));
    return target[0] == '/' || path.find('/') == std::string::npos ? target : folder_of(path) + target;
}

}  // namespace

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

bool may_follow_link(const struct stat& link, const struct stat& folder, uid_t user) {
    constexpr mode_t kForEverybody = S_ISVTX | S_IWOTH;
    return link.st_uid == user || (folder.st_mode & kForEverybody) != kForEverybody || folder.st_uid == link.st_uid;
}

std::string resolve_output_links(const std::string& path) {
    std::string last = path;
    for (int link = 0; link < kLinksMax; ++link) {
        struct stat found {};
        if (lstat(last.c_str(), &found) != 0) return last;
        if (!S_ISLNK(found.st_mode)) return last;
        struct stat folder {};
        if (stat(folder_of(last).c_str(), &folder) == 0 && !may_follow_link(found, folder, geteuid())) {
            throw Error(ErrorCode::kOutputFailed,
                        "cannot write '" + path + "': '" + last + "' is a symbolic link of another user in a folder " +
                            "that everybody may write to; name the file that it leads to, or another",
                        {{"path", path}, {"link", last}});
        }
        const std::string target = link_target(last);
        // Links of /proc lead to what has no path of its own (a pipe): check_target says so.
        struct stat end {};
        if (stat(last.c_str(), &end) == 0 && stat(target.c_str(), &end) != 0) return last;
        last = target;
    }
    return last;
}

}  // namespace spillway
