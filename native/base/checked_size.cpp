// SPDX-License-Identifier: Apache-2.0
#include "base/checked_size.hpp"

#include <string>

#include "base/error.hpp"

namespace spillway {

void fail_size(const char* what) {
    throw Error(ErrorCode::kUnsupportedType,
                std::string("the number of ") + what +
                    " is larger than the engine can count; read fewer rows at a time or drop the column with 'select'");
}

}  // namespace spillway
