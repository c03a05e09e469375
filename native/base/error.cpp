// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cerrno>
#include <cstring>

namespace spillway {

const char* error_code_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::kInvalidArgument:
            return "INVALID_ARGUMENT";
        case ErrorCode::kUnknownColumn:
            return "UNKNOWN_COLUMN";
        case ErrorCode::kDuplicateColumn:
            return "DUPLICATE_COLUMN";
        case ErrorCode::kKeyTypeMismatch:
            return "KEY_TYPE_MISMATCH";
        case ErrorCode::kUnsupportedType:
            return "UNSUPPORTED_TYPE";
        case ErrorCode::kFileNotFound:
            return "FILE_NOT_FOUND";
        case ErrorCode::kFileUnreadable:
            return "FILE_UNREADABLE";
        case ErrorCode::kFileCorrupt:
            return "FILE_CORRUPT";
        case ErrorCode::kFileTruncated:
            return "FILE_TRUNCATED";
        case ErrorCode::kFileChanged:
            return "FILE_CHANGED";
        case ErrorCode::kOutputExists:
            return "OUTPUT_EXISTS";
        case ErrorCode::kOutputFailed:
            return "OUTPUT_FAILED";
        case ErrorCode::kDiskFull:
            return "DISK_FULL";
        case ErrorCode::kBudgetTooSmall:
            return "BUDGET_TOO_SMALL";
        case ErrorCode::kOutOfMemory:
            return "OUT_OF_MEMORY";
        case ErrorCode::kIntegerOverflow:
            return "INTEGER_OVERFLOW";
        case ErrorCode::kAborted:
            return "ABORTED";
        case ErrorCode::kClosed:
            return "CLOSED";
        case ErrorCode::kNoDevice:
            return "NO_DEVICE";
        case ErrorCode::kNativeMissing:
            return "NATIVE_MISSING";
        case ErrorCode::kInternal:
            return "INTERNAL";
    }
    return "INTERNAL";
}

Error system_error(int error_number, ErrorCode fallback, const std::string& doing, const std::string& path) {
    ErrorCode code = fallback;
    std::string advice;
    if (error_number == ENOSPC || error_number == EDQUOT) {
        code = ErrorCode::kDiskFull;
        advice = "; free space there or name another folder";
    } else if (error_number == ENOENT) {
        code = ErrorCode::kFileNotFound;
        advice = "; check the path";
    } else if (error_number == EACCES || error_number == EPERM) {
        advice = "; check its permissions";
    } else if (error_number == EFBIG) {
        advice = "; raise the limit of file sizes (ulimit -f) or name a folder whose file system allows larger files";
    }
    return Error(code, doing + " '" + path + "' failed: " + std::strerror(error_number) + advice,
                 {{"path", path}, {"errno", std::to_string(error_number)}});
}

void fail_check(const char* expression, const char* file, int line) {
    throw Error(ErrorCode::kInternal, std::string("internal check failed: ") + expression + " (" + file + ":" +
                                          std::to_string(line) + "); please report it with the command that led here");
}

}  // namespace spillway
