// SPDX-License-Identifier: Apache-2.0
#pragma once

// The numbers that tune the writing of row numbers; nothing else in cuda/primitive/row_numbers.cu has any. Both kernels
// only write, and need no more threads than keep the memory busy: as many as the joins by sorting had for it. Not
// measured yet.
namespace spillway::cuda { inline namespace primitive {

constexpr unsigned kNumberThreads = 256;
constexpr unsigned kNumberBlocksPerMultiprocessor = 8;

}}  // namespace spillway::cuda::primitive
