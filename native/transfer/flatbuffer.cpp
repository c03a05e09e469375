// SPDX-License-Identifier: Apache-2.0
#include "transfer/flatbuffer.hpp"

namespace spillway {

Error damaged_file(const std::string& path, const std::string& reason) {
    return Error(ErrorCode::kFileCorrupt, "'" + path + "' is not a sound Arrow IPC file: " + reason, {{"path", path}});
}

Error truncated_file(const std::string& path, const std::string& reason) {
    return Error(ErrorCode::kFileTruncated, "'" + path + "' ends too early: " + reason + "; write it again",
                 {{"path", path}});
}

}  // namespace spillway
