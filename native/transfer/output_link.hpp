// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <string>

namespace spillway {

// The folder of a path, with its slash; "." where the path has none.
std::string folder_of(const std::string& path);
// May `user` write through this symbolic link of this folder? As Linux decides by fs.protected_symlinks, which not
// every system has switched on: not through another user's link in a sticky folder that everybody may write to.
bool may_follow_link(const struct stat& link, const struct stat& folder, uid_t user);
// The file behind symbolic links, be it there or not: publishing replaces a name, and the links themselves are to stay.
// Throws kOutputFailed for one that may not be followed: it leads where somebody else wants this user to write.
std::string resolve_output_links(const std::string& path);

}  // namespace spillway
