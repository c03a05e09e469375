// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/api/packed_block.hpp"

namespace spillway {

// Columns in the format of PackedBlock. Values are `width` bytes (1, 2, 4, 8 or 16) of any pattern, side by side at any
// address; least and greatest are those of signed integers. The last block of a column may have fewer than
// kPackedValues values: what it lacks counts as its base, and neither is read nor written. A block that needs all bits
// of values of 4 bytes or more has the base 0, so that its words are the values.

// Packs `rows` values and returns the bytes of words, at most those of the values in whole blocks. `to` is 64-byte
// aligned; `blocks` has packed_planes(width) elements for each block, whose lines count from `to`.
// The range of each block is taken while the one before is packed, so that memory is read without a pause: a call for
// many rows is faster than one for each block.
uint64_t pack_column(const void* values, uint32_t width, uint64_t rows, void* to, cuda::PackedBlock* blocks);
// `words` is line 0 of the column. past_caches: whole blocks are written past the caches where `to` is 64-byte aligned,
// for columns that are read when others have taken their place there: 16 workers of an H200's host wrote 97 GB/s so.
void unpack_column(const cuda::PackedBlock* blocks, const void* words, uint32_t width, uint64_t rows, void* to,
                   bool past_caches = false);

// The same for one block of 1 to kPackedValues values; packing leaves the lines to the caller, who knows what precedes.
// The second plane of values of 16 bytes follows the first at once.
uint64_t pack_block(const void* values, uint32_t width, uint64_t count, void* to, cuda::PackedBlock* blocks);
void unpack_block(const cuda::PackedBlock* blocks, const void* words, uint32_t width, uint64_t count, void* to);

// The bits per value that pack_block would take, of both planes together: packed_bytes() of it are its bytes.
uint32_t bits_of_block(const void* values, uint32_t width, uint64_t count);

}  // namespace spillway
