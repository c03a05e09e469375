// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// Frame-of-reference bit packing of a page of fixed-width rows, one stream per 8-byte word of the row: base = minimum,
// width = bits of (maximum - minimum). Row words that are constant (radix bits, NULL bytes, small payloads) cost
// nothing. Source: design.md section 4 (spilled pages are packed); scheme after Lemire and Boytsov, "Decoding billions
// of integers per second through vectorization" (2015).

// Upper bound of the packed size of a page.
uint64_t packed_bytes_max(uint32_t rows, uint32_t row_bytes);
// Packs rows x row_bytes (a multiple of 8) into `packed`; returns bytes used, or 0 when it would not shrink below 7/8
// of the raw size.
uint64_t pack_rows(const uint8_t* rows_begin, uint32_t rows, uint32_t row_bytes, uint8_t* packed);
// Inverse. Throws kInternal when the header does not match rows / row_bytes.
void unpack_rows(const uint8_t* packed, uint64_t packed_bytes, uint32_t rows, uint32_t row_bytes, uint8_t* rows_begin);

}  // namespace spillway
