// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace spillway {

// spillway-spill-<pid>-<start time of the process>-<n>: names of spill files on file systems without O_TMPFILE; see
// base/owned_name.hpp.
std::string next_spill_name();
// Creates a file of such a name and removes the name at once: the file lives as long as its descriptor, which is
// returned. -1 and errno when the folder does not allow it. path_left: the file's path where an open file keeps its
// name (SMB, some FUSE), else empty; for close_spill_file().
int create_unlinked_spill_file(const std::string& directory, std::string& path_left);
void close_spill_file(int descriptor, const std::string& path_left) noexcept;

}  // namespace spillway
