// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// The magic of the file format and its padding.
inline constexpr int64_t kIpcHeadBytes = 8;
// In front of the length of a message since Arrow 0.15; before, the length stood alone.
inline constexpr uint32_t kIpcContinuation = 0xFFFFFFFFu;
// Continuation marker and length of the metadata of a message.
inline constexpr int64_t kIpcPrefixBytes = 8;
// Metadata of one message: 100,000 columns with NULLs take about 8 MiB.
inline constexpr int64_t kIpcMetadataBytesMax = int64_t{256} << 20;
// As the format numbers it: since Arrow 1.0.
inline constexpr int16_t kMetadataV5 = 4;

}  // namespace spillway
