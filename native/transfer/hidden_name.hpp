// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace spillway {

// .spillway-<pid>-<start time of the process>-<n>.partial: of a result that is not yet whole; see base/owned_name.hpp.
std::string next_hidden_name();
// Removes those in this folder whose process was killed before it could.
void remove_stale_hidden_files(int folder);
// Way to a file without a name, by which it can be given one.
std::string descriptor_path(int descriptor);
// Can a file without a name (O_TMPFILE) in this folder be named later? To be known before the first row is written:
// afterwards the whole result would be lost.
bool takes_names_later(int folder);

}  // namespace spillway
