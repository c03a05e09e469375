// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace spillway {

// Names of files that end with their process: <prefix><pid>-<start time of the process>-<n><suffix>. The start time
// tells a process from a later one with the same pid.
std::string next_owned_name(const std::string& prefix, const std::string& suffix = "");
// Was `name` made by next_owned_name() in a process that has ended? False when in doubt.
bool is_abandoned_name(const std::string& name, const std::string& prefix, const std::string& suffix = "");
// Locks a file of such a name as alive: processes of other pid namespaces, which cannot see its owner, leave it alone.
void lock_owned_file(int descriptor);
// Removes such files of ended processes from the folder: regular ones of this user that nobody has locked. Throws
// nothing, and what cannot be removed stays for the next time.
void remove_abandoned_files(const std::string& folder, const std::string& prefix, const std::string& suffix = "");

}  // namespace spillway
