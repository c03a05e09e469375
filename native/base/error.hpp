// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

// Closed list; src/errors.ts holds the same names and test/architecture compares them.
enum class ErrorCode : uint8_t {
    kInvalidArgument,
    kUnknownColumn,
    kDuplicateColumn,
    kKeyTypeMismatch,
    kUnsupportedType,
    kFileNotFound,
    kFileUnreadable,
    kFileCorrupt,
    kFileTruncated,
    kFileChanged,
    kOutputExists,
    kOutputFailed,
    kDiskFull,
    kBudgetTooSmall,
    kOutOfMemory,
    kIntegerOverflow,
    kAborted,
    kClosed,
    kNoDevice,
    kNativeMissing,
    kInternal,
};

const char* error_code_name(ErrorCode code);  // "INVALID_ARGUMENT", ...

// The one exception of the engine. Thrown for operating errors (bad file, full disk, budget); bugs use SPILLWAY_CHECK,
// which throws kInternal, so that a defect ends the job and not the user's process.
// `message` says what was wanted, what was there and what to change; details are machine-readable (tier, wantedBytes,
// freeBytes, option, path ...), numbers as decimal text.
class Error : public std::exception {
  public:
    Error(ErrorCode code, std::string message, std::vector<std::pair<std::string, std::string>> details = {})
        : code_(code), message_(std::move(message)), details_(std::move(details)) {}

    const char* what() const noexcept override { return message_.c_str(); }
    ErrorCode code() const { return code_; }
    const std::string& message() const { return message_; }
    const std::vector<std::pair<std::string, std::string>>& details() const { return details_; }

  private:
    ErrorCode code_;
    std::string message_;
    std::vector<std::pair<std::string, std::string>> details_;
};

// An Error for a failed system call: maps ENOSPC/EDQUOT to kDiskFull, ENOENT to kFileNotFound, else `fallback`.
[[nodiscard]] Error system_error(int error_number, ErrorCode fallback, const std::string& doing,
                                 const std::string& path);

[[noreturn]] void fail_check(const char* expression, const char* file, int line);

}  // namespace spillway

#define SPILLWAY_CHECK(expression) \
    (static_cast<bool>(expression) ? void(0) : ::spillway::fail_check(#expression, __FILE__, __LINE__))
